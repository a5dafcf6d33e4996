"""The six numbers of the strip, and the load of the last hour: now, and as processes counted. Pure."""

from collections.abc import Sequence

from admin.overview.answer import (
    ErrorNumber,
    LatencyNumber,
    LoadSeries,
    OutputNumber,
    OverviewStrip,
    RunningNumber,
    UnbilledNumber,
)
from admin.overview.facts import OverviewFacts
from core.clock import iso_time
from core.observability.recent_figures import RecentFigures
from core.observability.request_figures import FAULTS


def strip_of(facts: OverviewFacts) -> OverviewStrip:
    """What nobody has counted is null, and so is what is not for this reader."""
    figures = facts.redis.figures if facts.redis and facts.sees_pools else None
    counted = figures if figures and _has_counted(figures) else None
    return OverviewStrip(
        running=_running(facts, figures),
        output=_output(counted) if counted else None,
        first_token=_latency(counted, "first_token") if counted else None,
        between_tokens=_latency(counted, "between_tokens") if counted else None,
        errors=_errors(counted) if counted else None,
        unbilled=_unbilled(facts),
    )


def load_of(facts: OverviewFacts) -> LoadSeries | None:
    """The last hour's levels; None where no process has told any."""
    figures = facts.redis.figures if facts.redis and facts.sees_pools else None
    if figures is None or not any(minute.samples for minute in figures.found):
        return None
    running, waiting, slots = (_rounded(figures.levels(each), 1) for each in ("running", "waiting", "slots"))
    return LoadSeries([iso_time(at) or "" for at in figures.minutes], running, waiting, slots)


def _has_counted(figures: RecentFigures) -> bool:
    return any(minute.buckets or minute.ended or minute.tokens or minute.samples for minute in figures.found)


def _running(facts: OverviewFacts, figures: RecentFigures | None) -> RunningNumber | None:
    if facts.redis is None or not facts.sees_pools:
        return None
    value, of = sum(each.running for each in facts.pools), sum(each.slots for each in facts.pools)
    return RunningNumber(value, of, _rounded(figures.levels("running"), 1) if figures else [])


def _output(figures: RecentFigures) -> OutputNumber:
    rates = _rounded(figures.rate("output_tokens"), 1)
    return OutputNumber(rates[-1], rates)


def _latency(figures: RecentFigures, metric: str) -> LatencyNumber:
    found = figures.percentiles(metric)
    p50, p95, p99 = _rounded((found.p50, found.p95, found.p99), 4)
    return LatencyNumber(p50, p95, p99, _rounded(figures.series(metric), 4))


def _errors(figures: RecentFigures) -> ErrorNumber:
    count, of = sum(figures.ended(FAULTS)), sum(figures.ended())
    return ErrorNumber(round(count / of, 6) if of else None, count, of, _rounded(figures.faults(), 6))


def _unbilled(facts: OverviewFacts) -> UnbilledNumber:
    known = facts.redis is not None
    seconds, unread = (round(facts.unread_ms / 1000, 1), facts.unread) if known else (None, None)
    return UnbilledNumber(seconds, unread, facts.sql.quarantined, [])


def _rounded(values: Sequence[float | None], digits: int) -> list[float | None]:
    return [None if each is None else round(each, digits) for each in values]
