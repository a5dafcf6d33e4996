"""When reports by mail are due: in the morning, in the tenant's zone, once; also where clocks change."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from billing.closing.report_times import DueReport, due_month, due_week

BERLIN = ZoneInfo("Europe/Berlin")
DAY_MS = 86_400_000


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    """Unix ms of a local time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC).timestamp() * 1000)


def test_a_month_is_told_of_on_the_morning_after_its_close():
    """The last one that was closed since, and none that was closed before."""
    closes = [("2026-09", at("2026-10-02T03:00")), ("2026-10", at("2026-11-02T03:00"))]
    since = at("2026-10-15T00:00")
    assert due_month(closes, BERLIN, since, at("2026-11-03T06:59")) is None
    assert due_month(closes, BERLIN, since, at("2026-11-03T07:00")) == DueReport("2026-10", "2026-10")
    assert due_month(closes, BERLIN, at("2026-11-02T04:00"), at("2026-12-01T00:00")) is None
    assert due_month([], BERLIN, 0, since) is None


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Havana"])
def test_each_week_is_told_of_once_on_monday_morning(zone: str):
    """Looked at every hour of half a year, beside clocks that change: a schedule that is told at once has one
    for each week, a week apart."""
    place = ZoneInfo(zone)
    told_ms, told = at("2026-08-05T12:00", place), list[str]()
    for hour in range(26 * 7 * 24):
        now = at("2026-08-05T12:00", place) + hour * 3_600_000
        due = due_week(place, told_ms, now)
        if due is not None:
            told_ms = now
            told.append(due.period)
            assert datetime.fromtimestamp(now / 1000, UTC).astimezone(place).weekday() == 0
    days = [datetime.fromisoformat(period.removeprefix("week to ")) for period in told]
    assert len(days) == 26
    assert {later - earlier for earlier, later in pairwise(days)} == {timedelta(days=7)}


def test_after_a_long_stop_only_the_last_week_is_told_of():
    """It shows the month in which the week ended."""
    due = due_week(BERLIN, at("2026-08-05T12:00"), at("2026-11-05T12:00"))
    assert due == DueReport("week to 2026-11-01", "2026-11")
