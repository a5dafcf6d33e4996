"""What each side owes the other beside text: heartbeats, correct messages, honest acknowledgements. Pure."""

import random
from collections import deque

from server.session.limits import ACKS_BEYOND_SENT_MAX, BAD_MESSAGE_SECONDS, PING_JITTER, Limits


class Heartbeat:
    """Pings at a jittered interval; after a ping any frame must come within the timeout."""

    def __init__(self, limits: Limits, jitter: random.Random) -> None:
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
        """When the next duty is due."""
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


class Patience:
    """Counts bad messages: so many within a minute end the connection."""

    def __init__(self, limits: Limits) -> None:
        self._times: deque[float] = deque(maxlen=limits.bad_messages)

    def ends(self, now: float) -> bool:
        """Note one more; True where it is one too many."""
        self._times.append(now)
        return len(self._times) == self._times.maxlen and now - self._times[0] <= BAD_MESSAGE_SECONDS


class AckRules:
    """Counts acknowledgements of what was never sent."""

    def __init__(self) -> None:
        self._beyond = 0

    def beyond(self) -> bool:
        """Note one more; True where it ends the connection."""
        self._beyond += 1
        return self._beyond >= ACKS_BEYOND_SENT_MAX
