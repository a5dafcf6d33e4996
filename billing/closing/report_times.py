"""When a report by mail is due, and of which period. Pure.

Of a month on the morning after its close, of a week on Monday morning, in the tenant's zone. What was due
while no biller ran is sent once it runs, but of the last period alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from billing.periods import Period, window_at

MORNING = time(7)


class ReportEvery(StrEnum):
    """How often a report is sent."""

    MONTH = "month"
    WEEK = "week"


@dataclass(frozen=True)
class DueReport:
    """A report that is due: of which period, in words that sort by time; `month`: the month that it shows."""

    period: str
    month: str


def due_month(
    closes: Iterable[tuple[str, int]], zone: ZoneInfo, since_ms: int, now_ms: int
) -> DueReport | None:
    """The last month, of (month, when it was closed), that was closed since, and a morning came after it."""
    due = [month for month, at in closes if at >= since_ms and _morning_after(at, zone) <= now_ms]
    return DueReport(max(due), max(due)) if due else None


def due_week(zone: ZoneInfo, since_ms: int, now_ms: int) -> DueReport | None:
    """The week that ended on the last Monday, once it is morning, if that was since then."""
    for at_ms in (now_ms, now_ms - 7 * 86_400_000):
        monday = datetime.fromtimestamp(window_at(Period.WEEK, zone, at_ms).start_ms / 1000, UTC)
        day = monday.astimezone(zone).date()
        due_ms = _at(day, zone)
        if due_ms <= now_ms:
            last = day - timedelta(days=1)
            return (
                DueReport(f"week to {last.isoformat()}", last.isoformat()[:7]) if due_ms > since_ms else None
            )
    return None


def _morning_after(at_ms: int, zone: ZoneInfo) -> int:
    """The first morning after an instant's own day has begun: that of the next day."""
    return _at(datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).date() + timedelta(days=1), zone)


def _at(day: date, zone: ZoneInfo) -> int:
    return int(datetime.combine(day, MORNING, zone).astimezone(UTC).timestamp() * 1000)
