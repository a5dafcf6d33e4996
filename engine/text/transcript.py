"""One answer's text as a function of its token ids: detokenized, stop strings cut. Pure."""

from collections.abc import Sequence

from tokenizers import Tokenizer

from engine.request import Sampling
from engine.text.detokenize import Detokenizer
from engine.text.stop_strings import StopMatcher


class Transcript:
    """Feed it every id of the answer in order, the logged ones of a continued answer first.

    `n` ids were fed, `covered` of them have all their text released, `length` code points are released.
    Until a filter stands between, raw and visible positions are the same.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], sampling: Sampling) -> None:
        self._detokenizer = Detokenizer(tokenizer, prompt)
        self._stops = StopMatcher(sampling.stop)
        self._min_tokens = sampling.min_tokens
        self._pieces: list[str] = []
        self.n = 0
        self.covered = 0
        self.length = 0

    @property
    def stopped(self) -> bool:
        """True where a stop string was found: the answer is complete, and further ids are not part of it."""
        return self._stops.stopped

    @property
    def text(self) -> str:
        """All visible text released so far."""
        return "".join(self._pieces)

    def feed(self, token: int) -> str:
        """The visible text released by one more id."""
        assert not self.stopped
        self.n += 1
        text = self._detokenizer.feed(token)
        return self._release(self._stops.feed(text, armed=self.n > self._min_tokens)) if text else ""

    def finish(self) -> str:
        """The rest of the visible text, once no id follows. Bytes that are no character yet are dropped."""
        return self._release(self._stops.finish())

    def _release(self, text: str) -> str:
        if text:
            self._pieces.append(text)
            self.length += len(text)
            self.covered = self.covered if self._stops.holding else self.n
        return text
