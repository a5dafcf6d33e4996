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
    kept_since,
    kept_spenders,
    kept_sums,
    open_budgets,
    row_key,
    spent_by_owner,
    sums_from_lines,
    unkept_sums,
)
from billing.budgets.thresholds import budgets_reached, limit_at, store_alerts
from billing.periods import Period, PeriodWindow
from billing.tables.ledger import LedgerHead
from billing.tables.limits import Budget
from billing.tables.tenants import Tenant
from billing.tables.wallets import BudgetSpent, BudgetWatermark
from core.clock import now_ms
from core.sql.database import Database

PROVEN_MAX = 1_000
EACH_MAX = 20  # owners shown of a budget that each of a kind has
PACE_KNOWN_MS, PACE_KNOWN_PART = 86_400_000, 20  # a day, or that part of a shorter window


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
            wanted = [budget for budget in of.budgets if of_ids is None or budget.id in of_ids]
            sums = await _SpendingSums.of(session, of, wanted, at_ms)
            for budget in wanted:
                window = of.window_of(budget.period, at_ms)
                amounts = await sums.amounts(budget, window, each_max)
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


@dataclass(frozen=True)
class _SpendingSums:
    """Sums of a tenant's budgets: the kept ones where they have all, else by the lines. `since_ms` None: none
    are up to date; `kept`: of each budget of one; `began_ms`: when those for each began to be counted."""

    session: AsyncSession
    budgets: TenantBudgets
    since_ms: int | None
    kept: dict[BudgetSum, int]
    began_ms: dict[str, int]

    @classmethod
    async def of(
        cls, session: AsyncSession, budgets: TenantBudgets, wanted: Sequence[Budget], at_ms: int
    ) -> "_SpendingSums":
        tenant, since_ms = budgets.tenant_id, await kept_since(session, budgets.tenant_id)
        of_one = [_sum_of(each, budgets.window_of(each.period, at_ms)) for each in wanted if _is_of_one(each)]
        kept = {} if since_ms is None else await kept_sums(session, tenant, of_one)
        # The others: nothing was posted in them since the budget was set.
        kept |= await unkept_sums(session, tenant, [key for key in of_one if key not in kept])
        each = [] if since_ms is None else [budget for budget in wanted if not _is_of_one(budget)]
        began_ms = {budget.id: await _counted_since(session, budget) for budget in each}
        return cls(session, budgets, since_ms, kept, began_ms)

    async def amounts(
        self, budget: Budget, window: PeriodWindow, each_max: int
    ) -> list[tuple[SpendingScope, int]]:
        """Whose spending counts in a budget's window, and how much it is, the largest first."""
        tenant = self.budgets.tenant_id
        if _is_of_one(budget):
            key = _sum_of(budget, window)
            return [(key.counted, self.kept[key])]
        most = each_max + len(self.budgets.budgets)
        if self.since_ms is not None and max(self.since_ms, self.began_ms[budget.id]) <= window.start_ms:
            rows = await kept_spenders(self.session, tenant, budget.scope, budget.period, window, most)
        else:
            rows = await _spenders(self.session, tenant, budget, window, most)
        counted = [(SpendingScope(budget.scope, name), nano) for name, nano in rows]
        of_budget = [each for each in counted if budget in self.budgets.budgets_on(each[0], budget.period)]
        return of_budget[:each_max]


def _is_of_one(budget: Budget) -> bool:
    return budget.scope == "tenant" or bool(budget.scope_id)


def _sum_of(budget: Budget, window: PeriodWindow) -> BudgetSum:
    return BudgetSum(SpendingScope(budget.scope, budget.scope_id), budget.period, window)


async def _counted_since(session: AsyncSession, budget: Budget) -> int:
    """When spending of each began to be counted as a budget does: an edit ends it and begins another."""
    alike = select(col(Budget.created_ms), col(Budget.ended_ms)).where(
        col(Budget.tenant_id) == budget.tenant_id,
        col(Budget.scope) == budget.scope,
        col(Budget.scope_id) == budget.scope_id,
        col(Budget.period) == budget.period,
        col(Budget.ended_ms).is_not(None),
    )
    began_ms = budget.created_ms
    connection = await session.connection()
    rows: Sequence[Any] = (await connection.execute(alike.order_by(col(Budget.ended_ms).desc()))).all()
    for created_ms, ended_ms in rows:
        if ended_ms >= began_ms:
            began_ms = min(began_ms, created_ms)
    return began_ms


async def _spenders(
    session: AsyncSession, tenant_id: str, budget: Budget, window: PeriodWindow, most: int
) -> list[tuple[str, int]]:
    statement = spent_by_owner(tenant_id, budget.scope, window)
    owner, amount = statement.selected_columns
    ordered = statement.where(owner != "").order_by(amount.desc(), owner).limit(most)
    rows: Sequence[Any] = (await (await session.connection()).execute(ordered)).all()
    return [(name, int(nano)) for name, nano in rows]


def exhausted_at(limit_nano: int, spent_nano: int, window: PeriodWindow, at_ms: int) -> int | None:
    """Unix ms at which a limit is reached at the pace of the window so far; None: not before the window's
    end, or too little of the window is over to know its pace. Pure."""
    if spent_nano >= limit_nano:
        return at_ms
    too_early = min(PACE_KNOWN_MS, (window.end_ms - window.start_ms) // PACE_KNOWN_PART)
    if spent_nano <= 0 or at_ms <= window.start_ms + too_early:
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
