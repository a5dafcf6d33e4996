"""A page of usage as JSON or CSV. Pure: amounts are whole nano and exact decimals, ids stand with names."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from billing.api import NAMED, Facet, UsageGroup, UsageQuestion, to_text
from core.terminal.terminal import sheet_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COUNTS = ("requests", "errors", "input_uncached", "input_cached", "output_text", "output_reasoning")
OF_WHOM = (Facet.PROJECT, Facet.COST_CENTER, Facet.USER, Facet.KEY, Facet.MODEL, Facet.POOL, Facet.REASON)

Names = Mapping[Facet, Mapping[str, str]]


@dataclass(frozen=True)
class UsageReply:
    """A route's columns: the facts by which it groups, and the counts beside the amount."""

    route: str
    facets: tuple[Facet, ...]
    counts: tuple[str, ...]


USAGE = UsageReply("usage", OF_WHOM, COUNTS)
COSTS = UsageReply("costs", (*OF_WHOM, Facet.METER, Facet.KIND), ())


def rfc3339(at_ms: int) -> str:
    """A time in UTC, to the millisecond where it has any."""
    at = EPOCH + timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds" if at_ms % 1000 else "seconds").replace("+00:00", "Z")


def as_objects(
    told: UsageReply, question: UsageQuestion, rows: list[UsageGroup], names: Names
) -> list[dict[str, Any]]:
    """A JSON object for each group. A fact that is unknown, or has no request, is null."""
    objects: list[dict[str, Any]] = []
    for row in rows:
        whose: dict[str, Any] = {}
        for facet, id in zip(question.by, row.group, strict=True):
            named = {"id": id, "name": names[facet].get(id, id)} if facet in NAMED else id
            whose[facet.value] = named if id else None
        objects.append({**_times(row), **whose, **_sums(told, row)})
    return objects


def as_csv(
    told: UsageReply, question: UsageQuestion, rows: list[UsageGroup], names: Names, currency: str
) -> str:
    """A CSV line for each group, after a line with the columns; no cell is a formula."""
    columns = ["from", "to"]
    for facet in question.by:
        columns += [facet.value, f"{facet.value}_name"] if facet in NAMED else [facet.value]
    lines: list[list[object]] = [[*columns, *told.counts, "amount_nano", "amount", "currency"]]
    for row in rows:
        cells: list[object] = [*_times(row).values()]
        for facet, id in zip(question.by, row.group, strict=True):
            cells += [id, names[facet].get(id, id)] if facet in NAMED else [id]
        lines.append([*cells, *_sums(told, row).values(), currency])
    return sheet_text(lines)


def _times(row: UsageGroup) -> dict[str, str]:
    return {"from": rfc3339(row.window.start_ms), "to": rfc3339(row.window.end_ms)}


def _sums(told: UsageReply, row: UsageGroup) -> dict[str, Any]:
    amount = row.sums.amount_nano
    counts = {name: getattr(row.sums, name) for name in told.counts}
    return {**counts, "amount_nano": amount, "amount": to_text(amount)}
