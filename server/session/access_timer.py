"""When the access that a token gave ends, and when to ask for a fresh one. Pure."""


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
