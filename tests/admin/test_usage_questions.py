"""What a call of the usage API asks, without a console: its times, and what makes two one question."""

from zoneinfo import ZoneInfo

import pytest

from admin.usage.query import read_query, window_of
from admin.usage.reply import USAGE
from billing.api import Calendar, PeriodWindow, month_number
from core.errors import Refused

BERLIN = Calendar(ZoneInfo("Europe/Berlin"))
OCTOBER = BERLIN.window(month_number(2026, 10))
NOON = 1_790_848_800_000  # 2026-10-01T12:00+02:00


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({}, PeriodWindow(OCTOBER.start_ms, NOON)),
        ({"month": "2026-10"}, OCTOBER),
        ({"from": "2026-10-01T11:00"}, PeriodWindow(NOON - 3_600_000, NOON)),
        ({"from": "2026-10-01T11:00+02:00"}, PeriodWindow(NOON - 3_600_000, NOON)),
        ({"from": "2026-10-01T09:00Z"}, PeriodWindow(NOON - 3_600_000, NOON)),
        (
            {"from": "2026-10-01T09:00:00.5Z", "to": "2026-10-02"},
            PeriodWindow(NOON - 3_599_500, NOON + 43_200_000),
        ),
    ],
)
def test_a_time_is_the_tenants_where_it_says_no_other(times: dict[str, str], expected: PeriodWindow) -> None:
    """By default the month that runs, up to now."""
    assert window_of(times, BERLIN, NOON) == expected


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ({"to": "2026-10-02"}, "to: give from, too"),
        ({"month": "2026-10", "to": "2026-10-02"}, "month: give that, or from and to"),
        ({"month": "2026-13"}, "month: write it like 2026-10"),
        ({"from": "2026-10-32"}, "from: write a time"),
        ({"from": "2026-10-01", "to": "noon"}, "to: write a time"),
    ],
)
def test_a_time_that_is_half_or_none_is_named(times: dict[str, str], says: str) -> None:
    """By its parameter."""
    with pytest.raises(Refused, match=says):
        window_of(times, BERLIN, NOON)


def test_all_but_where_and_how_a_page_is_written_is_the_question() -> None:
    """A cursor is for these: the same on each page, in whatever order they are given."""
    asked = [("month", "2026-10"), ("by", "user"), ("bucket", "day"), ("user", "ann"), ("user", "bob")]
    same = read_query(asked, USAGE.facets).same
    assert read_query([*reversed(asked)], USAGE.facets).same == same
    of_page = [("limit", "5"), ("format", "csv"), ("cursor", "x")]
    assert read_query([*asked, *of_page], USAGE.facets).same == same
    for at, (name, value) in enumerate(asked):
        for other in ([], [(name, {"day": "hour", "user": "key"}.get(value, f"{value}1"))]):
            changed = [*asked[:at], *other, *asked[at + 1 :]]
            assert read_query(changed, USAGE.facets).same != same, (name, other)


@pytest.mark.parametrize(("limit", "taken"), [("1", 1), ("1000", 1000), ("1001", 0), ("0", 0), ("٣", 0)])
def test_a_page_has_one_to_a_thousand_rows(limit: str, taken: int) -> None:
    """In ASCII digits."""
    if taken:
        assert read_query([("limit", limit)], USAGE.facets).rows_max == taken
        return
    with pytest.raises(Refused, match="limit: a number from 1 to 1000"):
        read_query([("limit", limit)], USAGE.facets)
