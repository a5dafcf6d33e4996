"""Times at which a token's access ends, and at which to ask for a fresh one. Pure."""


class AccessTimer:
    """Remaining access of the client's token; gives notice in time for a fresh one."""

    def __init__(self, notice_seconds: float) -> None:
        self._notice_seconds = notice_seconds
        self.granted(0.0, None)

    def granted(self, now: float, for_ms: int | None) -> None:
        """Note an accepted token; None: it does not end."""
        self._ends = float("inf") if for_ms is None else now + for_ms / 1000
        self._told = False

    def due(self) -> float:
        """Time to give notice, or after that to close."""
        return self._ends if self._told else self._ends - self._notice_seconds

    def over(self, now: float) -> bool:
        """True where access has ended."""
        return now >= self._ends

    def notice(self, now: float) -> int | None:
        """Milliseconds left, once, when it is time to give notice; else None."""
        if self._told or now < self.due():
            return None
        self._told = True
        return int((self._ends - now) * 1000)
