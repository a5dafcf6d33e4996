"""What explains jumps: price versions in words, corrections, and keys that cost more than a week before."""

from datetime import date, timedelta

from billing.money import NANO
from billing.prices.files import FlatPrices
from billing.reports.cache_savings import CacheSaving, cache_savings
from billing.reports.price_changes import PriceChange, changed_words
from billing.reports.priced_sums import PricedSums
from billing.reports.spend_marks import (
    MARKS_MAX,
    DayMark,
    MarkKind,
    correction_marks,
    explains,
    jump_mark,
    jumped_days,
    lettered,
)
from billing.reports.spend_series import NOBODY, SpendSums, assembled

FIRST = date(2026, 11, 1)


def prices(output: int, input: int = 100) -> FlatPrices:
    """In thousandths of a dollar a million tokens."""
    return FlatPrices(input * 10**6, 25 * 10**6, output * 10**6, 0)


def told(before: dict[str, FlatPrices], after: dict[str, FlatPrices], *used: str) -> str | None:
    """A change in words."""
    return changed_words(PriceChange("default", 14, 0, before, after), used)


def test_a_price_version_says_what_changed_of_what_was_used() -> None:
    """The largest change exactly, others by per cent; a model that nobody used is not named."""
    before = {
        "gpt": prices(720),
        "qwen": FlatPrices(100 * 10**6, 50 * 10**6, 200 * 10**6, 0),
        "idle": prices(1),
    }
    after = {
        "gpt": prices(790),
        "qwen": FlatPrices(87 * 10**6, 43_500_000, 174 * 10**6, 0),
        "idle": prices(9),
    }
    found = told(before, after, "qwen", "gpt")
    assert found == "output of gpt from 0.72 to 0.79 a million tokens, qwen down 13 %"
    assert told(before, after, "other") is None
    assert told(before, before, "gpt") is None
    assert told({"*": prices(100)}, {"*": prices(0)}, "m") == "output of m from 0.10 to 0.00 a million tokens"
    many = told({"*": prices(100)}, {"*": prices(150)}, "a", "b", "c", "d")
    assert many == "output of a from 0.10 to 0.15 a million tokens, output of b up 50 % and 2 more models"


def test_a_day_jumps_against_the_same_weekday_before() -> None:
    """Not against a weekend, not by little, not before there is a week to look at."""
    costs = {FIRST + timedelta(days=day): (10 if day % 7 in (0, 6) else 100) * NANO for day in range(21)}
    assert jumped_days(costs, FIRST) == []
    costs[FIRST + timedelta(days=11)] += 300 * NANO
    costs[FIRST + timedelta(days=12)] += 20 * NANO
    assert jumped_days(costs, FIRST) == [FIRST + timedelta(days=11)]
    assert jumped_days(costs, FIRST + timedelta(days=12)) == []


def test_what_explains_a_jump_is_most_of_it() -> None:
    """And new for the key itself."""
    assert explains(100 * NANO, 2 * NANO, 60 * NANO)
    assert not explains(100 * NANO, 0, 40 * NANO)
    assert not explains(100 * NANO, 900 * NANO, 960 * NANO)
    mark = jump_mark(date(2026, 11, 12), "Key search reindex", 2_460_000_000, 219_500_000_000)
    assert mark.text == "Key search reindex cost 219.50 after 2.46 the Thursday before."


def test_refunds_and_corrections_are_a_line_a_day() -> None:
    """With at most two models; what comes to nothing is none."""
    day = date(2026, 11, 13)
    refund, added = correction_marks(
        {
            day: {"a": -50 * NANO, "b": -30 * NANO, "c": -NANO},
            day + timedelta(days=1): {"a": NANO},
            day + timedelta(days=2): {"a": NANO, "b": -NANO},
        }
    )
    assert refund.text == "Refund \u221281.00 (a and b and others)."
    assert added.text == "Correction +1.00 (a)."


def test_letters_go_by_day_and_small_reasons_are_counted() -> None:
    """Prices are always told."""
    marks = [DayMark(FIRST + timedelta(days=20 - each), MarkKind.JUMP, "", each) for each in range(12)]
    price = DayMark(FIRST, MarkKind.PRICE, "new", 0)
    shown, more = lettered([*marks, price])
    assert (len(shown), more) == (MARKS_MAX, 13 - MARKS_MAX)
    assert (shown[0].letter, shown[0].mark) == ("A", price)
    assert [each.mark.day for each in shown] == sorted(each.mark.day for each in shown)


def test_a_series_is_made_of_rows_whatever_order_they_come_in() -> None:
    """Others and nobody are apart; days before the month count for comparison alone."""
    rows = [(2, "a", SpendSums(5, 50)), (2, NOBODY, SpendSums(1, 0)), (1, "a", SpendSums(-2, 0))]
    days = {0: SpendSums(100, 1), 1: SpendSums(1, 30), 2: SpendSums(6, 50)}
    found = assembled(["a"], 4, rows, days, 1)
    assert (found.top[0].month, found.top[0].days) == (SpendSums(3, 50), {2: (5, 50), 1: (-2, 0)})
    assert (found.more, found.others.month, found.total) == (3, SpendSums(3, 30), SpendSums(7, 80))
    assert found.others.days == {1: (3, 30), 2: (0, 0)}
    assert found.nobody is not None
    assert found.days == days


def test_the_cache_saves_by_version_and_what_has_no_price_is_said() -> None:
    """Rounded once for each model and version; true-ups are no use of the cache."""
    sums = [
        PricedSums("m", "input", "usage", "default", 1, 100, 10),
        PricedSums("m", "cached_input", "usage", "default", 1, 7, 1),
        PricedSums("m", "cached_input", "adjust", "default", 1, -2, 0),
        PricedSums("m", "cached_input", "usage", "default", 2, 50, 3),
        PricedSums("m", "cached_input", "true_up", "default", 2, 0, -99),
        PricedSums("m", "output", "usage", "default", 2, 1000, 3),
        PricedSums("old", "cached_input", "usage", "gone", 1, 9, 1),
    ]
    found = cache_savings(sums, {("default", 1, "m"): 1_500_000, ("default", 2, "m"): 1_000_000})
    assert found == [
        CacheSaving("m", 155, 55, (8 - 1) + (50 - 3)),
        CacheSaving("old", 9, 9, 0, 9),
    ]
