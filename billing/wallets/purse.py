"""How a prepaid tenant's requests are paid: from which grants, and what goes back to them. Pure.

A purse is a wallet during one transaction. It never goes below zero: what no grant pays is owed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

WALLET = "wallet:"  # accounts of grants: wallet:<kind>:<grant id>
WALLET_END = "wallet;"  # the first text behind all of them


class GrantKind(StrEnum):
    """Where the money of a grant comes from."""

    PAID = "paid"
    PROMO = "promo"


@dataclass
class Grant:
    """A grant while it is spent."""

    id: str
    kind: str
    priority: int
    left_nano: int
    expires_ms: int | None
    created_ms: int

    @property
    def account(self) -> str:
        """Its account in the ledger."""
        return account_of(self.kind, self.id)


def account_of(kind: str, grant_id: str) -> str:
    """The ledger account of a grant."""
    return f"{WALLET}{kind}:{grant_id}"


class Use(NamedTuple):
    """What one transaction took from a grant for a request; below zero: gave back."""

    request_id: str
    grant_id: str
    amount_nano: int


class TopUp(NamedTuple):
    """The grant that alerts measure what is left by."""

    grant_id: str
    amount_nano: int


def spending_order(grants: Iterable[Grant]) -> list[Grant]:
    """The lowest priority first, then what expires first, then the oldest."""
    return sorted(
        grants,
        key=lambda grant: (
            grant.priority,
            grant.expires_ms is None,
            grant.expires_ms or 0,
            grant.created_ms,
            grant.id,
        ),
    )


@dataclass
class Purse:
    """A wallet in one transaction at `now_ms`: its grants with what is left, and what the transaction did.

    `top_up`, `low_percents` as in the table Wallet."""

    tenant_id: str
    opened_line_seq: int
    top_up: TopUp
    low_percents: Sequence[int]
    grants: Sequence[Grant]
    now_ms: int
    uses: list[Use] = field(default_factory=list[Use])
    cost_nano: int = 0

    def __post_init__(self) -> None:
        self._open = [
            grant
            for grant in spending_order(self.grants)
            if grant.left_nano > 0 and (grant.expires_ms is None or grant.expires_ms > self.now_ms)
        ]

    @property
    def left_nano(self) -> int:
        """What can still be spent."""
        return sum(
            grant.left_nano
            for grant in self.grants
            if grant.expires_ms is None or grant.expires_ms > self.now_ms
        )

    @property
    def changed(self) -> dict[str, int]:
        """What is left of the grants that were touched, by id."""
        touched = {use.grant_id for use in self.uses}
        return {grant.id: grant.left_nano for grant in self.grants if grant.id in touched}

    def charge(self, request_id: str, amount_nano: int) -> dict[str, int]:
        """Pay for a request: what each account pays. What is missing to the amount is owed."""
        self.cost_nano += amount_nano
        paid: dict[str, int] = {}
        missing = amount_nano
        while missing > 0 and self._open:
            grant = self._open[0]
            taken = min(missing, grant.left_nano)
            missing -= taken
            self._move(grant, request_id, taken, paid)
            if not grant.left_nano:
                self._open.pop(0)
        return paid

    def give_back(
        self, request_id: str, amount_nano: int, cost_nano: int, used: Mapping[str, int]
    ) -> dict[str, int]:
        """Undo part of what a request cost, the last that was paid first: what was owed, then grants in the
        reverse of their order. `cost_nano`: what it cost in all; `used`: what each grant paid of it.

        What goes to each account, below zero."""
        self.cost_nano -= amount_nano
        owed = cost_nano - sum(used.values())
        rest = amount_nano - min(amount_nano, owed)
        returned: dict[str, int] = {}
        for grant in reversed(spending_order(self.grants)):
            back = min(rest, used.get(grant.id, 0))
            if back > 0:
                rest -= back
                self._move(grant, request_id, -back, returned)
        assert rest == 0, "INV-32: no more goes back than was paid"
        return returned

    def _move(self, grant: Grant, request_id: str, amount_nano: int, moved: dict[str, int]) -> None:
        grant.left_nano -= amount_nano
        moved[grant.account] = moved.get(grant.account, 0) + amount_nano
        self.uses.append(Use(request_id, grant.id, amount_nano))
