"""Tries what patterns cost on hostile text made of themselves: nearly matches, matches, their letters.

RE2 takes linear time, but for a byte some patterns take a thousand times as much as others, and no look at a
pattern tells which. Pure but for the CPU clock.
"""

import time
from collections.abc import Iterator, Sequence
from random import Random

from engine.safety.filter import Filter
from engine.safety.patterns import Pattern, parsed
from engine.safety.policy import CompiledPolicy
from engine.safety.rules import Rule

HOSTILE_BYTES = 64 << 10  # over all patterns
PIECE = 32  # code points fed at once
SECONDS_MAX = 1.0  # of CPU for HOSTILE_BYTES
AGAIN = 3  # a cost counts where it is as high each time


def too_dear(rules: Sequence[Rule]) -> tuple[Rule, float] | None:
    """A rule among these patterns on whose text they take too much, and the µs of CPU a byte; None where none
    is."""
    policy = CompiledPolicy(rules)
    for rule in rules:
        for text in _hostile(parsed(rule.pattern), HOSTILE_BYTES // max(1, len(rules))):
            if (cost := _cost(policy, text)) > SECONDS_MAX / HOSTILE_BYTES:
                return rule, cost * 1e6
    return None


def _hostile(pattern: Pattern, size: int) -> Iterator[str]:
    random = Random(pattern.whole)
    sample, letters = pattern.sample, sorted(pattern.letters)
    length = size // 4 // max(len(letter.encode()) for letter in letters) + 1
    yield (sample[:-1] * length)[:length] if len(sample) > 1 else sample * length
    yield (sample * length)[:length]
    yield "".join(random.choices(letters, k=length))
    cuts = (sample[: random.randint(1, len(sample))] + random.choice(letters) for _ in range(length))
    yield "".join(cuts)[:length]


def _cost(policy: CompiledPolicy, text: str) -> float:
    """Seconds a byte, of the best of some runs; the first one builds the automaton."""
    best = SECONDS_MAX * AGAIN
    for _ in range(AGAIN):
        took = _seconds(policy, text)
        best = min(best, took)
        if took > SECONDS_MAX or best <= SECONDS_MAX / HOSTILE_BYTES * len(text.encode()):
            break
    return best / len(text.encode())


def _seconds(policy: CompiledPolicy, text: str) -> float:
    filter = Filter(policy)
    began = time.thread_time()
    for at in range(0, len(text), PIECE):
        filter.feed(text[at : at + PIECE])
    return time.thread_time() - began
