"""Counts a client's violations: bad messages, and acknowledgements of what was never sent. Pure."""

from collections import deque

from server.session.limits import ACKS_BEYOND_SENT_MAX, BAD_MESSAGE_SECONDS, SessionLimits


class Violations:
    """Counts bad messages: `most` within a minute end the connection; with 0 or 1 the first does."""

    def __init__(self, limits: SessionLimits) -> None:
        self._times: deque[float] = deque(maxlen=max(1, limits.bad_messages))

    def add(self, now: float) -> bool:
        """Note one more; True where it is one too many."""
        self._times.append(now)
        return len(self._times) == self._times.maxlen and now - self._times[0] <= BAD_MESSAGE_SECONDS


class AckViolations:
    """Counts acknowledgements of what was never sent."""

    def __init__(self) -> None:
        self._beyond = 0

    def add(self) -> bool:
        """Note one more; True where it ends the connection."""
        self._beyond += 1
        return self._beyond >= ACKS_BEYOND_SENT_MAX
