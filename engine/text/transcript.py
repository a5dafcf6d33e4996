"""One answer's text as a function of its token ids: detokenized, stop strings cut, filtered. Pure."""

from collections import deque
from collections.abc import Sequence

from tokenizers import Tokenizer

from engine.request import Sampling
from engine.safety.filter import Filter
from engine.safety.verdicts import Flag
from engine.text.detokenize import Detokenizer
from engine.text.stop_strings import StopMatcher

Released = list[str | Flag]  # visible text and flags, in the order of the log


class Transcript:
    """Feed it every id of the answer in order, the logged ones of a continued answer first.

    `n` ids were fed, `covered` of them have all their text decided, `length` code points are released.
    Without a filter all text is visible.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], sampling: Sampling, filter: Filter | None = None
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer, prompt)
        self._stops = StopMatcher(sampling.stop)
        self._filter = filter
        self._min_tokens = sampling.min_tokens
        self._pieces: list[str] = []
        self._unfiltered = 0  # code points that came from the stop strings' matcher
        self._ends: deque[tuple[int, int]] = deque()  # ids and where their text ends, of those not covered
        self.n = 0
        self.covered = 0
        self.length = 0

    @property
    def stopped(self) -> bool:
        """True where a stop string or a block was found: further ids are not part of the answer."""
        return self._stops.stopped or self.blocked

    @property
    def blocked(self) -> bool:
        """True where the filter has ended the answer."""
        return self._filter is not None and self._filter.blocked is not None

    @property
    def raw(self) -> int:
        """Code points of the text that are decided: shown, replaced or blocked."""
        return self.length if self._filter is None else self._filter.raw

    @property
    def text(self) -> str:
        """All visible text released so far."""
        return "".join(self._pieces)

    def feed(self, tokens: Sequence[int]) -> Released:
        """What more ids release. How many of them come at once changes no text."""
        return self._release("".join([self._text_of(token) for token in tokens]))

    def finish(self) -> Released:
        """The rest, once no id follows, which may still be blocked. Bytes that are no character yet are
        dropped."""
        return self._release(self._counted(self._stops.finish()), final=True)

    def _text_of(self, token: int) -> str:
        assert not self._stops.stopped
        self.n += 1
        text = self._detokenizer.feed(token)
        return self._counted(self._stops.feed(text, armed=self.n > self._min_tokens)) if text else ""

    def _counted(self, text: str) -> str:
        self._unfiltered += len(text)
        if text and not self._stops.holding:
            self._ends.append((self.n, self._unfiltered))
        return text

    def _release(self, text: str, final: bool = False) -> Released:
        released = _unfiltered(text) if self._filter is None else self._filter.feed(text, final)
        visible = "".join([each for each in released if isinstance(each, str)])
        if visible:
            self._pieces.append(visible)
            self.length += len(visible)
        while self._ends and self._ends[0][1] <= self.raw:
            self.covered, _ = self._ends.popleft()
        return released


def _unfiltered(text: str) -> Released:
    return [text] if text else []
