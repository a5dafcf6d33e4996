"""What each side owes the other beside text: heartbeats, correct messages, honest acknowledgements. Pure."""

import random
from collections import deque

from server.session.limits import ACKS_BEYOND_SENT_MAX, BAD_MESSAGE_SECONDS, PING_JITTER, SessionLimits


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


class AccessTimer:
    """How long the client's token lets it in; it is told in time to bring a fresh one."""

    def __init__(self, notice_seconds: float) -> None:
        self._notice_seconds = notice_seconds
        self.granted(0.0, None)

    def granted(self, now: float, for_ms: int | None) -> None:
        """A token was accepted; None: it does not end."""
        self._ends = float("inf") if for_ms is None else now + for_ms / 1000
        self._told = False

    def due(self) -> float:
        """When to give notice, or to close."""
        return self._ends if self._told else self._ends - self._notice_seconds

    def over(self, now: float) -> bool:
        """Whether access has ended."""
        return now >= self._ends

    def notice(self, now: float) -> int | None:
        """Milliseconds left, once, when it is time to say so."""
        if self._told or now < self.due():
            return None
        self._told = True
        return int((self._ends - now) * 1000)


class Violations:
    """Counts bad messages: so many within a minute end the connection."""

    def __init__(self, limits: SessionLimits) -> None:
        self._times: deque[float] = deque(maxlen=limits.bad_messages)

    def ends(self, now: float) -> bool:
        """Note one more; True where it is one too many."""
        self._times.append(now)
        return len(self._times) == self._times.maxlen and now - self._times[0] <= BAD_MESSAGE_SECONDS


class AckViolations:
    """Counts acknowledgements of what was never sent."""

    def __init__(self) -> None:
        self._beyond = 0

    def beyond(self) -> bool:
        """Note one more; True where it ends the connection."""
        self._beyond += 1
        return self._beyond >= ACKS_BEYOND_SENT_MAX
