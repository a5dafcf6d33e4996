"""What operators read of books that differ and of tenants who take more than their share."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from admin import findings
from admin.findings import NoisyTenant, comparison_overview, read_comparisons, read_noisy
from billing.api import Check, Comparison, NoisyFinding

DIFFERS = Comparison(Check.R1, "t1", "input", "nano", 2, 1, age_ms=5, detail="since noon")
FINDING = NoisyFinding(
    tenant_id="t1",
    id="f1",
    pool="p",
    opened_ms=1,
    updated_ms=2,
    share_permille=900,
    fair_permille=500,
    used_tokens=10_000,
    others_wait_ms=4_000,
    baseline_wait_ms=600,
    slots_max=2,
    throttled_ms=1,
    proposal={},
)


class FindingsWorld:
    """What is kept, and how often names were asked for."""

    def __init__(self) -> None:
        self.found: list[NoisyFinding] = []
        self.asked = 0

    async def list_findings(self, _: object) -> list[NoisyFinding]:
        """As billing's."""
        return self.found

    async def tenant_names(self, _: object, ids: Iterable[str] | None = None) -> dict[str, str]:
        """As billing's, which asks for nobody's where none are named."""
        self.asked += ids is None or any(ids)
        return {"t1": "acme"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> FindingsWorld:
    """In place of SQL."""
    made = FindingsWorld()
    for name in ("list_findings", "tenant_names"):
        monkeypatch.setattr(findings, name, getattr(made, name))
    return made


async def test_tenants_are_named_where_books_differ(world: FindingsWorld):
    """One whose name is gone by its id; where all is equal nobody's is asked for."""
    nothing: Any = None
    equal = replace(DIFFERS, actual=2)
    assert (await read_comparisons(nothing, [equal])).disagreements == []
    assert world.asked == 0
    books = await read_comparisons(nothing, [equal, DIFFERS, replace(DIFFERS, tenant_id="t2")])
    assert [each.name for each in books.disagreements] == ["acme", "t2"]
    assert world.asked == 1


def test_what_differs_stands_first_in_words():
    """Differences stand before what waits, money as money, tenants by name, a pool's without one."""
    compared = [
        Comparison(Check.R4, "t1", "budget", "nano", 10, 5, waiting="requests end now"),
        Comparison(Check.R5, "", "default", "tokens", 1000, 2000, age_ms=60_000),
        Comparison(Check.R1, "t1", "input", "nano", 1_500_000_000, 1_500_000_001),
        Comparison(Check.R1, "t2", "input", "nano", 7, 7),
    ]
    books = comparison_overview(compared, {"t1": "acme"})
    assert [(each.check, each.compared, each.differing, each.waiting) for each in books.checks] == [
        ("R1", 2, 1, 0),
        ("R4", 1, 0, 1),
        ("R5", 1, 1, 0),
    ]
    assert [(each.check, each.name, each.difference) for each in books.disagreements] == [
        ("R1", "acme", "$0.000000001"),
        ("R5", "", "1,000 tokens"),
        ("R4", "acme", "-$0.000000005"),
    ]
    assert (books.disagreements_total, books.disagreements[2].detail) == (3, "requests end now")
    many = comparison_overview([compared[1]] * 200, {})
    assert (len(many.disagreements), many.disagreements_total) == (100, 200)


def test_what_differs_longest_stands_first():
    """Within a check; with what was expected and found, in words."""
    compared = [DIFFERS, replace(DIFFERS, age_ms=7), replace(DIFFERS, check=Check.R4, age_ms=9)]
    found = comparison_overview(compared, {}).disagreements
    assert [(each.check, each.age_ms) for each in found] == [("R1", 7), ("R1", 5), ("R4", 9)]
    one = found[1]
    assert (one.subject, one.state, one.detail) == ("input", "differs", "since noon")
    assert (one.expected, one.found, one.difference) == ("$0.000000002", "$0.000000001", "-$0.000000001")


async def test_the_noisy_are_named_with_all_that_is_known(world: FindingsWorld):
    """A hundred at the most; who is not throttled may run what it likes."""
    nothing: Any = None
    assert await read_noisy(nothing) == []
    assert world.asked == 0
    free = FINDING.model_copy(update={"id": "f2", "tenant_id": "t2", "throttled_ms": None})
    world.found = [FINDING, free]
    assert await read_noisy(nothing) == [
        NoisyTenant("f1", "t1", "acme", "p", 1, 2, 900, 500, 4_000, 600, 2),
        NoisyTenant("f2", "t2", "t2", "p", 1, 2, 900, 500, 4_000, 600, None),
    ]
    world.found = [FINDING] * 101
    assert len(await read_noisy(nothing)) == 100
