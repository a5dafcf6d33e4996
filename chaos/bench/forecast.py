"""`python -m chaos bench forecast`: how near the forecast at mid-month comes to what the month then cost,
beside a straight line.

The days of seeded tenants: their requests come as `billing/seeding` makes them, more on weekdays and more
every week, and each tenant lives one of LIVES on top of that. No database: days are summed as they are made.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from random import Random

import click

from billing.reports.forecast import SpentDays, forecast
from billing.seeding.shapes import DAY_MS, SeedShape, chance_of, tenant_shapes
from billing.seeding.tenant_rows import UsageSource
from billing.seeding.usage_events import usage_events
from chaos.figures.figures import Figure, json_option, show
from chaos.figures.samples import percentile

FIRST, MONTHS, END = date(2026, 9, 1), (date(2026, 10, 1), date(2026, 11, 1)), date(2026, 12, 1)
DAYS = (END - FIRST).days
MIDDLE_DAYS = 15  # of the month, that are over
WEEKEND_PART = 0.3  # as billing/seeding makes weekends
BAND_LEAST = (
    0.7  # of months inside, where 0.8 is said: 40 are judged, so 0.8 itself comes out half of the time
)


@dataclass(frozen=True)
class JudgedMonth:
    """What a month cost, and what was said of it when half of it was over."""

    actual: int
    expected: int
    low: int
    high: int
    by_line: int

    @property
    def error(self) -> float:
        """Part of the truth by which the forecast was off."""
        return abs(self.expected - self.actual) / self.actual

    @property
    def line_error(self) -> float:
        """The same of a straight line through what was booked."""
        return abs(self.by_line - self.actual) / self.actual

    @property
    def inside(self) -> bool:
        """True where the band held it."""
        return self.low <= self.actual <= self.high


def _jump(chance: Random) -> list[float]:
    at = DAYS - 50 + chance.randrange(45)
    return [1.0] * at + [2.5] * (DAYS - at)


LIVES: tuple[Callable[[Random], list[float]], ...] = (
    lambda _: [1.0] * DAYS,
    lambda _: [1.015**day for day in range(DAYS)],
    lambda _: [0.985**day for day in range(DAYS)],
    _jump,
    lambda chance: [4.0 if chance.random() < 0.04 else 1.0 for _ in range(DAYS)],
    lambda chance: [chance.lognormvariate(0, 0.5) for _ in range(DAYS)],
    lambda _: [0.0] * (DAYS - 27) + [1.0] * 27,
    lambda _: [1 / WEEKEND_PART if (FIRST + timedelta(day)).weekday() > 4 else 1.0 for day in range(DAYS)],
)
"""What each day's cost is multiplied by: nothing, growth, shrinking, a jump, days with batches, restless use,
a start early in the last month, weekends like other days."""


@click.command("forecast")
@click.option("--tenants", default=24, show_default=True, help="Each lives one of eight lives in turn.")
@click.option("--events", default=60_000, show_default=True, help="Requests of all of them in three months.")
@click.option("--seed", default="parley", show_default=True)
@json_option
def forecast_bench(tenants: int, events: int, seed: str, as_json: bool) -> None:
    """Error of a month's forecast at mid-month, beside a straight line's, over seeded tenants."""
    end_ms = int(datetime.combine(END, time(), UTC).timestamp() * 1000)
    shape = SeedShape(tenants, events, end_ms, DAYS, seed)
    judged = [each for days in seeded_days(shape) for month in MONTHS for each in judged_month(days, month)]
    show("forecast", figures_of(judged), as_json, {"tenants": tenants, "events": events, "seed": seed})


def figures_of(judged: Sequence[JudgedMonth]) -> list[Figure]:
    """The forecast is to be nearer than the line, and as often inside its band as is said."""
    errors, by_line = [each.error for each in judged], [each.line_error for each in judged]
    inside = sum(each.inside for each in judged) / len(judged)
    return [
        Figure("months judged", len(judged), ""),
        *(
            figure
            for name, part in (("median", 0.5), ("p90", 0.9))
            for figure in (
                Figure(
                    f"error, {name}",
                    100 * percentile(errors, part),
                    "%",
                    most=100 * percentile(by_line, part),
                ),
                Figure(f"error of a straight line, {name}", 100 * percentile(by_line, part), "%"),
            )
        ),
        Figure("inside the band, where 0.8 is said", inside, "", least=BAND_LEAST),
        Figure("width of the band, median", 100 * percentile([_width(each) for each in judged], 0.5), "%"),
    ]


def _width(month: JudgedMonth) -> float:
    return (month.high - month.low) / month.actual


def seeded_days(shape: SeedShape) -> Iterator[list[int]]:
    """The cost of each day of each tenant."""
    for of in tenant_shapes(shape):
        source = UsageSource(of.name, of.name, of.rank, of.events, [("key", "project")], ["user"])
        days = [0] * DAYS
        for event in usage_events(shape, source, "default"):
            days[min(DAYS - 1, (event.accepted_ms - shape.start_ms) // DAY_MS)] += event.cost_nano
        life = LIVES[of.rank % len(LIVES)](chance_of(shape, "life", of.rank))
        yield [round(cost * times) for cost, times in zip(days, life, strict=True)]


def judged_month(days: Sequence[int], month: date) -> list[JudgedMonth]:
    """A month of a tenant's days; none where nothing could be said."""
    start, over = (month - FIRST).days, (month - FIRST).days + MIDDLE_DAYS
    end = ((month + timedelta(31)).replace(day=1) - FIRST).days
    said = forecast(SpentDays(days[:over], month + timedelta(MIDDLE_DAYS)))
    booked, actual = sum(days[start:over]), sum(days[start:end])
    if said is None or not actual:
        return []
    last = said.at(FIRST + timedelta(end - 1))
    line = booked * (end - start) // MIDDLE_DAYS
    return [
        JudgedMonth(
            actual, booked + last.expected_nano, booked + last.low_nano, booked + last.high_nano, line
        )
    ]
