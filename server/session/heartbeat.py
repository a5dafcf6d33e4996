"""Times to ping a client, and to give it up for its silence. Pure."""

import random

from server.session.limits import PING_JITTER, SessionLimits


class Heartbeat:
    """Pings at a jittered interval; after a ping any frame must come within the timeout."""

    def __init__(self, limits: SessionLimits, jitter: random.Random) -> None:
        self._interval = limits.heartbeat_interval
        self._timeout = limits.heartbeat_timeout
        self._jitter = jitter
        self._ping_at = float("inf")
        self._answer_by: float | None = None

    def start(self, now: float) -> None:
        """Plan the first ping, as the session is open."""
        self._ping_at = now + self._interval * self._jitter.uniform(1 - PING_JITTER, 1 + PING_JITTER)

    def heard(self) -> None:
        """Note a frame; any counts as a sign of life."""
        self._answer_by = None

    def due(self) -> float:
        """Time of the next ping, or of giving the client up."""
        return self._ping_at if self._answer_by is None else min(self._answer_by, self._ping_at)

    def lost(self, now: float) -> bool:
        """True where the client did not answer a ping in time."""
        return self._answer_by is not None and now >= self._answer_by

    def ping(self, now: float) -> bool:
        """True where it is time to ping."""
        if now < self._ping_at:
            return False
        self.start(now)
        if self._answer_by is None:
            self._answer_by = now + self._timeout
        return True
