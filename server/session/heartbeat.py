"""When to ping a client, and when its silence has lasted too long. Pure."""

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
        """The session is open: plan the first ping."""
        self._ping_at = now + self._interval * self._jitter.uniform(1 - PING_JITTER, 1 + PING_JITTER)

    def heard(self) -> None:
        """Any frame counts as life."""
        self._answer_by = None

    def due(self) -> float:
        """When to ping, or to give the client up."""
        return self._ping_at if self._answer_by is None else min(self._answer_by, self._ping_at)

    def lost(self, now: float) -> bool:
        """Whether the client owes a sign of life since too long."""
        return self._answer_by is not None and now >= self._answer_by

    def ping(self, now: float) -> bool:
        """Whether to ping now."""
        if now < self._ping_at:
            return False
        self.start(now)
        if self._answer_by is None:
            self._answer_by = now + self._timeout
        return True
