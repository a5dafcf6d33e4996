"""The operation that shows what a tenant's month costs so far, what it will, and how long its money lasts."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta
from sqlalchemy import select
from sqlmodel import col

from billing.closing.period_close import closing_gaps_of
from billing.ledger.grant_spending import Grant
from billing.limits import Mode, Scope
from billing.operations.budget_facts import budget_facts, held_in_redis, standing_facts
from billing.operations.budgets import MONEY_COUNTS, SPENDING
from billing.operations.known_times import known_month
from billing.operations.shared_fields import NameTenant
from billing.operations.spend_facts import (
    DayCost,
    LastsUntil,
    MonthForecast,
    MonthState,
    SameDays,
    SpendBudget,
    SpendMonth,
    SpendWallet,
    day_costs,
    month_forecast,
    same_days,
)
from billing.periods import HOUR_MS, Calendar, Period, PeriodWindow, month_text
from billing.reports.forecast import AHEAD_DAYS, HISTORY_DAYS, SpendForecast
from billing.reports.money_ends import wallet_ends
from billing.reports.spend_days import days_in, spent_days
from billing.reports.usage_names import names_of, usage_terms
from billing.reports.usage_questions import Facet
from billing.tables.ledger import UsageLine
from billing.tables.tenants import Tenant
from billing.tables.wallets import WalletGrant
from billing.unit_of_work.units import Look
from billing.wallets.budgets import BudgetStanding, budget_standings
from billing.wallets.owed import owed_by
from billing.wallets.wallets import wallet_state
from core.clock import iso_time
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation

DAY_MS = 24 * HOUR_MS
BUDGETS_MAX = 10
NEAR_PERCENT = 80
NAMED_SCOPES = {Scope.PROJECT: Facet.PROJECT, Scope.KEY: Facet.KEY, Scope.USER: Facet.USER}


class AskSpend(NameTenant, frozen=True, kw_only=True):
    """Which month."""

    month: Annotated[
        str | None, Meta(description="As 2026-10, in the tenant's time zone; by default this one.")
    ] = None


class SpendSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A month's money. `at`: when it was read; `booked`: when the last line of the books was written;
    `closes`: when the biller closes it, None where it does not by itself; `lacks`: what a forced close left
    out. `days`: to today; `before`: those of the month before. `forecast` None: the month is over, or too few
    days are known. `budgets`: of the tenant first, then those near their end; `more_budgets`: how many
    others."""

    tenant: str
    month: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    time_zone: str
    currency: str
    at: str | None
    booked: str | None
    state: MonthState
    closes: str | None
    lacks: str
    cost: MoneyAmount
    compared: SameDays | None
    days: list[DayCost]
    before: list[DayCost]
    forecast: MonthForecast | None
    budgets: list[SpendBudget]
    more_budgets: int
    wallet: SpendWallet | None


@operation(
    "spend.summary",
    "GET /tenants/{tenant}/spend",
    may=STAFF | PAYERS,
    uses=Uses(
        reads="tenant price_book period_close rollup_price charge budget tenant_user project "
        f"wallet wallet_grant wallet_owed {SPENDING}",
        keys=MONEY_COUNTS,
    ),
)
async def show_spend(look: Look, ask: AskSpend) -> SpendSummary:
    """Show what a month costs so far, what it is expected to cost, and how long budgets and wallet last."""
    owner = await look.tenant(ask.tenant)
    calendar, currency = await usage_terms(look.db, owner.tenant_id)
    now = look.now_ms()
    window = await known_month(look, owner, calendar, ask.month)
    number = calendar.month_at(window.start_ms)
    month = await _spent(look, owner.tenant_id, calendar, number, now)
    path = month.forecast(now)
    last = days_in(calendar, PeriodWindow(window.end_ms - 1, window.end_ms))[0].day
    budgets, more = await _budgets(look, owner, month, path) if month.today else ([], 0)
    state, closes = _state(calendar, number, now, look.settings.close_months_after_hours)
    return SpendSummary(
        tenant=owner.tenant_id,
        month=month_text(number),
        start=iso_time(window.start_ms),
        end=iso_time(window.end_ms),
        time_zone=str(calendar.zone_of(number)),
        currency=currency.upper(),
        at=iso_time(now),
        booked=iso_time(await _booked_ms(look, owner.tenant_id)),
        state=state,
        closes=iso_time(closes),
        lacks=await closing_gaps_of(look.db, owner.tenant_id, window) if state is MonthState.CLOSED else "",
        cost=MoneyAmount.of(month.spent_nano),
        compared=same_days(month),
        days=day_costs(month, month.days),
        before=day_costs(month, month.before),
        forecast=month_forecast(month, path, last) if path else None,
        budgets=budgets,
        more_budgets=more,
        wallet=await _wallet(look, owner.tenant_id, calendar, month, path) if month.today else None,
    )


async def _spent(look: Look, tenant_id: str, calendar: Calendar, number: int, now: int) -> SpendMonth:
    """Read the month's days and those before it, back to what a forecast looks at."""
    window, before = calendar.window(number), calendar.window(number - 1)
    runs = window.start_ms <= now < window.end_ms
    first = min(before.start_ms, now - HISTORY_DAYS * DAY_MS) if runs else before.start_ms
    until = min(now + 1, window.end_ms)
    days = await spent_days(look.db, tenant_id, calendar, PeriodWindow(max(0, first), until))
    return SpendMonth.of(days, window, before, now)


def _state(calendar: Calendar, number: int, now: int, after_hours: int) -> tuple[MonthState, int | None]:
    if number in calendar.closed:
        return MonthState.CLOSED, None
    end = calendar.window(number).end_ms
    closes = end + after_hours * HOUR_MS if after_hours else None
    return (MonthState.OVER if end <= now else MonthState.OPEN), closes


async def _booked_ms(look: Look, tenant_id: str) -> int | None:
    statement = select(col(UsageLine.posted_ms)).where(col(UsageLine.tenant_id) == tenant_id)
    async with look.db.looking() as connection:
        return (await connection.execute(statement.order_by(col(UsageLine.seq).desc()).limit(1))).scalar()


async def _budgets(
    look: Look, owner: Tenant, month: SpendMonth, path: SpendForecast | None
) -> tuple[list[SpendBudget], int]:
    """The budgets that matter, and how many others there are."""
    now, zone = look.now_ms(), ZoneInfo(owner.time_zone)
    stands = [
        each for _, of_budget in await budget_standings(look.db, owner.tenant_id, now) for each in of_budget
    ]
    shown = sorted(filter(_matters, stands), key=_order)[:BUDGETS_MAX]
    held = await held_in_redis(look, owner.tenant_id)
    names: dict[str, str] = {}
    for scope, facet in NAMED_SCOPES.items():
        ids = {each.counted.scope_id for each in shown if each.counted.scope == scope}
        names |= await names_of(look.db, owner.tenant_id, facet, ids)
    found = [
        SpendBudget(
            **budget_facts(each.budget, names, now)
            | standing_facts(each, names, held, zone)
            | _lasts(each, month, path, zone),
            owner=each.counted.scope_id,
        )
        for each in shown
    ]
    return found, len(stands) - len(found)


def _matters(standing: BudgetStanding) -> bool:
    near = standing.percent >= NEAR_PERCENT or standing.exhausted_ms is not None
    return standing.budget.scope == Scope.TENANT or near


def _order(standing: BudgetStanding) -> tuple[object, ...]:
    """The tenant's month first; then its others, then whose is spent the most."""
    budget = standing.budget
    own = budget.scope == Scope.TENANT
    real = budget.mode == Mode.ENFORCE and budget.hard
    return (not (own and budget.period == Period.MONTH and real), not own, -standing.percent, budget.id)


def _lasts(
    standing: BudgetStanding, month: SpendMonth, path: SpendForecast | None, zone: ZoneInfo
) -> dict[str, Any]:
    """When the path reaches a budget of the whole tenant within its window."""
    if path is None or month.today is None or standing.budget.scope != Scope.TENANT:
        return {}
    left = standing.limit_nano - standing.spent_nano + month.today.nano
    end_ms = min(standing.window.end_ms, month.today.window.start_ms + AHEAD_DAYS * 2 * DAY_MS)
    last = days_in(Calendar(zone), PeriodWindow(end_ms - 1, end_ms))[0].day
    return {"lasts": LastsUntil.of(path.crossing(left, last))}


async def _wallet(
    look: Look, tenant_id: str, calendar: Calendar, month: SpendMonth, path: SpendForecast | None
) -> SpendWallet | None:
    now = look.now_ms()
    state = await wallet_state(look.db, tenant_id, now)
    if state is None:
        return None
    lasts = None
    if path is not None and month.today is not None:
        grants = await _grants(look, tenant_id, now)
        begins = _begins(calendar, month.today.window.start_ms)
        lasts = LastsUntil.of(wallet_ends(grants, path, month.today.nano, begins))
    return SpendWallet(
        left=MoneyAmount.of(state.limit_nano - state.posted_nano),
        owed=MoneyAmount.of(await owed_by(look.db, tenant_id)),
        next_expiry=iso_time(state.next_expiry_ms),
        lasts=lasts,
    )


def _begins(calendar: Calendar, today_ms: int) -> dict[date, int]:
    window = PeriodWindow(today_ms, today_ms + (AHEAD_DAYS + 1) * DAY_MS)
    return {each.day: each.window.start_ms for each in days_in(calendar, window)}


async def _grants(look: Look, tenant_id: str, now: int) -> Sequence[Grant]:
    columns = ("id", "kind", "priority", "left_nano", "expires_ms", "created_ms")
    statement: Any = select(*(col(getattr(WalletGrant, name)) for name in columns)).where(
        col(WalletGrant.tenant_id) == tenant_id,
        col(WalletGrant.left_nano) > 0,
        col(WalletGrant.expires_ms).is_(None) | (col(WalletGrant.expires_ms) > now),
    )
    async with look.db.looking() as connection:
        return [Grant(*row) for row in (await connection.execute(statement)).all()]


OPERATIONS = (show_spend,)
