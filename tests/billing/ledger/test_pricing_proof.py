"""A request that another version priced than one that was in force when it was admitted is named."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from billing.ledger import pricing_proof
from billing.ledger.pricing_proof import (
    ADMITTED_MS_MAX,
    KEPT_MS,
    PricingCheck,
    PricingHistory,
    TenantPriceBook,
    VersionStart,
    pricing_fault,
)
from chaos.tampering.unguarded import unguarded_file
from core.clock import now_ms
from tests.billing.cli.commands import Command, used
from tests.billing.cli.commands import parley as parley  # the fixture
from tests.billing.events import PRICES, an_event, priced

ANY = frozenset({"*"})
HOUR_MS = 3_600_000
BOOKS = {
    "default": TenantPriceBook(
        None,
        [VersionStart(0, 1, ANY), VersionStart(10 * HOUR_MS, 2, ANY), VersionStart(20 * HOUR_MS, 3, ANY)],
    ),
    "own": TenantPriceBook("default", [VersionStart(5 * HOUR_MS, 1, frozenset({"large"}))]),
}


def at(hour: float, book: str, version: int, model: str = "small", waited_ms: int = 100) -> PricingCheck:
    """A request that was accepted at an hour, and claimed after it had waited."""
    accepted = int(hour * HOUR_MS)
    claimed = accepted + waited_ms
    return PricingCheck("r", model, accepted, claimed, claimed + 1_000, claimed + 2_000, book, version)


@pytest.mark.parametrize(
    ("request_of", "right"),
    [
        (at(1, "default", 1), True),
        (at(1, "default", 2), False),
        (at(11, "default", 2), True),
        (at(11, "default", 1), False),
        (at(11, "default", 9), False),
        (at(11, "nobodys", 1), False),
        (at(1, "", 0), True),
        (at(10 + (KEPT_MS - 10) / HOUR_MS, "default", 1), True),
        (at(10 + (KEPT_MS + 10) / HOUR_MS, "default", 1), False),
        (at(10 - 90 / HOUR_MS, "default", 2), True),
        (at(10 - 110 / HOUR_MS, "default", 2), False),
        (at(9.999, "default", 2, waited_ms=HOUR_MS), True),
        (at(10 - (ADMITTED_MS_MAX + 10) / HOUR_MS, "default", 2, waited_ms=HOUR_MS), False),
        (at(16, "own", 1, "large"), True),
        (at(16, "default", 2), True),
        (at(16, "default", 2, "large"), False),
        (at(26, "default", 3, "large"), True),
        (at(26, "own", 1, "large"), False),
    ],
)
def test_what_priced_a_request_was_in_force_when_it_was_admitted(
    request_of: PricingCheck, right: bool
) -> None:
    """Of its book, or what that takes from its parent; between acceptance and claim; with what gateways kept.
    The tenant pays by `own` from the 15th hour to the 25th; what was before nobody knows."""
    paid_by = [(15 * HOUR_MS, "own"), (25 * HOUR_MS, "default")]
    assert (pricing_fault(PricingHistory(BOOKS, paid_by), request_of) == "") is right


def test_what_no_price_was_there_for_is_priced_as_of_when_it_was_booked() -> None:
    """Not as of its end: the first version began between the two."""
    begins = 30 * HOUR_MS
    pricing = PricingHistory({"new": TenantPriceBook(None, [VersionStart(begins, 1, ANY)])}, [])
    at_end = PricingCheck("r", "small", begins - 9_000, begins - 8_000, begins - 7_000, begins - 1, "new", 1)
    assert pricing_fault(pricing, at_end) != ""
    assert pricing_fault(pricing, at_end._replace(posted_ms=begins)) == ""


def test_verify_names_what_another_version_priced(
    parley: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One before its time, one that was withdrawn, and one of a book that the tenant did not pay by; all
    pages are read."""
    monkeypatch.setattr(pricing_proof, "REQUESTS_AT_ONCE", 1)
    file = tmp_path / "next.toml"
    for name in ("default", "silver"):
        text = f'book = "{name}"\n[models."*"]\ninput = "0.1"\ncached_input = "0.025"\noutput = "0.4"\n'
        file.write_text(text + "request = '0.1'")
        assert parley("prices", "import", str(file)).exit_code == 0
    now = now_ms() + 1
    versions = (("a", "default", 1), ("b", "default", 2), ("c", "silver", 1), ("d", "default", 1))
    events = [
        an_event(
            name,
            accepted_ms=now,
            ended_ms=now,
            prices=msgspec.structs.replace(PRICES, book=book, version=version),
        )
        for name, book, version in versions
    ]
    used(home, [priced(event) for event in events])
    verified = parley("audit", "verify", "--json")
    assert verified.exit_code == 1
    named = {line.split(": ")[1] for line in verified.stderr.splitlines() if "priced by" in line}
    assert named == {"request b", "request c"}
    with closing(sqlite3.connect(home / "parley.db")) as connection, connection, unguarded_file(connection):
        connection.execute("UPDATE price_version SET withdrawn_ms = 1, valid_from_ms = 0 WHERE version = 1")
    again = parley("audit", "verify").stderr
    assert "request a: priced by version 1 of 'default'" in again


def test_books_that_were_priced_right_are_whole(parley: Command, home: Path) -> None:
    """Nothing is said of them, whatever the tenant pays by since."""
    used(home, [an_event("a", accepted_ms=now_ms(), ended_ms=now_ms()), an_event("old")])
    assert parley("audit", "verify").exit_code == 0
