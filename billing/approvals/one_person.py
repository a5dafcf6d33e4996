"""Decides what one person may let count alone, which nobody can propose: held events.

Looked at under the lock that books it, so that moves side by side count each other.
"""

from dataclasses import dataclass

from sqlmodel.ext.asyncio.session import AsyncSession

from billing.booking.amount_bounds import AmountBounds
from billing.booking.recent_moves import lock_recent_amounts
from billing.money import to_display
from billing.unit_of_work.actors import UNIX
from billing.unit_of_work.second_people import second_people
from core.actor import current_author
from core.errors import bad_request


@dataclass(frozen=True)
class OneDecision:
    """Limits of one person who lets held events count. `bounds` are the installation's. Where there is a
    second one, all that one person moves counts together."""

    bounds: AmountBounds

    async def check(self, session: AsyncSession, tenant_id: str, nano: int) -> None:
        """Raises Refused where one person may not book an event of `nano` with their recent moves."""
        by = UNIX + current_author().name  # only commands accept
        if not await second_people(session, by):
            self.bounds.check(nano)
            return
        lately_nano = await lock_recent_amounts(session, tenant_id, current_author().name)
        if nano and abs(nano) + lately_nano > self.bounds.most_nano:
            raise bad_request(
                f"this moves {to_display(abs(nano))}, and one person moves at most "
                f"{to_display(self.bounds.most_nano)} alone, with all that they, or anybody for this tenant, "
                "moved in the last 24 hours: accept it later, or raise PARLEY_CORRECTION_CENTS_MAX for it"
            )
