"""Names in files of reports: which are the report's own, and which are of what was used."""

from billing.operations.chargeback import ChargebackHead, HeadKind
from billing.operations.chargeback_export import column_names
from core.operations import MoneyAmount


def test_no_name_is_taken_for_the_reports_own() -> None:
    """A model called `total`, two keys of one name, one that only looks as if it had an id behind it."""
    names = ["total", "(none)", "prod", "prod", "a [key k9]", "gpt", ""]
    heads = [head_of(f"k{number}", name) for number, name in enumerate(names)]
    own = [head_of("", "", kind=kind) for kind in (HeadKind.TIERS, HeadKind.NOBODY, HeadKind.OTHER)]
    found = column_names([*heads, *own], "key")
    assert found[:4] == ["total [key k0]", "(none) [key k1]", "prod [key k2]", "prod [key k3]"]
    assert found[4:] == ["a [key k9] [key k4]", "gpt", " [key k6]", "(tiers)", "(none)", "(3 others)"]
    assert len({*found, "total", "row_kind", "row_id"}) == len(found) + 3


def head_of(of: str, name: str, kind: HeadKind = HeadKind.VALUE) -> ChargebackHead:
    """A column's head."""
    return ChargebackHead(kind=kind, of=of, name=name, more=3, total=MoneyAmount.of(1))
