"""Random texts of the parts of a pattern that match many characters. Pure.

A pattern is tried with them (engine/safety/cost_trial.py): they keep many beginnings of matches alive.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

Ranges: TypeAlias = list[tuple[int, int]]
# What matches a part: characters of ranges, parts one after the other, one of some, one repeated.
Shape: TypeAlias = tuple[Any, ...]
SOME_MAX = 4  # letters of a class that a sample is made of


class Stretch(NamedTuple):
    """A part of a pattern that matches many characters, by which hostile text keeps many beginnings of
    matches alive: the shortest text that leads to it, and the shape of what is repeated."""

    lead: str
    shape: Shape


def walked(shape: Shape, random: Random, wanted: str) -> str:
    """A random text of that shape. `wanted`: letters that it has where they may be."""
    kind, *rest = shape
    match kind:
        case "of":
            fitting = [each for each in wanted if any(low <= ord(each) <= high for low, high in rest[0])]
            return random.choice([*some_of(rest[0]), *fitting, *fitting])
        case "one":
            return walked(random.choice(rest), random, wanted)
        case "repeat":
            times = random.choice((rest[1], rest[2], random.randint(rest[1], rest[2])))
            return "".join(walked(rest[0], random, wanted) for _ in range(times))
        case _:
            return "".join(walked(each, random, wanted) for each in rest)


def some_of(ranges: Sequence[tuple[int, int]]) -> list[str]:
    """A few characters of a class, usual ones first."""
    ends = [end for each in ranges for end in each if not 0xD800 <= end <= 0xDFFF]
    usual = [ord(letter) for letter in "a1 -" if any(low <= ord(letter) <= high for low, high in ranges)]
    return [chr(each) for each in (*usual, *ends)][:SOME_MAX] or ["\ufffd"]
