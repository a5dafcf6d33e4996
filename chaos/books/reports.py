"""What reports should show: a month's sums by each grouping. Pure, and nothing of the product is in it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from chaos.books.expected import ExpectedBooks, Move
from chaos.books.months import EPOCH, MILLISECOND
from chaos.books.terms import CACHED, INPUT, OUTPUT, ClientAnswer

GROUPINGS = ("project", "cost_center", "user", "key", "model", "day", "total")
SUMS = ("requests", "errors", "input_uncached", "input_cached", "output", "amount_nano")
Sums = tuple[int, ...]  # as SUMS
Report = Mapping[str, Sums]


def report(
    expected: ExpectedBooks, tenant: str, month: tuple[int, int], zone: str, by: str, users: Mapping[str, str]
) -> Report:
    """The sums of each group that has any, by what the report calls it: an id, a model, a user's name (by
    `users`), the moment when a day begins; empty: nobody's, as true-ups are."""
    return summed(_parts(expected, tenant, month, _namer(by, users, zone)))


def summed(parts: Iterable[tuple[str, Sums]]) -> Report:
    """Those of one group added up, and those of nothing left out."""
    found: dict[str, Sums] = {}
    for group, sums in parts:
        before = found.get(group, (0,) * len(SUMS))
        found[group] = tuple(one + other for one, other in zip(before, sums, strict=True))
    return {group: sums for group, sums in found.items() if any(sums)}


def _parts(
    expected: ExpectedBooks, tenant: str, month: tuple[int, int], name: Callable[[Move | str, int], str]
) -> Iterator[tuple[str, Sums]]:
    for move in expected.moves:
        if move.bill.told.tenant == tenant and month[0] <= move.at_ms < month[1]:
            error = move.requests if move.bill.told.reason == "error" else 0
            tokens = (move.quantities.get(meter, 0) for meter in (INPUT, CACHED, OUTPUT))
            yield name(move, move.at_ms), (move.requests, error, *tokens, move.amount)
    for each in expected.closings:
        if each.tenant == tenant and month[0] <= each.at_ms < month[1]:
            yield name(each.model, each.at_ms), (0, 0, 0, 0, 0, each.amount)


def _namer(by: str, users: Mapping[str, str], zone: str) -> Callable[[Move | str, int], str]:
    def name(of: Move | str, at_ms: int) -> str:
        if by == "total":
            return ""
        if by == "day":
            return day_of(at_ms, zone)
        if isinstance(of, str):
            return of if by == "model" else ""
        return of.bill.center if by == "cost_center" else _of_told(of.bill.told, by, users)

    return name


def _of_told(told: ClientAnswer, by: str, users: Mapping[str, str]) -> str:
    return users.get(told.user, told.user) if by == "user" else str(getattr(told, by))


def day_of(at_ms: int, zone: str) -> str:
    """When the day of a moment began, in a zone, as UTC."""
    here = (EPOCH + at_ms * MILLISECOND).astimezone(ZoneInfo(zone))
    first = here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return instant(first.isoformat())


def instant(text: str) -> str:
    """A time as text, however it is written, as UTC."""
    return datetime.fromisoformat(text).astimezone(UTC).isoformat()
