"""Pays a prepaid tenant's requests from its grants, and returns money to them. Pure.

A SpendableWallet is a wallet during one transaction. It never goes below zero: what no grant pays is owed. A
grant pays for requests accepted before its end, even when they are posted later and its rest has lapsed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

WALLET = "wallet:"  # accounts of grants: wallet:<kind>:<grant id>
WALLET_END = "wallet;"  # the first text after all of them


class GrantKind(StrEnum):
    """Source of a grant's money."""

    PAID = "paid"
    PROMO = "promo"


@dataclass
class Grant:
    """A grant while it is spent. `lapsed_nano`: the part booked as breakage at its end."""

    id: str
    kind: str
    priority: int
    left_nano: int
    expires_ms: int | None
    created_ms: int
    lapsed_nano: int = 0

    def pays_at(self, at_ms: int) -> bool:
        """True until the grant's end."""
        return self.expires_ms is None or self.expires_ms > at_ms

    @property
    def account(self) -> str:
        """Its account in the ledger."""
        return account_of(self.kind, self.id)


def account_of(kind: str, grant_id: str) -> str:
    """The ledger account of a grant."""
    return f"{WALLET}{kind}:{grant_id}"


class GrantUse(NamedTuple):
    """Amount that one transaction took from a grant for a request; negative where it gave back."""

    request_id: str
    grant_id: str
    amount_nano: int


class TopUp(NamedTuple):
    """The grant that low-balance alerts are measured against."""

    grant_id: str
    amount_nano: int


def spending_order(grants: Iterable[Grant]) -> list[Grant]:
    """Sort by priority, lowest first; then by expiry, soonest first; then by age, oldest first."""
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
class SpendableWallet:
    """A wallet in one transaction at `now_ms`: its grants with what is left, and what the transaction did.

    `top_up`, `low_percents` as in the table Wallet. `revived`: amounts taken back from breakage, by account;
    `owed`: change of what requests owe, by request."""

    tenant_id: str
    opened_line_seq: int
    top_up: TopUp
    low_percents: Sequence[int]
    grants: Sequence[Grant]
    now_ms: int
    uses: list[GrantUse] = field(default_factory=list[GrantUse])
    cost_nano: int = 0
    revived: dict[str, int] = field(default_factory=dict[str, int])
    owed: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self._open = [each for each in spending_order(self.grants) if each.left_nano + each.lapsed_nano > 0]

    @property
    def left_nano(self) -> int:
        """Money that can be spent now."""
        return sum(grant.left_nano for grant in self.grants if grant.pays_at(self.now_ms))

    @property
    def changed(self) -> dict[str, int]:
        """Money left in each touched grant, by id."""
        return {grant.id: grant.left_nano for grant in self.touched}

    @property
    def touched(self) -> list[Grant]:
        """The grants that this transaction moved."""
        ids = {use.grant_id for use in self.uses}
        return [grant for grant in self.grants if grant.id in ids]

    def charge(self, request_id: str, amount_nano: int, at_ms: int | None = None) -> dict[str, int]:
        """Pay for a request accepted at a time (None: now). Returns the sum that each account pays; the rest
        is owed."""
        self.cost_nano += amount_nano
        at_ms = self.now_ms if at_ms is None else min(at_ms, self.now_ms)
        paid: dict[str, int] = {}
        missing, emptied = amount_nano, False
        for grant in self._open if missing > 0 else ():
            if not grant.pays_at(at_ms):
                continue
            self._revive(grant, missing - grant.left_nano)
            taken = min(missing, grant.left_nano)
            missing -= taken
            self._move(grant, request_id, taken, paid)
            emptied = emptied or not grant.left_nano
            if not missing:
                break
        if emptied:
            self._open = [each for each in self._open if each.left_nano + each.lapsed_nano > 0]
        self._owe(request_id, missing)
        return paid

    def give_back(
        self, request_id: str, amount_nano: int, cost_nano: int, used: Mapping[str, int]
    ) -> dict[str, int]:
        """Undo part of a request's payment, last paid first: what was owed, then grants in reverse order.
        `cost_nano`: its cost in all; `used`: what each grant paid of it.

        Returns the sum that goes back to each account, as negative numbers."""
        self.cost_nano -= amount_nano
        owed = cost_nano - sum(used.values())
        rest = amount_nano - min(amount_nano, owed)
        self._owe(request_id, rest - amount_nano)
        returned: dict[str, int] = {}
        for grant in reversed(spending_order(self.grants)):
            back = min(rest, used.get(grant.id, 0))
            if back > 0:
                rest -= back
                self._move(grant, request_id, -back, returned)
        assert rest == 0, "INV-32: no more goes back than was paid"
        return returned

    def _revive(self, grant: Grant, wanted_nano: int) -> None:
        """Take lapsed money of a grant back into it, up to `wanted_nano`."""
        if (amount := min(wanted_nano, grant.lapsed_nano)) > 0:
            grant.lapsed_nano -= amount
            grant.left_nano += amount
            self.revived[grant.account] = self.revived.get(grant.account, 0) + amount

    def _owe(self, request_id: str, amount_nano: int) -> None:
        if amount_nano:
            self.owed[request_id] = self.owed.get(request_id, 0) + amount_nano

    def _move(self, grant: Grant, request_id: str, amount_nano: int, moved: dict[str, int]) -> None:
        grant.left_nano -= amount_nano
        moved[grant.account] = moved.get(grant.account, 0) + amount_nano
        self.uses.append(GrantUse(request_id, grant.id, amount_nano))
