"""Text that a filter has not let go of yet, as UTF-8 with one code point of what came before it. Pure.

Positions in it are bytes from the text's beginning. Where the text is a view (engine/safety/json_view.py),
each code point stands for a piece of raw text.
"""

from collections.abc import Sequence


class HeldText:
    """`data` begins at `base`; what is held begins at `at`, which is code point `position` of the raw
    text."""

    def __init__(self) -> None:
        self.data = b""
        self.base = 0
        self.at = 0
        self.position = 0
        self._raws: list[str] | None = None
        self._places: list[int] = []
        self._before = 0  # code points of `data` before `at`

    @property
    def end(self) -> int:
        """Where the known text ends."""
        return self.base + len(self.data)

    def add(self, text: str, raws: Sequence[str] | None = None, places: Sequence[int] = ()) -> None:
        """Append text; of a view, the raw text and the place of each code point too."""
        self.data += text.encode()
        if raws is not None:
            self._raws = [*(self._raws or ()), *raws]
            self._places += places

    def take(self, stop: int) -> tuple[str, Sequence[str]]:
        """Let go of the text up to `stop`: its code points, and the raw text of each."""
        text = self.data[self.at - self.base : stop - self.base].decode()
        raws = text if self._raws is None else self._raws[self._before : self._before + len(text)]
        self.position += len(text) if self._raws is None else sum(map(len, raws))
        self.at = stop
        self._before += len(text)
        return text, raws

    def position_of(self, at: int) -> int:
        """Position in the raw text of what stands at `at`, which is held."""
        points = len(self.data[self.at - self.base : at - self.base].decode())
        if self._raws is None:
            return self.position + points
        return self.position + sum(map(len, self._raws[self._before : self._before + points]))

    def strings_at(self, start: int, stop: int) -> set[int]:
        """Places of the code points from `start` to `stop`, which are held."""
        first = self._before + len(self.data[self.at - self.base : start - self.base].decode())
        return set(
            self._places[first : first + len(self.data[start - self.base : stop - self.base].decode())]
        )

    def forget(self) -> None:
        """Forget what was let go of, but for one code point: what a word's edge is seen by."""
        cut = self.at - self.base - 1
        while cut > 0 and self.data[cut] & 0xC0 == 0x80:
            cut -= 1
        if cut <= 0:
            return
        self.data = self.data[cut:]
        self.base += cut
        if self._raws is not None:
            del self._raws[: self._before - 1], self._places[: self._before - 1]
        self._before = 1
