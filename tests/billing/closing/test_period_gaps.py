"""What a month lacks, in words, and whether something that was held back is of it. Pure."""

import pytest

from billing.closing.period_gaps import PeriodGap, PeriodGaps, _is_of, gaps_text, how_to_close_gaps  # pyright: ignore[reportPrivateUsage]
from billing.periods import PeriodWindow
from billing.usage import encode
from tests.billing.events import an_event

BUSY = PeriodGap("b", open=2, held=1)
SOME = PeriodGaps([PeriodGap("a", undelivered=3), BUSY])


@pytest.mark.parametrize(
    ("lacks", "words", "what"),
    [
        (PeriodGaps(), "", "try again in a while"),
        (
            PeriodGaps([BUSY]),
            "pool b: 2 open, 1 held back",
            "open ones end by themselves; decide on those that are held back (`parley quarantine list`)",
        ),
        (
            SOME,
            "pool a: 3 undelivered; pool b: 2 open, 1 held back",
            "open ones end by themselves; undelivered ones are booked while a biller runs; "
            "decide on those that are held back (`parley quarantine list`)",
        ),
        (PeriodGaps(more=True), "more than was counted", "try again in a while"),
        (PeriodGaps(unreachable=True), "Redis could not be asked what is open or undelivered", "start Redis"),
        (
            PeriodGaps([PeriodGap("a", open=1)], unreachable=True, more=True),
            "pool a: 1 open; more than was counted; Redis could not be asked what is open or undelivered",
            "open ones end by themselves; start Redis",
        ),
    ],
)
def test_what_a_month_lacks_is_said_and_what_makes_it_whole(lacks: PeriodGaps, words: str, what: str) -> None:
    """By pool; and what is to be done about it, each once."""
    assert (gaps_text(lacks.facts()), how_to_close_gaps(lacks), bool(lacks)) == (words, what, bool(words))


@pytest.mark.parametrize(
    ("accepted_ms", "ended_ms", "is_of"),
    [
        (9, 9, False),
        (9, 10, True),
        (10, 30, True),
        (19, 30, True),
        (20, 30, False),
        (5, 30, False),
        (30, 19, True),
    ],
)
def test_what_is_held_is_of_the_month_it_was_accepted_or_ended_in(
    accepted_ms: int, ended_ms: int, is_of: bool
) -> None:
    """What cannot be read is of the one that it came in."""
    period = PeriodWindow(10, 20)
    event = encode(an_event(accepted_ms=accepted_ms, ended_ms=ended_ms))
    assert _is_of(event, 15, period) is is_of
    assert [_is_of(b"\xc1", at, period) for at in (9, 10, 19, 20)] == [False, True, True, False]
