"""Finds stop strings in text that comes in pieces. Pure; positions and lengths are Unicode code points.

What it releases depends on the text alone, not on how it was cut into pieces: text is held back only while it
could still become a stop string, so at most `longest stop - 1` code points.
"""

from collections.abc import Sequence


class StopMatcher:
    """Feed it text in order; it returns the text that no stop string can take back any more.

    A match that ends inside text fed with `armed=False` does not count (an answer's first `min_tokens`). Of
    several matches the one that ends first wins, and of those that end together the longest. The stop string
    itself is never released.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    @property
    def holding(self) -> bool:
        """True while some text could still become a stop string."""
        return bool(self._held)

    def feed(self, piece: str, armed: bool = True) -> str:
        """The text released by `piece`. After a match `stopped` is true and nothing more is released."""
        if self.stopped:
            return ""
        if not self._stops:
            return piece
        text = self._held + piece
        if armed and (found := self._find(text, len(self._held))) is not None:
            self.stopped, self._held = True, ""
            return text[:found]
        keep = self._open_tail(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """The text held back, which belongs to an answer that ends without a match."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str, known: int) -> int | None:
        """Begin of the match that ends first, among those that end after the first `known` code points."""
        ends: list[tuple[int, int]] = []
        for stop in self._stops:
            at = text.find(stop, max(0, known + 1 - len(stop)))
            if at >= 0:
                ends.append((at + len(stop), at))
        return min(ends)[1] if ends else None

    def _open_tail(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = max(len(stop) for stop in self._stops) - 1
        for length in range(min(longest, len(text)), 0, -1):
            tail = text[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0
