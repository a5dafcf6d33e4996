"""Sockets that have not shown who they are, bounded by address and in all. Pure but for its clock.

Where all places are taken, the socket that has been silent longest makes room, so that a crowd of silent
sockets keeps nobody out who speaks. A socket that came a moment ago is not put out; then the next one is
refused.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from core.clock import monotonic

GRACE_SECONDS = 1.0


@dataclass(frozen=True)
class _UnidentifiedSocket:
    address: str | None
    since: float
    put_out: Callable[[], None]


class UnidentifiedSockets:
    """`per_address_max` and `most`: 0 is no limit."""

    def __init__(self, per_address_max: int, most: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_address_max = per_address_max
        self._most = most
        self._clock = clock
        self._places: dict[Hashable, _UnidentifiedSocket] = {}
        self._of_address = Counter[str]()
        self._silent: dict[Hashable, None] = {}  # the oldest first
        self._silent_of_address: dict[str, dict[Hashable, None]] = {}

    def __len__(self) -> int:
        """Number of sockets that have a place."""
        return len(self._places)

    def full(self, address: str | None) -> bool:
        """True where a new socket from this address would be refused now."""
        crowded, oldest = self._crowded(address)
        return crowded and oldest is None

    def enter(self, who: Hashable, address: str | None, put_out: Callable[[], None]) -> bool:
        """Take a place, for which another socket may be put out by its `put_out`; False where there is none.
        With `address` None only the bound over all counts."""
        while True:
            crowded, oldest = self._crowded(address)
            if not crowded:
                break
            if oldest is None:
                return False
            place = self._places[oldest]
            self.left(oldest)
            place.put_out()
        self._places[who] = _UnidentifiedSocket(address, self._clock(), put_out)
        self._silent[who] = None
        if address is not None:
            self._of_address[address] += 1
            self._silent_of_address.setdefault(address, {})[who] = None
        return True

    def spoke(self, who: Hashable) -> None:
        """Keep the place of a socket whose first message is being checked, until that is done."""
        place = self._places.get(who)
        if place is None or self._silent.pop(who, who) is not None:
            return
        if place.address is not None:
            self._of_silent(place.address, who)

    def left(self, who: Hashable) -> None:
        """Free the place of a socket that is identified or gone."""
        self.spoke(who)
        place = self._places.pop(who, None)
        if place is not None and place.address is not None:
            self._of_address[place.address] -= 1
            if not self._of_address[place.address]:
                del self._of_address[place.address]

    def _crowded(self, address: str | None) -> tuple[bool, Hashable | None]:
        """True where the bound is reached, and the socket to put out in that case, None where each is too
        new."""
        if address is not None and 0 < self._per_address_max <= self._of_address[address]:
            return True, self._oldest(self._silent_of_address.get(address, {}))
        if 0 < self._most <= len(self._places):
            return True, self._oldest(self._silent)
        return False, None

    def _oldest(self, silent: dict[Hashable, None]) -> Hashable | None:
        who = next(iter(silent), None)
        if who is None or self._clock() - self._places[who].since < GRACE_SECONDS:
            return None
        return who

    def _of_silent(self, address: str, who: Hashable) -> None:
        silent = self._silent_of_address[address]
        del silent[who]
        if not silent:
            del self._silent_of_address[address]
