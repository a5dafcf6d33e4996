"""Measures a shape's cost in the steps that all requests share, by trying it: its patterns are checked for
ambiguity, it is compiled as the workers do, and answers of it are walked through with the model's own
vocabulary, each mask and each token timed.

Imports the grammar compiler, which brings torch: only `engine/trials/host.py` does, in a process that may be
killed. Nothing here stops by itself.
"""

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import xgrammar
from transformers import AutoTokenizer

from engine.grammar.ambiguity import ambiguous_at
from engine.grammar.json_schema import patterns_in
from engine.grammar.response_format import Shape

CALL_SECONDS_MAX = 0.015  # of CPU, a mask or a token: below the promised limit, for what a walk misses
PROMISED_MS = 20
RESTARTS, RESTART_TOKENS = 12, 12
WALK_TOKENS = 200
WALKED_SECONDS_MAX = 1.5  # of CPU, after which nothing more is walked: the process is killed at 2
ANY_OBJECT = {"type": "object"}

Compile = Callable[[], Any]


@dataclass
class WorstWalk:
    """The slowest mask and token seen, in seconds of CPU."""

    mask: float = 0.0
    token: float = 0.0
    tokens: int = 0


class ShapeTrial:
    """A model's vocabulary, ready to try shapes with. `clock`: the CPU time of this thread."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size") or len(tokenizer)
        self._info: Any = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size)
        self._compiler: Any = xgrammar.GrammarCompiler(self._info, max_threads=1, cache_enabled=False)
        self._size: int = self._info.vocab_size
        self._lengths = numpy.array([len(word) for word in self._info.decoded_vocab])
        self._until = 0.0
        self._stops = [id for id in self._info.stop_token_ids if id < self._size]

    def problem(self, shape: Shape, say: Callable[[str], None]) -> str:
        """The problem with a shape, empty where there is none. `say` gets each place before it is tried."""
        self._until = time.process_time() + WALKED_SECONDS_MAX
        for place, pattern in _patterns(shape):
            say(f"{place}pattern")
            if (at := ambiguous_at(pattern)) is not None:
                return (
                    f"{place}pattern: ambiguous: the repetition that ends at character {at} takes some texts "
                    "in more ways than can be counted; let what is repeated begin or end with what cannot be "
                    "inside it"
                )
        for place, compile in self._parts(shape):
            say(place)
            try:
                compiled = compile()
            except RuntimeError:
                return f"{place}: the grammar compiler does not take it"
            walked = self._walked(compiled, random.Random(0), WALK_TOKENS)
            worst = max(walked.mask, walked.token)
            if worst > CALL_SECONDS_MAX:
                return (
                    f"{place}: takes up to {worst * 1000:.0f} ms of CPU a token here, and may take more than "
                    f"{PROMISED_MS}: use fewer or smaller repetitions inside each other"
                )
        return ""

    def walk(self, compiled: Any, rng: random.Random, steps: int = WALK_TOKENS) -> WorstWalk:
        """Walk answers that make masks large: some short ones of everything, then any tokens, the longest,
        the same again, the shortest. Ends at the first call over the limit."""
        self._until = time.process_time() + WALKED_SECONDS_MAX
        return self._walked(compiled, rng, steps)

    def _walked(self, compiled: Any, rng: random.Random, steps: int) -> WorstWalk:
        walked = WorstWalk()
        plans = [(choose, steps) for choose in (self._any, self._longest, self._same, self._shortest)]
        for choose, most in [(self._mixed, RESTART_TOKENS)] * RESTARTS + plans:
            if time.process_time() > self._until:
                break
            matcher = xgrammar.GrammarMatcher(compiled)
            self._answer(matcher, choose, rng, walked, most)
            if max(walked.mask, walked.token) > CALL_SECONDS_MAX:
                break
        return walked

    def compiled(self, shape: Shape) -> Any:
        """The shape, compiled as the workers do."""
        return self._whole(shape)()

    def _parts(self, shape: Shape) -> Iterator[tuple[str, Compile]]:
        """Each pattern of a schema by itself, so that a slow one can be named, and the whole."""
        if shape.schema is not None:
            found = _patterns(shape)
            for place, pattern in found:
                yield f"{place}pattern", self._schema({"type": "string", "pattern": pattern})
            yield "schema", self._whole(shape)
        else:
            yield "pattern" if shape.pattern is not None else "choices", self._whole(shape)

    def _whole(self, shape: Shape) -> Compile:
        if shape.pattern is not None:
            return lambda: self._compiler.compile_regex(shape.pattern)
        if shape.choices:
            return lambda: self._compiler.compile_grammar(_alternatives(shape.choices))
        return self._schema(ANY_OBJECT if shape.object else shape.schema)

    def _schema(self, schema: Any) -> Compile:
        return lambda: self._compiler.compile_json_schema(
            json.dumps(schema), any_whitespace=False, separators=(",", ":")
        )

    def _answer(
        self, matcher: Any, choose: Callable[..., int], rng: random.Random, walked: WorstWalk, steps: int
    ) -> None:
        bitmask, last = xgrammar.allocate_token_bitmask(1, self._size), -1
        for _ in range(steps):
            took = _timed(matcher.fill_next_token_bitmask, bitmask)[0]
            if took > CALL_SECONDS_MAX:  # once more: the machine may have been the reason
                took = min(took, _timed(matcher.fill_next_token_bitmask, bitmask)[0])
            walked.mask = max(walked.mask, took)
            bits = numpy.unpackbits(bitmask[0].numpy().view(numpy.uint8), bitorder="little")
            bits[self._stops] = 0  # an answer that could end goes on
            may = numpy.flatnonzero(bits[: self._size])
            over = took > CALL_SECONDS_MAX or time.process_time() > self._until
            if over or not len(may):
                return
            last = int(choose(rng, may, last))
            took, taken = _timed(matcher.accept_token, last)
            walked.token, walked.tokens = max(walked.token, took), walked.tokens + 1
            if not taken or took > CALL_SECONDS_MAX or matcher.is_terminated():
                return

    def _mixed(self, rng: random.Random, may: Any, last: int) -> int:
        choose = rng.choice((self._any, self._longest, self._same, self._shortest, self._plain))
        return choose(rng, may, last)

    def _plain(self, rng: random.Random, may: Any, last: int) -> int:
        """One token of a single byte, which leads to rare places: a long vocabulary has few."""
        found = may[self._lengths[may] == 1]
        return rng.choice(found) if len(found) else self._any(rng, may, last)

    def _any(self, rng: random.Random, may: Any, last: int) -> int:
        return may[rng.randrange(len(may))]

    def _same(self, rng: random.Random, may: Any, last: int) -> int:
        at = int(numpy.searchsorted(may, last))
        return last if at < len(may) and may[at] == last else self._shortest(rng, may, last)

    def _longest(self, rng: random.Random, may: Any, last: int) -> int:
        lengths = self._lengths[may]
        return rng.choice(may[lengths >= lengths.max() - 2])

    def _shortest(self, rng: random.Random, may: Any, last: int) -> int:
        lengths = self._lengths[may]
        return rng.choice(may[lengths == lengths.min()])


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    began = time.thread_time()
    answer = call(*arguments)
    return time.thread_time() - began, answer


def _patterns(shape: Shape) -> list[tuple[str, str]]:
    if shape.pattern is not None:
        return [("", shape.pattern)]
    return [(f"schema, at {place}: ", pattern) for place, pattern in patterns_in(shape.schema)]


def _alternatives(choices: tuple[str, ...]) -> str:
    """Alternatives as a grammar, as vLLM writes them."""
    quoted = ('"' + re.sub(r'(["\\])', r"\\\1", choice) + '"' for choice in choices)
    return "root ::= " + " | ".join(quoted)
