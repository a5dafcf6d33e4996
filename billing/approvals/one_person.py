"""Decides what one person may move alone: each move, and what they moved of late together with it.

Looked at under the lock that books the move, so that moves side by side count each other.
"""

from dataclasses import dataclass

from sqlmodel.ext.asyncio.session import AsyncSession

from billing.approvals.money_actions import CorrectionAction, MoneyActionResult, Move
from billing.approvals.recent_moves import recent_amounts
from billing.booking.amount_bounds import AmountBounds
from billing.money import to_display
from core.actor import current_author
from core.errors import Refusal, Refused, bad_request
from core.sql.locks import lock_until_commit

MOVES = "moves"  # name of the lock: a person's moves of several tenants count together


class NeedsTwo(Refused):
    """A move that takes a second person; nothing is booked."""

    def __init__(self) -> None:
        super().__init__(Refusal("bad_request", "this takes a second person"))


@dataclass(frozen=True)
class OnePerson:
    """Limits of one person for one move. `bounds` are the installation's; `confirmed`: they said that it
    is meant; `second`: there is somebody to propose to."""

    tenant_id: str
    move: Move
    bounds: AmountBounds
    confirmed: bool
    second: bool

    async def check(self, session: AsyncSession, nano: int) -> None:
        """Raises NeedsTwo where a second person decides on a move of `nano` (of either sign), Refused where
        there is none, or where it is more than was shown and confirmed."""
        if self.second:
            await lock_until_commit(session, MOVES)
            lately_nano = await recent_amounts(session, self.tenant_id, current_author().name)
            if needs_two(MoneyActionResult(abs(nano)), self.bounds, lately_nano):
                raise NeedsTwo
        most_nano = self.bounds.most_nano
        shown_nano = most_nano if self.confirmed else min(self.bounds.unasked_nano, most_nano)
        AmountBounds(self.bounds.unasked_nano, shown_nano).check(nano)


@dataclass(frozen=True)
class OneDecision:
    """Limits of one person who lets held events count, which nobody can propose. As in OnePerson."""

    bounds: AmountBounds
    second: bool

    async def check(self, session: AsyncSession, tenant_id: str, nano: int) -> None:
        """Raises Refused where one person may not book an event of `nano` with their recent moves."""
        move = CorrectionAction("", None, "")
        try:
            await OnePerson(tenant_id, move, self.bounds, True, self.second).check(session, nano)
        except NeedsTwo as refused:
            raise bad_request(
                f"this moves {to_display(abs(nano))}, and one person moves at most "
                f"{to_display(self.bounds.most_nano)} alone, with all that they, or anybody for this tenant, "
                "moved in the last 24 hours: accept it later, or raise PARLEY_CORRECTION_CENTS_MAX for it"
            ) from refused


def needs_two(found: MoneyActionResult, bounds: AmountBounds, lately_nano: int = 0) -> bool:
    """True where one person may not make the move alone, given their recent moves. A repeated move does
    nothing, and needs nobody. Pure."""
    return not found.done and found.nano > 0 and found.nano + lately_nano > bounds.most_nano
