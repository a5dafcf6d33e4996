"""Compares the hours of two days, or the days of two months, each with the one of its name."""

from collections.abc import Mapping

from billing.periods import PeriodWindow
from billing.reports.charge_days import ComparedCosts, CostComparison, whole_sums
from billing.reports.usage_pages import UsageGroup, usage_page
from billing.reports.usage_questions import UsageBucket, UsageQuestion
from core.sql.database import Database

ROWS_MAX = 1_000  # of the hours of a day, or the days of a month
SECONDS_MAX = 20.0
Parts = Mapping[str, PeriodWindow]


async def compared_parts(
    db: Database, comparison: CostComparison, bucket: UsageBucket, before: Parts, after: Parts
) -> list[tuple[str, ComparedCosts]]:
    """Each part of the later time beside the earlier one's of the same name, in order; what only the earlier
    one has comes last."""
    sums = [await _sums(db, comparison, bucket, window) for window in (comparison.before, comparison.after)]
    return paired(_by_name(sums[0], before), _by_name(sums[1], after), [*after, *(set(before) - set(after))])


def paired(
    before: Mapping[str, ComparedCosts], after: Mapping[str, ComparedCosts], names: list[str]
) -> list[tuple[str, ComparedCosts]]:
    """Both of each name. Pure."""
    nothing = ComparedCosts()
    return [
        (name, ComparedCosts(then.requests, then.tokens, earlier.after_nano, then.after_nano))
        for name in names
        for earlier, then in [(before.get(name, nothing), after.get(name, nothing))]
    ]


async def _sums(
    db: Database, comparison: CostComparison, bucket: UsageBucket, window: PeriodWindow
) -> list[UsageGroup]:
    question = UsageQuestion(comparison.tenant_id, window, comparison.calendar, bucket=bucket)
    return (await usage_page(db, question, ROWS_MAX, SECONDS_MAX)).rows


def _by_name(rows: list[UsageGroup], parts: Parts) -> dict[str, ComparedCosts]:
    found: dict[str, ComparedCosts] = {}
    for row in rows:
        name = next(
            name for name, part in parts.items() if part.start_ms <= row.window.start_ms < part.end_ms
        )
        found[name] = found.get(name, ComparedCosts()) + whole_sums(row.sums)
    return found
