"""Keeps what the last comparison of all books found, for who looks without comparing anew.

One row of `recon_mark`, of the platform: its time, and of each check how many agree and which do not.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from billing.reconciliation.comparison import Check, Comparison, ComparisonState
from billing.tables.reconciliation import ReconMark
from billing.tables.tenants import PLATFORM
from core.names import storable_name
from core.sql.database import Database, upsert

LAST_RUN = "last_run"  # chain of the ReconMark that has it
SHOWN_MAX = 20  # of each check


class StoredComparison(msgspec.Struct, frozen=True):
    """A comparison that is not equal. Numbers are text: workers write some, of any size. `why`: the
    difference in detail, or what it waits for."""

    tenant: str
    subject: str
    unit: str
    expected: str
    actual: str
    difference: str
    state: ComparisonState
    age_ms: int
    why: str

    @classmethod
    def of(cls, compared: Comparison) -> "StoredComparison":
        """The facts of a comparison, as a database can hold them."""
        return cls(
            tenant=compared.tenant_id,
            subject=storable_name(compared.subject),
            unit=compared.unit,
            expected=str(compared.expected),
            actual=str(compared.actual),
            difference=str(compared.difference),
            state=compared.state,
            age_ms=compared.age_ms,
            why=storable_name(compared.waiting or compared.detail),
        )


class StoredCheck(msgspec.Struct, frozen=True):
    """Counts of a check's comparisons; of those that are not equal the first SHOWN_MAX, differences first,
    then the oldest."""

    compared: int
    differing: int
    waiting: int
    unequal: list[StoredComparison]


class LastRun(msgspec.Struct, frozen=True):
    """What was found, by check, at a time in Unix ms."""

    at_ms: int
    checks: dict[str, StoredCheck]


def checks_of(compared: Sequence[Comparison]) -> dict[str, StoredCheck]:
    """Comparisons in brief. Pure."""
    return {check.value: _check([each for each in compared if each.check is check]) for check in Check}


def _check(compared: Sequence[Comparison]) -> StoredCheck:
    states = [each.state for each in compared]
    unequal = [each for each in compared if each.state is not ComparisonState.EQUAL]
    unequal.sort(key=lambda each: (each.state is not ComparisonState.DIFFERS, -each.age_ms))
    return StoredCheck(
        compared=len(states),
        differing=states.count(ComparisonState.DIFFERS),
        waiting=states.count(ComparisonState.WAITING),
        unequal=[StoredComparison.of(each) for each in unequal[:SHOWN_MAX]],
    )


async def store_last_run(db: Database, compared: Sequence[Comparison], now: int) -> None:
    """Keep the result of a comparison of all books, in place of the one before."""
    row: dict[str, Any] = {"tenant_id": PLATFORM, "chain": LAST_RUN, "seq": 0, "line_seq": 0, "sha256": ""}
    row |= {"sums": msgspec.to_builtins(checks_of(compared)), "verified_ms": now}
    async with db.transaction() as session:
        await upsert(session, [row], ReconMark)


async def last_run(db: Database) -> LastRun | None:
    """The last result; None: the books were never compared."""
    async with db.session() as session:
        mark = await session.get(ReconMark, (PLATFORM, LAST_RUN))
    if mark is None:
        return None
    return LastRun(mark.verified_ms, msgspec.convert(mark.sums, dict[str, StoredCheck]))
