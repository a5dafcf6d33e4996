"""Parses a call of the usage API from its query. Pure: a bad value is refused by the name of its parameter,
before anything is looked up."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from billing.api import BY_MAX, Calendar, Facet, PeriodWindow, UsageBucket, month_number
from core.errors import Refused
from server.api import bad_request

ROWS_MAX = 1000
ROWS = 100
VALUES_MAX = 20
CURSOR_CHARACTERS_MAX = 6000
SHOWN_CHARACTERS_MAX = 64
DIGITS = re.compile(r"[1-9]\d{0,3}", re.ASCII)
MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)
TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})?)?",
    re.ASCII,
)
OF_TIME = ("month", "from", "to")
OF_PAGE = ("cursor", "limit", "format")
PARAMETERS = (*OF_TIME, "by", "bucket", *OF_PAGE)
TIME_PROBLEM = "write a time like 2026-10-01 or 2026-10-01T12:00:00Z (in a URL a + is %2B)"


@dataclass(frozen=True)
class UsageQuery:
    """A call's parameters. `where`: names or ids by fact. `same`: those that must be equal on each page."""

    times: Mapping[str, str]
    by: tuple[Facet, ...] = ()
    bucket: UsageBucket | None = None
    where: Mapping[Facet, tuple[str, ...]] = field(default_factory=dict[Facet, tuple[str, ...]])
    rows_max: int = ROWS
    as_csv: bool = False
    cursor: str = ""
    same: tuple[tuple[str, str], ...] = ()


def read_query(parameters: Iterable[tuple[str, str]], facets: tuple[Facet, ...]) -> UsageQuery:
    """Parse the parameters of a route that knows these facts. Raises Refused (bad_request)."""
    given: dict[str, list[str]] = {}
    for name, value in parameters:
        if name not in PARAMETERS and name not in facets:
            known = ", ".join((*PARAMETERS, *facets))
            raise bad_request(f"unknown parameter {name[:SHOWN_CHARACTERS_MAX]!a}: this takes {known}")
        given.setdefault(name, []).append(value)
    once = {name: _once(name, given[name]) for name in PARAMETERS if name in given}
    return UsageQuery(
        times={name: once[name] for name in OF_TIME if name in once},
        by=_by(once.get("by", ""), facets),
        bucket=_one_of("bucket", once["bucket"], UsageBucket) if "bucket" in once else None,
        where={facet: _values(facet, given[facet]) for facet in facets if facet in given},
        rows_max=_rows(once.get("limit", str(ROWS))),
        as_csv=_is_csv(once.get("format", "json")),
        cursor=_cursor(once.get("cursor", "")),
        same=tuple(sorted((name, each) for name in given.keys() - {*OF_PAGE} for each in given[name])),
    )


def _once(name: str, values: list[str]) -> str:
    if len(values) > 1:
        raise bad_request(f"{name}: say it once")
    return values[0]


def _by(text: str, facets: tuple[Facet, ...]) -> tuple[Facet, ...]:
    names = text.split(",") if text else []
    if len(names) > BY_MAX or len(set(names)) < len(names) or not set(names) <= {*facets}:
        raise bad_request(f"by: up to {BY_MAX} different ones of {', '.join(facets)}, with a comma")
    return tuple(Facet(name) for name in names)


def _one_of(name: str, value: str, kind: type[UsageBucket]) -> UsageBucket:
    try:
        return kind(value)
    except ValueError:
        raise bad_request(f"{name}: one of {', '.join(kind)}") from None


def _values(facet: Facet, values: list[str]) -> tuple[str, ...]:
    if len(values) > VALUES_MAX:
        raise bad_request(f"{facet.value}: at most {VALUES_MAX} at once")
    return tuple(dict.fromkeys(values))


def _rows(text: str) -> int:
    if DIGITS.fullmatch(text) is None or int(text) > ROWS_MAX:
        raise bad_request(f"limit: a number from 1 to {ROWS_MAX}")
    return int(text)


def _is_csv(text: str) -> bool:
    if text not in ("json", "csv"):
        raise bad_request("format: json or csv")
    return text == "csv"


def _cursor(text: str) -> str:
    if len(text) > CURSOR_CHARACTERS_MAX:
        raise foreign_cursor()
    return text


def foreign_cursor() -> Refused:
    """The refusal of a cursor that is not ours, is of another question or another key, or is too old."""
    return bad_request(
        "cursor: use the one that the page before gave, with the same question, within an hour"
    )


def window_of(times: Mapping[str, str], calendar: Calendar, now: int) -> PeriodWindow:
    """The requested time: a month, or from one time to another; by default the present month, up to now.
    Raises Refused (bad_request)."""
    if "month" in times:
        if len(times) > 1:
            raise bad_request("month: give that, or from and to")
        return _month(times["month"], calendar)
    if "to" in times and "from" not in times:
        raise bad_request("to: give from, too")
    start = calendar.window(calendar.month_at(now)).start_ms
    if "from" in times:
        start = _instant("from", times["from"], calendar.zone)
    return PeriodWindow(start, _instant("to", times["to"], calendar.zone) if "to" in times else now)


def _month(text: str, calendar: Calendar) -> PeriodWindow:
    match = MONTH.fullmatch(text)
    try:
        if match is None:
            raise ValueError("another shape")
        return calendar.window(month_number(int(match[1]), int(match[2])))
    except (ValueError, OverflowError):
        raise bad_request("month: write it like 2026-10") from None


def _instant(name: str, text: str, zone: ZoneInfo) -> int:
    """Unix ms of a time. Without an offset it is in the tenant's zone, the first of two with that name."""
    try:
        if TIME.fullmatch(text) is None:
            raise ValueError("another shape")
        at = datetime.fromisoformat(text)
        local = (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
        return int(local.replace(microsecond=0).timestamp()) * 1000 + local.microsecond // 1000
    except (ValueError, OverflowError):
        raise bad_request(f"{name}: {TIME_PROBLEM}") from None
