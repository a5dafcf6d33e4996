"""Limits of money that people move: above which it is asked for again, and above which it takes two."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sqlmodel.ext.asyncio.session import AsyncSession

from billing.money import NANO, to_display
from core.configuration.settings import Settings
from core.errors import bad_request, see_help

CENT_NANO = NANO // 100

MoveCheck = Callable[[AsyncSession, int], Awaitable[None]]
"""Look at the amount of a move, in nano of either sign, in the transaction and under the lock that book it.
Raises Refused where it may not be booked."""


@dataclass(frozen=True)
class AmountBounds:
    """Limits in nano-USD: above `unasked_nano` a move is asked for again, above `most_nano` one person cannot
    make it."""

    unasked_nano: int
    most_nano: int

    @classmethod
    def of(cls, settings: Settings) -> "AmountBounds":
        """The limits that an installation's settings state."""
        return cls(
            settings.correction_unasked_cents_max * CENT_NANO, settings.correction_cents_max * CENT_NANO
        )

    def check(self, nano: int) -> None:
        """Raises Refused where the amount, of either sign, is above `most_nano`."""
        if abs(nano) > self.most_nano:
            raise bad_request(
                f"this moves {to_display(abs(nano))}: one person moves at most {to_display(self.most_nano)} "
                "at once (PARLEY_CORRECTION_CENTS_MAX); more takes a second person, an owner or of finance, "
                "and there is nobody: invite one",
                see=see_help("people.invite"),
            )
