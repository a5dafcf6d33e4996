"""Reads budgets' spending and standing from one snapshot of the books, and checks the kept sums."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlmodel import col
from sqlmodel import select as select_rows
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.booking.write import lock_heads
from billing.budgets.spent import (
    KEPT_SCOPES,
    NOT_KEPT,
    BudgetSum,
    SpendingScope,
    TenantBudgets,
    open_budgets,
    row_key,
    spent_by_owner,
    sums_from_lines,
)
from billing.budgets.thresholds import budgets_reached, limit_at, store_alerts
from billing.periods import Period, PeriodWindow, window_at, zone_named
from billing.tables.ledger import LedgerHead
from billing.tables.limits import Budget
from billing.tables.tenants import Tenant
from billing.tables.wallets import BudgetSpent, BudgetWatermark
from core.clock import now_ms
from core.sql.database import Database

PROVEN_MAX = 1_000
EACH_MAX = 20  # owners shown of a budget that each of a kind has


class BudgetSpending(NamedTuple):
    """An amount, and the last line of the tenant's books that it includes."""

    nano: int
    line_seq: int


@dataclass(frozen=True)
class BudgetStanding:
    """State of a budget in its window. `counted`: whose spending; `exhausted_ms`: the time at which the limit
    is reached at the window's pace so far; None: not in this window."""

    budget: Budget
    counted: SpendingScope
    window: PeriodWindow
    limit_nano: int
    spent_nano: int
    exhausted_ms: int | None

    @property
    def left_nano(self) -> int:
        """Rest of the limit, never below zero."""
        return max(0, self.limit_nano - self.spent_nano)

    @property
    def percent(self) -> int:
        """Whole per cents of the limit that are spent, rounded down."""
        return self.spent_nano * 100 // self.limit_nano if self.limit_nano else 100


async def budget_spending(
    db: Database, tenant_id: str, counted: SpendingScope, period: str, window: PeriodWindow
) -> BudgetSpending:
    """Money spent in a window by time of acceptance, corrections included, in one snapshot of the books.

    Quick where a budget counts the same sum; else it is summed from the window's lines."""
    kept = row_key(tenant_id, BudgetSum(counted, period, window))
    of_row = [col(getattr(BudgetSpent, name)) == value for name, value in kept.items()]
    head = select(col(LedgerHead.line_seq)).where(col(LedgerHead.tenant_id) == tenant_id).scalar_subquery()
    mark = select(col(BudgetWatermark.line_seq)).where(col(BudgetWatermark.tenant_id) == tenant_id)
    row = select(col(BudgetSpent.spent_nano)).where(*of_row)
    amounts = spent_by_owner(tenant_id, counted.scope, window)
    if counted.scope_id:
        amounts = amounts.having(amounts.selected_columns[0] == counted.scope_id)
    sums = amounts.subquery()
    total = select(func.coalesce(func.sum(sums.c[1]), 0)).scalar_subquery()
    async with db.looking() as connection:
        statement = select(row.scalar_subquery(), mark.scalar_subquery(), head)
        found: list[Any] = list((await connection.execute(statement)).one())
        nano, line_seq, last = found
        if nano is None or line_seq != last:
            nano, last = (await connection.execute(select(total, head))).one()
    return BudgetSpending(int(nano), int(last or 0))


async def budget_standings(
    db: Database, tenant_id: str, at_ms: int, each_max: int = 1, of_ids: Collection[str] | None = None
) -> list[tuple[Budget, list[BudgetStanding]]]:
    """Standings of each open budget (of those of these ids) in its window now. A budget for each of a kind
    lists those who spent the most, at most `each_max`."""
    async with db.session() as session:
        tenant = await session.get(Tenant, tenant_id)
        assert tenant is not None
        found: list[tuple[Budget, list[BudgetStanding]]] = []
        for of in await open_budgets(session, [tenant_id]):
            for budget in of.budgets:
                if of_ids is not None and budget.id not in of_ids:
                    continue
                window = window_at(Period(budget.period), zone_named(of.time_zone), at_ms)
                amounts = await _amounts(session, of, budget, window, each_max)
                limit_nano = limit_at(budget, at_ms)
                began_ms = max(window.start_ms, tenant.created_ms)
                found.append(
                    (
                        budget,
                        [
                            BudgetStanding(
                                budget,
                                counted,
                                window,
                                limit_nano,
                                nano,
                                exhausted_at(limit_nano, nano, PeriodWindow(began_ms, window.end_ms), at_ms),
                            )
                            for counted, nano in amounts
                        ],
                    )
                )
    return found


async def _amounts(
    session: AsyncSession, of: TenantBudgets, budget: Budget, window: PeriodWindow, each_max: int
) -> list[tuple[SpendingScope, int]]:
    statement = spent_by_owner(of.tenant_id, budget.scope, window)
    owner, amount = statement.selected_columns
    if budget.scope == "tenant" or budget.scope_id:
        key = BudgetSum(SpendingScope(budget.scope, budget.scope_id), budget.period, window)
        return [(key.counted, (await sums_from_lines(session, of.tenant_id, [key]))[key])]
    statement = statement.where(owner != "").order_by(amount.desc(), owner)
    connection = await session.connection()
    rows: Sequence[Any] = (await connection.execute(statement.limit(each_max + len(of.budgets)))).all()
    counted = [(SpendingScope(budget.scope, name), int(nano)) for name, nano in rows]
    return [each for each in counted if budget in of.budgets_on(each[0], budget.period)][:each_max]


def exhausted_at(limit_nano: int, spent_nano: int, window: PeriodWindow, at_ms: int) -> int | None:
    """Unix ms at which a limit is reached at the pace of the window so far; None: not before the window's
    end. Pure."""
    if spent_nano >= limit_nano:
        return at_ms
    if spent_nano <= 0 or at_ms <= window.start_ms:
        return None
    ends = at_ms + (limit_nano - spent_nano) * (at_ms - window.start_ms) // spent_nano
    return ends if ends < window.end_ms else None


async def check_budgets(db: Database, tenant_id: str) -> None:
    """Store alerts for thresholds that the tenant's budgets have already reached. Called after a budget is
    set, as no posting may follow that would alert."""
    at_ms = now_ms()
    found = await budget_standings(db, tenant_id, at_ms, EACH_MAX)
    sums = {
        BudgetSum(each.counted, each.budget.period, each.window): each.spent_nano
        for _, stands in found
        for each in stands
    }
    async with db.transaction() as session:
        await lock_heads(session, [tenant_id])
        for of in await open_budgets(session, [tenant_id]):
            await store_alerts(session, budgets_reached(of, sums, at_ms), at_ms)


async def budget_faults(db: Database, tenant_id: str, whole: bool = True) -> list[str]:
    """Differences between kept sums, the PROVEN_MAX newest, and their lines; empty where all is right. Reads
    one snapshot. `whole` False checks only days that are not over, which is quicker."""
    async with db.snapshot() as session:
        head = await session.get(LedgerHead, tenant_id)
        mark = await session.get(BudgetWatermark, tenant_id)
        if head is None or mark is None or mark.line_seq != head.line_seq:
            return []  # the next posting makes the sums anew
        of_rows = select_rows(BudgetSpent).where(
            col(BudgetSpent.tenant_id) == tenant_id, col(BudgetSpent.scope) != NOT_KEPT
        )
        if not whole:
            today = col(BudgetSpent.period) == Period.DAY.value, col(BudgetSpent.window_end_ms) > now_ms()
            of_rows = of_rows.where(*today)
        newest_first = of_rows.order_by(col(BudgetSpent.window_start_ms).desc()).limit(PROVEN_MAX)
        rows = (await session.exec(newest_first)).all()
        scopes = {kept: scope for scope, kept in KEPT_SCOPES.items()}
        kept = {
            BudgetSum(
                SpendingScope(scopes.get(row.scope, row.scope), row.scope_id),
                row.period,
                PeriodWindow(row.window_start_ms, row.window_end_ms),
            ): row.spent_nano
            for row in rows
        }
        truth = await sums_from_lines(session, tenant_id, list(kept))
    return [
        f"{key.counted.scope} {key.counted.scope_id} {key.period} from {key.window.start_ms}: "
        f"{kept[key]} nano are kept, the lines say {truth[key]}"
        for key in sorted(kept)
        if kept[key] != truth[key]
    ]
