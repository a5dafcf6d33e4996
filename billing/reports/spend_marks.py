"""What explains the jumps of a month's days: a letter on the bar, and a line of words. Pure.

Days are compared with the same weekday before, since weekends cost less.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import NamedTuple

from billing.reports.spend_words import cents, change, listed

MARKS_MAX = 8
JUMPS_MAX = 3
WEEK = timedelta(days=7)
JUMP_SHARE = 5  # a day jumps where a fifth or more of its cost is new …
KEY_SHARE = 2  # … and a key or user explains it with at least half of that
SMALLEST_NANO = 10_000_000  # a cent
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class MarkKind(StrEnum):
    """What happened on a marked day."""

    PRICE = "price"
    CORRECTION = "correction"
    JUMP = "jump"


class DayMark(NamedTuple):
    """`weight`: how much it moved, in nano; a price version outweighs all."""

    day: date
    kind: MarkKind
    text: str
    weight: int


class LetteredMark(NamedTuple):
    """A mark with its letter, in the order of days."""

    letter: str
    mark: DayMark


def jumped_days(costs: Mapping[date, int], first: date) -> list[date]:
    """Days from `first` on that cost so much more than the same weekday before that it wants a reason, those
    that jumped most first."""
    added = {
        day: nano - costs[day - WEEK]
        for day, nano in costs.items()
        if day >= first and day - WEEK in costs and nano > 0
    }
    jumps = [day for day, more in added.items() if more >= SMALLEST_NANO and more * JUMP_SHARE >= costs[day]]
    return sorted(jumps, key=lambda day: (-added[day], day))[:JUMPS_MAX]


def explains(jump_nano: int, was_nano: int, now_nano: int) -> bool:
    """True where what one key or user added is most of a day's jump, and new for itself too."""
    added = now_nano - was_nano
    return added >= SMALLEST_NANO and added * KEY_SHARE >= jump_nano and added * JUMP_SHARE >= now_nano


def jump_mark(day: date, whose: str, was_nano: int, now_nano: int) -> DayMark:
    """`whose`: like "Key search reindex"."""
    weekday = WEEKDAYS[day.weekday()]
    text = f"{whose} cost {cents(now_nano)} after {cents(was_nano)} the {weekday} before."
    return DayMark(day, MarkKind.JUMP, text, now_nano - was_nano)


def correction_marks(corrections: Mapping[date, Mapping[str, int]]) -> list[DayMark]:
    """Marks of corrections and refunds by day and model."""
    marks: list[DayMark] = []
    for day, models in corrections.items():
        nano = sum(models.values())
        if not nano:
            continue
        named = sorted((model for model in models if model), key=lambda model: (-abs(models[model]), model))
        of = f" ({listed(named[:2])}{' and others' if len(named) > 2 else ''})" if named else ""
        text = f"Refund {cents(nano)}{of}." if nano < 0 else f"Correction {change(nano)}{of}."
        marks.append(DayMark(day, MarkKind.CORRECTION, text, abs(nano)))
    return marks


def lettered(marks: Sequence[DayMark]) -> tuple[list[LetteredMark], int]:
    """The marks that are shown, by day, and how many smaller ones are not."""
    chosen = sorted(marks, key=lambda each: (each.kind is not MarkKind.PRICE, -each.weight, each.day))[
        :MARKS_MAX
    ]
    chosen.sort(key=lambda each: (each.day, list(MarkKind).index(each.kind), -each.weight))
    letters = [LetteredMark(chr(ord("A") + place), mark) for place, mark in enumerate(chosen)]
    return letters, len(marks) - len(chosen)
