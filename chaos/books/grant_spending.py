"""Who pays a prepaid tenant's requests: its grants, one after the other, and what none of them pays is owed.
Pure, and nothing of the product is in it.

The lowest priority is spent first, then what ends first, then the oldest. A grant pays for what was asked
before its end, also when that is booked later. What a correction gives back is taken from what is owed first,
then goes to the grants that paid, in the reverse of their order. The next grant pays what is owed, the oldest
request first. What is taken out comes from the grant that was named; what is paid out from
what was paid, the newest first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos.books.terms import PAID, PAY_OUT, CreditTaken, Granted, Request


@dataclass
class GrantBalance:
    """A grant and what is left of it. `number`: the how manieth it was; `lapsed`: what was left at its end,
    and was not wanted since."""

    granted: Granted
    number: int
    left: int
    lapsed: int = 0

    @property
    def order(self) -> tuple[int, bool, int, int]:
        """By which grants are spent."""
        ends = self.granted.ends_ms
        return self.granted.priority, ends is None, ends or 0, self.number


@dataclass(frozen=True)
class Charged:
    """What a request cost more, or below zero less. `at_ms`: it was asked then, or corrected; only grants
    that had not ended by then pay."""

    request: Request
    amount: int
    at_ms: int


@dataclass(frozen=True)
class GrantEnded:
    """The rest of a grant that is over."""

    key: str


@dataclass
class ReplayedWallet:
    """A wallet while its moves are replayed. `paid` by request and grant; `asked_ms` of each request."""

    grants: dict[str, GrantBalance] = field(default_factory=dict[str, GrantBalance])
    paid: dict[Request, dict[str, int]] = field(default_factory=dict[Request, dict[str, int]])
    cost: dict[Request, int] = field(default_factory=dict[Request, int])
    asked_ms: dict[Request, int] = field(default_factory=dict[Request, int])

    @property
    def lacking(self) -> dict[Request, int]:
        """What each request cost beyond what grants paid of it, where that is anything."""
        lacks = {each: nano - sum(self.paid[each].values()) for each, nano in self.cost.items()}
        return {each: nano for each, nano in lacks.items() if nano}

    @property
    def owed(self) -> int:
        """That of all requests."""
        return sum(self.lacking.values())

    def move(self, move: "Move") -> None:
        """One more, in the order of the books."""
        match move:
            case Granted():
                self.grants[move.key] = GrantBalance(move, len(self.grants), move.amount)
                self._settle(self.grants[move.key])
            case GrantEnded():
                kept = self.grants[move.key]
                kept.lapsed, kept.left = kept.lapsed + kept.left, 0
            case CreditTaken():
                self._take(move)
            case Charged():
                self.asked_ms.setdefault(move.request, move.at_ms)
                self.cost[move.request] = self.cost.get(move.request, 0) + move.amount
                own = self.paid.setdefault(move.request, {})
                if move.amount >= 0:
                    self._pay(own, move)
                else:
                    self._give_back(own, move)

    def _pay(self, own: dict[str, int], move: Charged) -> None:
        missing = move.amount
        for key, kept in sorted(self.grants.items(), key=lambda each: each[1].order):
            ends = kept.granted.ends_ms
            if ends is not None and ends <= move.at_ms:
                continue
            taken = min(missing, kept.left + kept.lapsed)
            if taken:
                kept.lapsed -= max(0, taken - kept.left)
                kept.left = max(0, kept.left - taken)
                missing -= taken
                own[key] = own.get(key, 0) + taken

    def _take(self, move: CreditTaken) -> None:
        """More than is left shows as a grant below nothing: it should have been refused."""
        if move.kind != PAY_OUT:
            self.grants[move.grant].left -= move.amount
            return
        missing = move.amount
        paid = [each for each in self.grants.values() if each.granted.kind == PAID]
        for kept in sorted(paid, key=lambda each: each.number, reverse=True):
            taken = min(missing, kept.left)
            kept.left -= taken
            missing -= taken
        paid[0].left -= missing

    def _settle(self, kept: GrantBalance) -> None:
        for request in sorted(self.cost, key=lambda each: (self.asked_ms[each], each)):
            own = self.paid[request]
            taken = min(kept.left, self.cost[request] - sum(own.values()))
            if taken > 0:
                kept.left -= taken
                own[kept.granted.key] = own.get(kept.granted.key, 0) + taken

    def _give_back(self, own: dict[str, int], move: Charged) -> None:
        owed_before = self.cost[move.request] - move.amount - sum(own.values())
        rest = -move.amount - min(-move.amount, owed_before)
        for key, kept in sorted(self.grants.items(), key=lambda each: each[1].order, reverse=True):
            back = min(rest, own.get(key, 0))
            kept.left += back
            own[key] = own.get(key, 0) - back
            rest -= back


Move = Granted | Charged | GrantEnded | CreditTaken


def replay(moves: Iterable[Move]) -> ReplayedWallet:
    """A wallet after all of its moves."""
    wallet = ReplayedWallet()
    for move in moves:
        wallet.move(move)
    return wallet
