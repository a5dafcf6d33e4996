"""What explains the jumps of a tenant's days: looked up where it happened. Reads only."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date

from billing.operations.spend_month import ReportedMonth
from billing.periods import PeriodWindow
from billing.reports.price_changes import changed_words, price_changes
from billing.reports.priced_sums import corrections_in, models_used
from billing.reports.spend_marks import (
    WEEK,
    DayMark,
    LetteredMark,
    MarkKind,
    correction_marks,
    explains,
    jump_mark,
    jumped_days,
    lettered,
)
from billing.reports.spend_series import DailySeries, most_added
from billing.reports.usage_names import names_of
from billing.reports.usage_questions import Facet, UsageQuestion
from billing.unit_of_work.units import Look

PRICE_WEIGHT = 0


async def marks_of(
    look: Look, month: ReportedMonth, days: Sequence[PeriodWindow], found: DailySeries
) -> tuple[list[LetteredMark], int]:
    """The marks of a month's days, and how many smaller ones have no letter."""
    if not days:
        return [], 0
    window = PeriodWindow(days[0].start_ms, min(days[-1].end_ms, month.now_ms + 1))
    marks = await _prices(look, month, window)
    by_day: dict[date, dict[str, int]] = {}
    for each in await corrections_in(look.db, month.tenant_id, window):
        models = by_day.setdefault(month.date_of(each.hour_ms), {})
        models[each.model] = models.get(each.model, 0) + each.amount_nano
    return lettered([*marks, *correction_marks(by_day), *await _jumps(look, month, days, found)])


async def _prices(look: Look, month: ReportedMonth, window: PeriodWindow) -> list[DayMark]:
    """Marks of the price versions that began and changed what was used."""
    async with look.db.session() as session:
        changes = await price_changes(session, month.tenant_id, window)
    if not changes:
        return []
    used = await models_used(look.db, month.tenant_id, window)
    marks: list[DayMark] = []
    for change in changes:
        told = changed_words(change, used)
        if told is not None:
            text = f"Price version {change.version}: {told}."
            marks.append(DayMark(month.date_of(change.valid_from_ms), MarkKind.PRICE, text, PRICE_WEIGHT))
    return marks


async def _jumps(
    look: Look, month: ReportedMonth, days: Sequence[PeriodWindow], found: DailySeries
) -> list[DayMark]:
    """Marks of days that jumped, where one key or else one user explains it."""
    costs: dict[date, int] = {}
    windows: dict[date, PeriodWindow] = {}
    for start_ms, sums in found.days.items():
        day = month.date_of(start_ms)
        costs[day] = costs.get(day, 0) + sums.amount_nano
        windows[day] = month.calendar.day_at(start_ms)
    marks: list[DayMark] = []
    for day in jumped_days(costs, month.date_of(days[0].start_ms)):
        pair = windows[day], windows[day - WEEK]
        for facet in (Facet.KEY, Facet.USER):
            question = UsageQuestion(month.tenant_id, pair[0], month.calendar, (facet,))
            added = await most_added(look.db, question, pair[1])
            if added is not None and explains(costs[day] - costs[day - WEEK], added.was_nano, added.now_nano):
                names = await shown_names(look, month.tenant_id, facet, [added.id])
                whose = f"{facet.value.capitalize()} {names.get(added.id, added.id)}"
                marks.append(jump_mark(day, whose, added.was_nano, added.now_nano))
                break
    return marks


async def shown_names(look: Look, tenant_id: str, facet: Facet, ids: Collection[str]) -> Mapping[str, str]:
    """Names of groups: of a key without its prefix, unless another one shown has the same."""
    names = await names_of(look.db, tenant_id, facet, ids)
    if facet is not Facet.KEY:
        return names
    short = {id: name.partition(" ")[2] or name for id, name in names.items()}
    often = Counter(short.values())
    return {id: names[id] if often[name] > 1 else name for id, name in short.items()}
