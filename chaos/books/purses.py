"""Who pays a prepaid tenant's requests: its grants, one after the other, and what none of them pays is owed.
Pure, and nothing of the product is in it.

The lowest priority is spent first, then what ends first, then the oldest. What a correction gives back is
taken from what is owed first, then goes to the grants that paid, in the reverse of their order.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos.books.terms import Granted, Request


@dataclass
class Kept:
    """A grant and what is left of it. `number`: the how manieth it was."""

    granted: Granted
    number: int
    left: int

    @property
    def order(self) -> tuple[int, bool, int, int]:
        """By which grants are spent."""
        ends = self.granted.ends_ms
        return self.granted.priority, ends is None, ends or 0, self.number


@dataclass(frozen=True)
class Charged:
    """What a request cost more, or below zero less, at a time."""

    request: Request
    amount: int
    at_ms: int


@dataclass(frozen=True)
class Ended:
    """The rest of a grant that is over."""

    key: str


@dataclass
class Purse:
    """A wallet while its moves are replayed. `paid` by request and grant; `owed`: what no grant paid."""

    grants: dict[str, Kept] = field(default_factory=dict[str, Kept])
    paid: dict[Request, dict[str, int]] = field(default_factory=dict[Request, dict[str, int]])
    cost: dict[Request, int] = field(default_factory=dict[Request, int])
    ended: int = 0

    @property
    def owed(self) -> int:
        """What requests cost beyond what grants paid of them."""
        return sum(self.cost.values()) - sum(sum(each.values()) for each in self.paid.values())

    def move(self, move: Granted | Charged | Ended) -> None:
        """One more, in the order of the books."""
        match move:
            case Granted():
                self.grants[move.key] = Kept(move, len(self.grants), move.amount)
            case Ended():
                self.ended += self.grants[move.key].left
                self.grants[move.key].left = 0
            case Charged():
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
            taken = min(missing, kept.left)
            if taken:
                kept.left -= taken
                missing -= taken
                own[key] = own.get(key, 0) + taken

    def _give_back(self, own: dict[str, int], move: Charged) -> None:
        owed_before = self.cost[move.request] - move.amount - sum(own.values())
        rest = -move.amount - min(-move.amount, owed_before)
        for key, kept in sorted(self.grants.items(), key=lambda each: each[1].order, reverse=True):
            back = min(rest, own.get(key, 0))
            kept.left += back
            own[key] = own.get(key, 0) - back
            rest -= back


def replay(moves: Iterable[Granted | Charged | Ended]) -> Purse:
    """A wallet after all of its moves."""
    purse = Purse()
    for move in moves:
        purse.move(move)
    return purse
