"""Decides how far one reader has fallen behind: reading, paused, stuck (docs/protocol.md, "Slow readers").
Pure.

A stream is shut while its log has more than its window lets through. Shut for a while, the client is told
that it is paused. A reader is stuck when something waits for its acknowledgement for long, or when it is
paused and many tokens behind; a request whose readers are all stuck is parked.
"""

from dataclasses import dataclass

from server.session.limits import SessionLimits

NEVER = float("inf")


@dataclass(frozen=True)
class BackpressureChange:
    """Change found by one look: the reader is paused now, or stuck now."""

    paused: bool
    stuck: bool


class Backpressure:
    """State of one stream's reader. `catching_up`: paused before, and not yet at the head of the log."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._shut_since: float | None
        self._waits_since: float | None
        self.restart()

    @property
    def paused_since(self) -> float | None:
        """Time at which the window shut, of a reader that is paused."""
        return self._shut_since if self.paused else None

    @property
    def stuck_since(self) -> float | None:
        """Time since which something waits, of a reader that is stuck."""
        return (self._waits_since or self._shut_since) if self.stuck else None

    def restart(self) -> None:
        """Start anew: the client reads on from an offset that it chose."""
        self.paused = self.stuck = self.catching_up = False
        self._shut_since = self._waits_since = None

    def shut(self, now: float) -> None:
        """Note that the log has more, and nothing of it may be sent."""
        if self._shut_since is None:
            self._shut_since = now

    def waits(self, now: float) -> None:
        """Note that the log has something that is not acknowledged."""
        if self._waits_since is None:
            self._waits_since = now

    def opened(self, now: float) -> float | None:
        """Note that something is sent again. Returns the seconds it was shut, None where it was not."""
        since, self._shut_since = self._shut_since, None
        self.catching_up = self.catching_up or self.paused
        self.paused = False
        return None if since is None else now - since

    def caught_up(self) -> None:
        """Note that all of the log is sent."""
        self.catching_up = False

    def acked(self, now: float, waits: bool) -> bool:
        """Note that the client applied more; `waits`: more is unapplied. True: it was stuck until now."""
        self._waits_since = now if waits else None
        was, self.stuck = self.stuck, False
        return was

    def due(self) -> float:
        """Time of the next look."""
        pause = NEVER if self._shut_since is None or self.paused else self._shut_since
        wait = NEVER if self._waits_since is None or self.stuck else self._waits_since
        return min(pause + self._limits.paused_seconds, wait + self._limits.stuck_seconds)

    def escalate(self, now: float, tokens_behind: int) -> BackpressureChange | None:
        """Look whether the reader is newly paused or stuck; None where neither changed."""
        limits = self._limits
        paused = stuck = False
        if self._shut_since is not None and not self.paused:
            paused = self.paused = now >= self._shut_since + limits.paused_seconds
        if not self.stuck:
            long = self._waits_since is not None and now >= self._waits_since + limits.stuck_seconds
            stuck = self.stuck = long or (self.paused and tokens_behind > limits.stuck_tokens)
        return BackpressureChange(paused, stuck) if paused or stuck else None
