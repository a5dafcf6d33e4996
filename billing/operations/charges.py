"""Operations that explain charges step by step: a day or month by its groups, a group by its requests."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.operations.known_times import check_day, known_month
from billing.operations.shared_fields import NameTenant
from billing.periods import Calendar, PeriodWindow
from billing.prices.calendars import calendar_of
from billing.reports.charge_days import ComparedCosts, ComparedGroups, CostComparison, compared
from billing.reports.charge_hours import compared_parts
from billing.reports.compared_times import ComparedTimes, days_of, hours_of, times_of_day, times_of_month
from billing.reports.usage_names import names_of
from billing.reports.usage_pages import usage_page
from billing.reports.usage_questions import Facet, UsageBucket, UsageQuestion
from billing.requests.dearest import DearestQuestion, DearRequest, dearest
from billing.tenants.shown_names import key_names
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.errors import bad_request
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation

GROUPS_MAX = 100
REQUESTS_MAX = 100
SECONDS_MAX = 20.0
CHARGE_TABLES = (
    "tenant project cost_center api_key tenant_user period_close ledger_head rollup_hour usage_line "
    "usage_event charge"
)


class ChargeBy(StrEnum):
    """What a group of charges is. An HOUR is of a day, by the local time when it begins; a DAY of a month."""

    KEY = "key"
    MODEL = "model"
    USER = "user"
    PROJECT = "project"
    COST_CENTER = "cost_center"
    POOL = "pool"
    HOUR = "hour"
    DAY = "day"


class AskDearest(NameTenant, frozen=True, kw_only=True):
    """Which day and group, and how many requests."""

    day: Annotated[
        str, Meta(description="As 2026-11-12, in the tenant's time zone; by default yesterday.")
    ] = ""
    by: Annotated[ChargeBy, Meta(description="What a group is.")] = ChargeBy.KEY
    of: Annotated[
        Annotated[str, Meta(max_length=400)] | None,
        Meta(description="This group, by its id; empty: what is of no one."),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=REQUESTS_MAX, description="How many requests at most.")] = 8


class AskDay(AskDearest, frozen=True, kw_only=True):
    """Which day or month, by what, and how many groups."""

    month: Annotated[str, Meta(description="A month instead of a day, as 2026-10.")] = ""
    limit: Annotated[
        int, Meta(ge=1, le=GROUPS_MAX, description="How many groups at most; the others are one more.")
    ] = 20


class ChargeSums(msgspec.Struct, frozen=True):
    """What was used, what it cost, what the time before cost, and the difference."""

    requests: int
    tokens: int
    before: MoneyAmount
    cost: MoneyAmount
    added: MoneyAmount

    @classmethod
    def of(cls, costs: ComparedCosts) -> "ChargeSums":
        """The sums as the wire has them."""
        amounts = (costs.before_nano, costs.after_nano, costs.added_nano)
        return cls(costs.requests, costs.tokens, *(MoneyAmount.of(nano) for nano in amounts))


class ChargeGroup(msgspec.Struct, frozen=True):
    """A group's sums. `of`: its id, a model or a pool; empty: of no one; `name`: as people know it."""

    of: str
    name: str
    sums: ChargeSums


class ChargedTime(msgspec.Struct, frozen=True):
    """A day or month (its date, or month), and the part of it that is compared."""

    name: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")


class ChargedDay(msgspec.Struct, frozen=True, kw_only=True):
    """What a day or month cost, beside the one that it is compared with. Groups are in the order of what they
    added; where it cost less, of what they took off; hours and days in their own. `more`: how many are not
    listed, `others` their sum. `over`: it has ended; else both are compared up to the last full hour, or day.
    `closed`: its month is. `chosen`: the group that was asked for."""

    tenant: str
    time: ChargedTime
    before: ChargedTime
    time_zone: str
    over: bool
    closed: bool
    by: ChargeBy
    groups: list[ChargeGroup]
    more: int
    others: ChargeSums
    total: ChargeSums
    chosen: ChargeGroup | None = None


class DearRequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `ended`: RFC 3339 in UTC; `cost`: the sum of its lines that count on this day."""

    request: str
    ended: str | None
    ended_ms: int
    user: str
    user_id: str
    key: str
    key_name: str
    model: str
    reason: str
    code: str
    input_uncached: int
    input_cached: int
    output_text: int
    output_reasoning: int
    cost: MoneyAmount


class DearestRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a day and group that cost most when they ended. `requests`: how many there are;
    `others`: what the `more` that are not listed cost, with what counts on this day and is no request's own
    (pool time, corrections of earlier ones)."""

    tenant: str
    time: ChargedTime
    time_zone: str
    by: ChargeBy
    of: str | None
    name: str
    items: list[DearRequestFacts]
    requests: int
    more: int
    shown: MoneyAmount
    others: MoneyAmount
    total: MoneyAmount


@operation("charges.day", "GET /tenants/{tenant}/charges", may=STAFF | PAYERS, uses=Uses(reads=CHARGE_TABLES))
async def explain_day(look: Look, ask: AskDay) -> ChargedDay:
    """Show what a day or month cost, beside the same weekday before, or the month before: by groups, those
    that added most first."""
    owner = await look.tenant(ask.tenant)
    calendar, now = await calendar_of(look.db, owner), look.now_ms()
    if ask.day and ask.month:
        raise bad_request("name a day or a month", field="month")
    if ask.month:
        await known_month(look, owner, calendar, ask.month)
    else:
        await check_day(look, owner, calendar, ask.day)
    times = times_of_month(ask.month, calendar, now) if ask.month else times_of_day(ask.day, calendar, now)
    _check_time(ask.by, month=bool(ask.month))
    comparison = CostComparison(owner.tenant_id, calendar, times.before, times.window, facet_of(ask.by))
    found, chosen = await _groups(look, ask, comparison)
    named = [of for of, _ in found.first] + [ask.of or ""]
    names = await _names(look, owner.tenant_id, ask.by, named)
    number = calendar.month_at(times.window.start_ms)
    return ChargedDay(
        tenant=owner.tenant_id,
        time=_time(times.name, times.window),
        before=_time(times.before_name, times.before),
        time_zone=str(calendar.zone_of(number)),
        over=times.over,
        closed=number in calendar.closed,
        by=ask.by,
        groups=[_group(of, costs, names) for of, costs in found.first],
        more=found.groups - len(found.first),
        others=ChargeSums.of(found.others),
        total=ChargeSums.of(found.total),
        chosen=None if ask.of is None else _group(ask.of, chosen, names),
    )


@operation(
    "charges.requests",
    "GET /tenants/{tenant}/charges/requests",
    may=STAFF | PAYERS,
    uses=Uses(reads=CHARGE_TABLES),
)
async def dearest_requests(look: Look, ask: AskDearest) -> DearestRequests:
    """List the requests of a day, or of a group of it, that cost most, and what all others cost."""
    owner = await look.tenant(ask.tenant)
    calendar = await calendar_of(look.db, owner)
    _check_time(ask.by, month=False)
    await check_day(look, owner, calendar, ask.day)
    times = times_of_day(ask.day, calendar, look.now_ms())
    if ask.by is ChargeBy.HOUR and ask.of is not None:
        times = _hour_of(times, calendar, ask.of)
    facet = facet_of(ask.by)
    where = {} if ask.of is None or facet is None else {facet: (ask.of,)}
    asked = UsageQuestion(owner.tenant_id, times.window, calendar, where=where)
    page = await usage_page(look.db, asked, 1, SECONDS_MAX)
    requests = page.rows[0].sums.requests if page.rows else 0
    total_nano = page.rows[0].sums.amount_nano if page.rows else 0
    question = _dearest_of(owner.tenant_id, ask, times, calendar, requests)
    found = await dearest(look.db, question, ask.limit)
    shown_nano = sum(each.amount_nano for each in found)
    names = await _names(look, owner.tenant_id, ask.by, [ask.of or ""])
    return DearestRequests(
        tenant=owner.tenant_id,
        time=_time(times.name, times.window),
        time_zone=str(calendar.zone_of(calendar.month_at(times.window.start_ms))),
        by=ask.by,
        of=ask.of,
        name=names.get(ask.of or "", ask.of or ""),
        items=await _facts(look, owner.tenant_id, found),
        requests=requests,
        more=requests - len(found),
        shown=MoneyAmount.of(shown_nano),
        others=MoneyAmount.of(total_nano - shown_nano),
        total=MoneyAmount.of(total_nano),
    )


def _dearest_of(
    tenant_id: str, ask: AskDearest, times: ComparedTimes, calendar: Calendar, requests: int
) -> DearestQuestion:
    number = calendar.month_at(times.window.start_ms)
    return DearestQuestion(
        tenant_id,
        times.window,
        None if ask.of is None else facet_of(ask.by),
        ask.of or "",
        after_closed=number - 1 in calendar.closed
        and times.window.start_ms == calendar.window(number).start_ms,
        closed=number in calendar.closed,
        requests=requests,
    )


def facet_of(by: ChargeBy) -> Facet | None:
    """The fact of usage that it is; None: it is a time. Pure."""
    return None if by in (ChargeBy.HOUR, ChargeBy.DAY) else Facet(by.value)


def _check_time(by: ChargeBy, *, month: bool) -> None:
    """Raises Refused for hours of a month, and for days of a day."""
    if by is (ChargeBy.HOUR if month else ChargeBy.DAY):
        raise bad_request("a day has hours, and a month has days", field="by")


def _hour_of(times: ComparedTimes, calendar: Calendar, name: str) -> ComparedTimes:
    zone = calendar.zone_of(calendar.month_at(times.window.start_ms))
    hours = hours_of(times.window, zone)
    if name not in hours:
        raise bad_request(f"this day has no hour {name!r}: write it like 02:00", field="of")
    return replace(times, window=hours[name])


async def _groups(
    look: Look, ask: AskDay, comparison: CostComparison
) -> tuple[ComparedGroups, ComparedCosts]:
    """The groups, and the one that was asked for, listed or not."""
    if comparison.facet is None:
        found = await _parts(look, ask.by, comparison)
    else:
        found = await compared(look.db, comparison, ask.limit)
    listed = dict(found.first)
    if ask.of is None or ask.of in listed or comparison.facet is None:
        return found, listed.get(ask.of or "", ComparedCosts())
    return found, (await compared(look.db, comparison.only(ask.of), 1)).total


async def _parts(look: Look, by: ChargeBy, comparison: CostComparison) -> ComparedGroups:
    """Hours or days, in their order."""
    calendar = comparison.calendar
    windows = (comparison.before, comparison.after)
    if by is ChargeBy.DAY:
        bucket, parts = UsageBucket.DAY, [days_of(window, calendar) for window in windows]
    else:
        zones = [calendar.zone_of(calendar.month_at(window.start_ms)) for window in windows]
        bucket = UsageBucket.HOUR
        parts = [hours_of(window, zone) for window, zone in zip(windows, zones, strict=True)]
    first = await compared_parts(look.db, comparison, bucket, *parts)
    return ComparedGroups(first, len(first), sum((costs for _, costs in first), ComparedCosts()))


async def _names(look: Look, tenant_id: str, by: ChargeBy, ids: Iterable[str]) -> Mapping[str, str]:
    wanted = [id for id in ids if id]
    if by is ChargeBy.KEY:
        return await key_names(look.db, tenant_id, wanted)
    facet = facet_of(by)
    return {} if facet is None else await names_of(look.db, tenant_id, facet, wanted)


async def _facts(look: Look, tenant_id: str, found: list[DearRequest]) -> list[DearRequestFacts]:
    users = await _names(look, tenant_id, ChargeBy.USER, (each.user_id for each in found))
    keys = await _names(look, tenant_id, ChargeBy.KEY, (each.key_id for each in found))
    return [
        DearRequestFacts(
            request=each.request,
            ended=iso_time(each.ended_ms),
            ended_ms=each.ended_ms,
            user=users.get(each.user_id, each.user_id),
            user_id=each.user_id,
            key=each.key_id,
            key_name=keys.get(each.key_id, each.key_id),
            model=each.model,
            reason=each.reason,
            code=each.code,
            input_uncached=each.input_uncached,
            input_cached=each.input_cached,
            output_text=each.output_text,
            output_reasoning=each.output_reasoning,
            cost=MoneyAmount.of(each.amount_nano),
        )
        for each in found
    ]


def _time(name: str, window: PeriodWindow) -> ChargedTime:
    return ChargedTime(name, iso_time(window.start_ms), iso_time(window.end_ms))


def _group(of: str, costs: ComparedCosts, names: Mapping[str, str]) -> ChargeGroup:
    return ChargeGroup(of, names.get(of, of), ChargeSums.of(costs))


OPERATIONS = (explain_day, dearest_requests)
