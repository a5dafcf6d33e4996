"""Tries what a level's patterns and words cost on hostile text made of themselves.

RE2 takes linear time, but for a byte some patterns take a thousand times as much as others, and no look at a
pattern tells which. Text comes as tokens do, while another level's rule holds all that it can. So what levels
cost together is what each costs at most, added up: no expression has patterns of two (engine/safety/
scanner.py). Pure but for the CPU clock.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random

from engine.safety.cpu_budget import FilterTooDearError
from engine.safety.filter import Filter
from engine.safety.patterns import WIDTH_MAX, Pattern, parsed
from engine.safety.policy import CompiledPolicy
from engine.safety.rules import Rule
from engine.safety.stretches import walked
from engine.safety.words import WordLists

PIECES = (4, 64)  # code points fed at once: a token's, a slow reader's
LENGTH = 768  # code points of a text
MICROSECONDS_MAX = 20.0  # of CPU for a byte of a level's
AGAIN = 6  # a cost counts where it is as high each time
LEADS = 0.3  # of the places in a stretch another match begins
SEVERAL = 4  # letters of a beginning that a stretch is to have
_HOLDER = Rule(rf"[\x00-\U0010fffe]{{{WIDTH_MAX - 1}}}\U0010ffff", "holder", "redact", "project", own=True)


def too_dear(rules: Sequence[Rule]) -> tuple[Rule, float] | None:
    """A rule among these, of one level, on whose text they take too much, and the µs of CPU a byte; None
    where none is."""
    policy = CompiledPolicy([*rules, _HOLDER])
    for rule in rules:
        for text in _of_words(rule) if rule.words else _hostile(parsed(rule.pattern)):
            for piece in PIECES:
                if (cost := _cost(policy, text, piece)) > MICROSECONDS_MAX:
                    return rule, cost
    return None


def _of_words(rule: Rule) -> Iterator[str]:
    """The word that most words stand in the beginning of, with blanks between and without."""
    deepest = WordLists([(word, 0) for word in rule.words]).deepest()
    for word in (f"{deepest} ", deepest):
        yield (word * LENGTH)[:LENGTH]


def _hostile(pattern: Pattern) -> Iterator[str]:
    random = Random(pattern.whole)
    sample, letters = pattern.sample, sorted(pattern.letters)
    yield (sample[:-1] * LENGTH)[:LENGTH] if len(sample) > 1 else sample * LENGTH
    yield (sample * LENGTH)[:LENGTH]
    yield "".join(random.choices(letters, k=LENGTH))
    cuts = (sample[: random.randint(1, len(sample))] + random.choice(letters) for _ in range(LENGTH))
    yield "".join(cuts)[:LENGTH]
    for lead, shape in sorted(pattern.stretches, key=repr):
        for leads in (LEADS, 0):
            text = lead
            while len(text) < LENGTH:
                text += lead if random.random() < leads else walked(shape, random, lead[:SEVERAL])
            yield text[:LENGTH]


def _cost(policy: CompiledPolicy, text: str, piece: int) -> float:
    """µs a byte, of the best of some runs; the first one builds the automaton."""
    size = len(text.encode())
    best = float("inf")
    for _ in range(AGAIN):
        best = min(best, _seconds(policy, text, piece) / size * 1e6)
        if best <= MICROSECONDS_MAX:
            break
    return best


def _seconds(policy: CompiledPolicy, text: str, piece: int) -> float:
    filter = Filter(policy)
    began = time.thread_time()
    with suppress(FilterTooDearError):
        for at in range(0, len(text), piece):
            filter.feed(text[at : at + piece])
    return time.thread_time() - began
