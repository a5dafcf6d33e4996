"""Comparisons of two books that must agree, side by side. Pure.

R1 usage lines = ledger revenue; R2 receivable = amount open to be invoiced; R4 Redis posted = SQL posted; R5
engines' counters = billed + unbilled tokens; R6 pool GPU-seconds = billed + idle + free; R7 hash chains; R8
no hold older than its lease without a live request. (R3 compares with a payment provider; there is none.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from billing.ledger.transactions import RECEIVABLE, REVENUE, LineKind, TxnKind
from billing.money import to_display

WALLET = "wallet:"
DEFERRED = "deferred"
UNCOMPARED = "could not be compared"  # subject of a check that failed on unreadable data


class Check(StrEnum):
    """The pairs of books that are compared."""

    R1 = "R1"
    R2 = "R2"
    R4 = "R4"
    R5 = "R5"
    R6 = "R6"
    R7 = "R7"
    R8 = "R8"


MEANING = {
    Check.R1: "usage lines = ledger revenue",
    Check.R2: "receivable = open to be invoiced",
    Check.R4: "Redis posted = SQL posted",
    Check.R5: "engine counters = billed + unbilled, ends = billed + held",
    Check.R6: "pool GPU-seconds = billed + idle + free",
    Check.R7: "hash chains",
    Check.R8: "holds without a live request",
}


class ComparisonState(StrEnum):
    """Result of a comparison. WAITING: the books cannot be compared yet; no alarm."""

    EQUAL = "equal"
    DIFFERS = "differs"
    WAITING = "waiting"


@dataclass(frozen=True)
class Comparison:
    """One comparison. `tenant_id` empty: of a pool, named by `subject`. `unit`: nano, tokens, requests, ms,
    faults or holds. `waiting`: reason that it cannot be decided now. `age_ms`: how long it has differed or
    waited."""

    check: Check
    tenant_id: str
    subject: str
    unit: str
    expected: int
    actual: int
    detail: str = ""
    waiting: str = ""
    age_ms: int = 0

    @property
    def difference(self) -> int:
        """Actual less expected: positive where there is too much."""
        return self.actual - self.expected

    @property
    def is_uncompared(self) -> bool:
        """True where the comparison failed, so that nothing is known of its subject."""
        return self.subject.endswith(UNCOMPARED)

    @property
    def state(self) -> ComparisonState:
        """State of the comparison. A difference does not count while something is under way."""
        if self.waiting:
            return ComparisonState.WAITING
        return ComparisonState.DIFFERS if self.difference else ComparisonState.EQUAL

    def in_words(self, number: int) -> str:
        """Format one of its numbers with the unit, for people."""
        return to_display(number) if self.unit == "nano" else f"{number:,} {self.unit}"

    def facts(self) -> dict[str, Any]:
        """All facts by name, for scripts and for pages that show them."""
        return {
            "check": self.check.value,
            "tenant": self.tenant_id,
            "subject": self.subject,
            "unit": self.unit,
            "expected": self.expected,
            "actual": self.actual,
            "difference": self.difference,
            "state": self.state.value,
            "age_ms": self.age_ms,
            "detail": self.waiting or self.detail,
        }

    def aged(self, age_ms: int) -> "Comparison":
        """A copy with this age."""
        return replace(self, age_ms=max(0, age_ms))


class BookSums(msgspec.Struct):
    """Sums over a tenant's books up to a transaction. `amounts` and `quantities`: of lines, by `kind:meter`;
    `accounts`: of entries, by `kind of transaction:account`; `requests`: number of lines 0."""

    requests: int = 0
    amounts: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    quantities: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    accounts: dict[str, int] = msgspec.field(default_factory=dict[str, int])

    def plus(self, other: "BookSums") -> "BookSums":
        """Add both sums."""
        return BookSums(
            self.requests + other.requests,
            _added(self.amounts, other.amounts),
            _added(self.quantities, other.quantities),
            _added(self.accounts, other.accounts),
        )

    def charged(self, kind: LineKind | None = None) -> int:
        """Sum of all lines' amounts, or of one kind's."""
        return sum(nano for name, nano in self.amounts.items() if kind is None or name.startswith(f"{kind}:"))

    def used(self, *meters: str) -> int:
        """Quantity of these meters that requests used, without corrections."""
        return sum(self.quantities.get(f"{LineKind.USAGE}:{meter}", 0) for meter in meters)


def hour_name(hour_ms: int) -> str:
    """An hour in a comparison's subject, for people: when it began."""
    return datetime.fromtimestamp(hour_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def lines_and_revenue(tenant_id: str, sums: BookSums) -> list[Comparison]:
    """R1 by meter: sums of lines against the ledger's revenue."""
    lines: dict[str, int] = {}
    for name, nano in sums.amounts.items():
        meter = name.partition(":")[2]
        lines[meter] = lines.get(meter, 0) + nano
    revenue: dict[str, int] = {}
    for name, nano in sums.accounts.items():
        account = name.partition(":")[2]
        if account.startswith(REVENUE):
            meter = account.removeprefix(REVENUE)
            revenue[meter] = revenue.get(meter, 0) - nano
    return [
        Comparison(Check.R1, tenant_id, meter, "nano", lines.get(meter, 0), revenue.get(meter, 0))
        for meter in sorted({*lines, *revenue})
    ]


def receivable(tenant_id: str, sums: BookSums) -> Comparison:
    """R2: charges (usage, adjustments, true-ups, pools) less wallets' payments, against the ledger's
    receivable. A payment at a commitment's start is owed before it is charged. There are no invoices yet that
    reduce it."""
    kinds = {TxnKind.SETTLE.value, *(kind.value for kind in LineKind)}
    paid = owed = 0
    for name, nano in sums.accounts.items():
        kind, _, account = name.partition(":")
        if account == DEFERRED or (kind in kinds and account.startswith(WALLET)):
            paid += nano
        if account == RECEIVABLE:
            owed += nano
    return Comparison(Check.R2, tenant_id, "receivable", "nano", sums.charged() - paid, owed)


def audit_chain_comparison(tenant_id: str, subject: str, faults: int, first_fault: str) -> Comparison:
    """R7: compare the number of faults with zero."""
    return Comparison(Check.R7, tenant_id, subject, "faults", 0, faults, first_fault)


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}
