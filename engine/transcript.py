"""One answer's text as a function of its token ids: detokenized, stop strings cut, nothing shown too early.
Pure."""

import hashlib
from collections.abc import Sequence

from tokenizers import Tokenizer

from engine.detokenize import Detokenizer
from engine.request import Sampling
from engine.stops import StopMatcher


class Transcript:
    """Feed it every id of the answer in order, the logged ones of a continued answer first.

    `n` ids were fed; `length` code points of visible text are released so far. Until a filter stands
    between, raw and visible positions are the same.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], sampling: Sampling) -> None:
        self._detokenizer = Detokenizer(tokenizer, prompt)
        self._stops = StopMatcher(sampling.stop)
        self._min_tokens = sampling.min_tokens
        self._digest = hashlib.sha256()
        self.n = 0
        self.length = 0

    @property
    def stopped(self) -> bool:
        """A stop string was found: the answer is complete and further ids are not part of it."""
        return self._stops.stopped

    def feed(self, token: int) -> str:
        """The visible text released by one more id."""
        assert not self.stopped
        self.n += 1
        text = self._detokenizer.feed(token)
        return self._release(self._stops.feed(text, armed=self.n > self._min_tokens)) if text else ""

    def finish(self) -> str:
        """The rest of the visible text, once no id follows. Bytes that are no character yet are dropped."""
        return self._release(self._stops.finish())

    def digest(self) -> str:
        """Lower-case hex sha-256 of the visible text released so far, in UTF-8."""
        return self._digest.hexdigest()

    def _release(self, text: str) -> str:
        self._digest.update(text.encode())
        self.length += len(text)
        return text
