"""How far one reader has fallen behind: reading, paused, stuck (docs/protocol.md, "Slow readers"). Pure.

A stream is shut while its log has more than its window lets through. Shut for a while, the client is told
that it is paused. A reader is stuck when something waits for its acknowledgement for long, or when it is
paused and many tokens behind; a request whose readers are all stuck is parked.
"""

from dataclasses import dataclass

from server.session.limits import SessionLimits

NEVER = float("inf")


@dataclass(frozen=True)
class BackpressureChange:
    """What one look at the ladder brought: the reader is paused now, or stuck now."""

    paused: bool
    stuck: bool


class Backpressure:
    """One stream's rungs. `catching_up`: it was paused and has not reached the head of the log since."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._shut_since: float | None
        self._waits_since: float | None
        self.restart()

    def restart(self) -> None:
        """The client reads on from a place of its choice: it lives."""
        self.paused = self.stuck = self.catching_up = False
        self._shut_since = self._waits_since = None

    def shut(self, now: float) -> None:
        """The log has more, and nothing of it may be sent."""
        if self._shut_since is None:
            self._shut_since = now

    def waits(self, now: float) -> None:
        """The log has something that is not acknowledged."""
        if self._waits_since is None:
            self._waits_since = now

    def opened(self, now: float) -> float | None:
        """Something is sent again: the seconds it was shut, None where it was not."""
        since, self._shut_since = self._shut_since, None
        self.catching_up = self.catching_up or self.paused
        self.paused = False
        return None if since is None else now - since

    def caught_up(self) -> None:
        """All of the log is sent."""
        self.catching_up = False

    def acked(self, now: float, waits: bool) -> bool:
        """The client applied more; `waits`: and there is more. True: it was stuck until now."""
        self._waits_since = now if waits else None
        was, self.stuck = self.stuck, False
        return was

    def due(self) -> float:
        """When to look again."""
        pause = NEVER if self._shut_since is None or self.paused else self._shut_since
        wait = NEVER if self._waits_since is None or self.stuck else self._waits_since
        return min(pause + self._limits.paused_seconds, wait + self._limits.stuck_seconds)

    def climb(self, now: float, tokens_behind: int) -> BackpressureChange | None:
        """Look: which rungs were reached."""
        limits = self._limits
        paused = stuck = False
        if self._shut_since is not None and not self.paused:
            paused = self.paused = now >= self._shut_since + limits.paused_seconds
        if not self.stuck:
            long = self._waits_since is not None and now >= self._waits_since + limits.stuck_seconds
            stuck = self.stuck = long or (self.paused and tokens_behind > limits.stuck_tokens)
        return BackpressureChange(paused, stuck) if paused or stuck else None
