"""Sums of spending in the windows of tenants' budgets, kept up to date by every posting in its own
transaction.

A row of `budget_spent` is made from the lines when its window is first touched, and moved by later postings.
`budget_watermark` names the last line in the rows: where it is behind, they are made again. So they follow
from the lines at any time, whoever posts, in whatever order events come.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import delete
from sqlalchemy import select as select_columns
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.budgets.key_chains import KEY, chain_owners, named_keys, put_on_chains
from billing.ledger.transactions import BilledRequest, Posting
from billing.periods import FIRST_MS, HOUR_MS, LAST_MS, Period, PeriodWindow, window_at, zone_named
from billing.tables.ledger import LedgerHead, RollupHour, UsageLine
from billing.tables.limits import Budget
from billing.tables.tenants import ApiKey, Tenant, UsageRow
from billing.tables.wallets import BudgetSpent, BudgetWatermark
from core.sql.database import upsert

TENANT = "tenant"
SCOPES: Mapping[str, Any] = {
    "project": col(UsageRow.project_id),
    "key": func.coalesce(ApiKey.owner_key, UsageRow.key_id),
    "user": col(UsageRow.user_id),
    "model": col(UsageRow.model),
}
ROLLUP_SCOPES: Mapping[str, Any] = {
    "project": col(RollupHour.project_id),
    "key": func.coalesce(ApiKey.owner_key, RollupHour.key_id),
    "user": col(RollupHour.user_id),
    "model": col(RollupHour.model),
}


# The scope in rows of BudgetSpent, where it is another: those of "key" are of 0.1.0, by single keys.
KEPT_SCOPES = {KEY: "key_chain"}
NOT_KEPT = KEY


class SpendingScope(NamedTuple):
    """Owner of the spending: the tenant (`scope_id` empty), or one project, chain of keys (by its owner
    key), user or model."""

    scope: str
    scope_id: str


class BudgetSum(NamedTuple):
    """Key of a sum: owner and window."""

    counted: SpendingScope
    period: str
    window: PeriodWindow


@dataclass(frozen=True)
class TenantBudgets:
    """A tenant's open budgets, and the zone in which their windows begin. `owners`: the owner keys of keys
    that were used or are named."""

    tenant_id: str
    time_zone: str
    budgets: Sequence[Budget]
    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    windows: dict[str, list[PeriodWindow]] = field(default_factory=dict[str, list[PeriodWindow]])

    def window_of(self, period: str, at_ms: int) -> PeriodWindow:
        """The window of a budget's period that an instant is in."""
        known = self.windows.setdefault(period, [])
        for window in known:
            if window.start_ms <= at_ms < window.end_ms:
                return window
        known.append(window_at(Period(period), zone_named(self.time_zone), at_ms))
        return known[-1]

    def sums_of(self, request: BilledRequest) -> list[BudgetSum]:
        """Sums that a request counts in, by the existing budgets. A request without a user counts in no
        user's budget; one accepted outside of the calendar in none."""
        if not FIRST_MS <= request.accepted_ms < LAST_MS:
            return []
        found: dict[BudgetSum, None] = {}
        for budget in self.budgets:
            own = scope_id_of(request, budget.scope)
            if own is not None and budget.scope == KEY:
                own = self.owners.get(own, own)
            if own is None or budget.scope_id not in ("", own):
                continue
            window = self.window_of(budget.period, request.accepted_ms)
            found[BudgetSum(SpendingScope(budget.scope, own), budget.period, window)] = None
        return list(found)

    def budgets_on(self, counted: SpendingScope, period: str) -> list[Budget]:
        """Budgets that apply to a sum. One that names its owner replaces the one for each of its kind, of the
        operators' or of the admins' own."""
        alike = [
            budget for budget in self.budgets if (budget.scope, budget.period) == (counted.scope, period)
        ]
        named = [budget for budget in alike if budget.scope_id == counted.scope_id]
        replaced = {(budget.mode, budget.by_tenant) for budget in named}
        others = [each for each in alike if not each.scope_id and (each.mode, each.by_tenant) not in replaced]
        return named + others


def scope_id_of(request: BilledRequest, scope: str) -> str | None:
    """The owner's id under which a request counts in a budget of this scope; None: it does not count."""
    match scope:
        case "tenant":
            return ""
        case "project":
            return request.project_id or None
        case "key":
            return request.key_id or None
        case "user":
            return request.user_id or None
        case "model":
            return request.model or None
        case _:
            return None


async def open_budgets(
    session: AsyncSession, tenants: Iterable[str], requests: Sequence[BilledRequest] = ()
) -> list[TenantBudgets]:
    """Open budgets by tenant, of those of these tenants that have any. `requests`: what they may be asked
    for."""
    statement = (
        select(Budget, col(Tenant.time_zone))
        .join(Tenant, col(Tenant.tenant_id) == col(Budget.tenant_id))
        .where(col(Budget.tenant_id).in_(sorted(tenants)), col(Budget.ended_ms).is_(None))
        .order_by(col(Budget.tenant_id), col(Budget.id))
    )
    found: dict[str, tuple[str, list[Budget]]] = {}
    for budget, time_zone in (await session.exec(statement)).all():
        session.expunge(budget)
        found.setdefault(budget.tenant_id, (time_zone, []))[1].append(budget)
    opened = [TenantBudgets(tenant, *each) for tenant, each in found.items()]
    return [await _on_chains(session, of, requests) for of in opened]


async def _on_chains(
    session: AsyncSession, of: TenantBudgets, requests: Sequence[BilledRequest]
) -> TenantBudgets:
    """The budgets with the chains of keys that they need; only where one is of a key."""
    if all(budget.scope != KEY for budget in of.budgets):
        return of
    used = {request.key_id for request in requests if request.tenant_id == of.tenant_id and request.key_id}
    owners = await chain_owners(session, of.tenant_id, {*used, *named_keys(of.budgets)})
    put_on_chains(of.budgets, owners)
    return replace(of, owners=owners)


Sums = dict[str, dict[BudgetSum, int]]  # by tenant


async def add_to_sums(
    session: AsyncSession,
    budgets: Sequence[TenantBudgets],
    postings: Sequence[Posting],
    requests: Sequence[BilledRequest],
) -> Sums:
    """Bring these tenants' sums up to the end of postings whose rows are written; return the new values of
    those touched.

    The caller holds the heads of the tenants' books."""
    tenants = [of.tenant_id for of in budgets]
    first, last = _first_lines(postings), {each.head.tenant_id: each.head.line_seq for each in postings}
    deltas = {of.tenant_id: sum_changes(of, postings, requests) for of in budgets}
    marks = await _watermarks(session, tenants)
    behind = [tenant for tenant in tenants if tenant not in marks or marks[tenant][0] != first[tenant] - 1]
    if behind:
        old = col(BudgetSpent.tenant_id).in_(behind)
        await (await session.connection()).execute(delete(BudgetSpent).where(old))
    known = await _read(session, {tenant: deltas[tenant] for tenant in tenants if tenant not in behind})
    sums: Sums = {}
    for tenant in tenants:
        kept = known.get(tenant, {})
        sums[tenant] = {key: kept[key] + delta for key, delta in deltas[tenant].items() if key in kept}
        fresh = [key for key in deltas[tenant] if key not in kept]
        sums[tenant] |= await sums_from_lines(session, tenant, fresh)
    rows = [
        {**row_key(tenant, key), "spent_nano": nano}
        for tenant in tenants
        for key, nano in sorted(sums[tenant].items())
    ]
    await upsert(session, rows, BudgetSpent)
    fresh_ms = postings[0].txns[0].posted_ms
    since = {tenant: fresh_ms if first[tenant] > 1 else 0 for tenant in behind}
    ends = [
        {
            "tenant_id": tenant,
            "line_seq": last[tenant],
            "since_ms": since[tenant] if tenant in since else marks[tenant][1],
        }
        for tenant in tenants
    ]
    await upsert(session, ends, BudgetWatermark)
    return sums


def _first_lines(postings: Sequence[Posting]) -> dict[str, int]:
    """Seq of each tenant's first line in these postings."""
    first: dict[str, int] = {}
    for posting in postings:
        for txn in posting.txns:
            first[txn.tenant_id] = min(first.get(txn.tenant_id, txn.first_line_seq), txn.first_line_seq)
    return first


def sum_changes(
    of: TenantBudgets, postings: Sequence[Posting], requests: Sequence[BilledRequest]
) -> dict[BudgetSum, int]:
    """Changes of a tenant's sums by postings. Charges without a request (true-ups) change nothing. Pure."""
    amounts: dict[str, int] = {}
    for posting in postings:
        if posting.head.tenant_id == of.tenant_id:
            for line in posting.lines:
                amounts[line.request_id] = amounts.get(line.request_id, 0) + line.amount_nano
    deltas: dict[BudgetSum, int] = {}
    for request in requests:
        amount = amounts.get(request.request_id, 0) if request.tenant_id == of.tenant_id else 0
        if amount:
            for key in of.sums_of(request):
                deltas[key] = deltas.get(key, 0) + amount
    return deltas


async def sums_from_lines(
    session: AsyncSession, tenant_id: str, keys: Sequence[BudgetSum]
) -> dict[BudgetSum, int]:
    """These sums computed from the lines, corrections included. The kept rows are copies of them."""
    groups: dict[tuple[str, str, PeriodWindow], dict[str, BudgetSum]] = {}
    for key in keys:
        alike = groups.setdefault((key.counted.scope, key.period, key.window), {})
        alike[key.counted.scope_id] = key
    connection = await session.connection()
    sums: dict[BudgetSum, int] = {}
    for (scope, _, window), ids in groups.items():
        statement = spent_by_owner(tenant_id, scope, window)
        if scope in SCOPES:
            statement = statement.where(SCOPES[scope].in_(sorted(ids)))
        rows: Sequence[Any] = (await connection.execute(statement)).all()
        found = {name: int(nano) for name, nano in rows}
        for scope_id, key in ids.items():
            sums[key] = found.get(scope_id or tenant_id, 0)
    return sums


async def unkept_sums(
    session: AsyncSession, tenant_id: str, keys: Sequence[BudgetSum]
) -> dict[BudgetSum, int]:
    """These sums by the lines, which are read of owners alone who used anything since their windows began:
    the rollups tell."""
    idle: set[BudgetSum] = set()
    for scope, start_ms in sorted({(each.counted.scope, each.window.start_ms) for each in keys}):
        alike = [each for each in keys if (each.counted.scope, each.window.start_ms) == (scope, start_ms)]
        used = await _used_since(
            session, tenant_id, scope, start_ms, {each.counted.scope_id for each in alike}
        )
        idle |= {each for each in alike if each.counted.scope_id not in used}
    return dict.fromkeys(idle, 0) | await sums_from_lines(
        session, tenant_id, [key for key in keys if key not in idle]
    )


async def _used_since(
    session: AsyncSession, tenant_id: str, scope: str, start_ms: int, ids: set[str]
) -> set[str]:
    """Those of these owners of a scope who have usage that ended since a time, or perhaps have: all, where
    the rollups are behind the books."""
    head = await session.get(LedgerHead, tenant_id)
    if scope not in SCOPES or head is None or head.rolled_seq != head.line_seq:
        return ids
    owner = ROLLUP_SCOPES[scope]
    statement: Any = select_columns(owner).where(
        col(RollupHour.tenant_id) == tenant_id,
        col(RollupHour.hour_ms) > start_ms - 2 * HOUR_MS,  # a request ends after it began; clocks differ
        owner.in_(sorted(ids)),
    )
    if scope == KEY:
        used = (col(ApiKey.tenant_id) == tenant_id) & (col(ApiKey.id) == col(RollupHour.key_id))
        statement = statement.select_from(RollupHour).outerjoin(ApiKey, used)
    rows: Sequence[Any] = (await (await session.connection()).execute(statement.distinct())).all()
    return {str(row[0]) for row in rows}


def spent_by_owner(tenant_id: str, scope: str, window: PeriodWindow) -> Any:
    """Select (id, nano-USD) spent by each owner of a scope in a window; the tenant under its own id."""
    owner: Any = SCOPES.get(scope, col(UsageRow.tenant_id))
    found: Any = (
        select(owner, func.sum(col(UsageLine.amount_nano)))
        .join(
            UsageRow,
            (col(UsageRow.tenant_id) == col(UsageLine.tenant_id))
            & (col(UsageRow.request_id) == col(UsageLine.request_id)),
        )
        .where(
            col(UsageLine.tenant_id) == tenant_id,
            col(UsageRow.tenant_id) == tenant_id,
            col(UsageRow.accepted_ms) >= window.start_ms,
            col(UsageRow.accepted_ms) < window.end_ms,
        )
        .group_by(owner)
    )
    if scope == KEY:
        used = (col(ApiKey.tenant_id) == tenant_id) & (col(ApiKey.id) == col(UsageRow.key_id))
        found = found.outerjoin(ApiKey, used)
    return found


def row_key(tenant_id: str, key: BudgetSum) -> dict[str, Any]:
    """The primary key of a sum's row."""
    return {
        "tenant_id": tenant_id,
        "scope": KEPT_SCOPES.get(key.counted.scope, key.counted.scope),
        "scope_id": key.counted.scope_id,
        "period": key.period,
        "window_start_ms": key.window.start_ms,
        "window_end_ms": key.window.end_ms,
    }


async def kept_since(session: AsyncSession, tenant_id: str) -> int | None:
    """Unix ms from which on no line of a tenant is missing in its kept sums; None: they are behind its
    books."""
    statement = (
        select_columns(col(BudgetWatermark.since_ms))
        .join(LedgerHead, col(LedgerHead.tenant_id) == col(BudgetWatermark.tenant_id))
        .where(col(BudgetWatermark.tenant_id) == tenant_id)
        .where(col(LedgerHead.line_seq) == col(BudgetWatermark.line_seq))
    )
    return (await (await session.connection()).execute(statement)).scalar()


async def kept_sums(session: AsyncSession, tenant_id: str, keys: Sequence[BudgetSum]) -> dict[BudgetSum, int]:
    """Those of these sums that are kept."""
    return (await _read(session, {tenant_id: keys})).get(tenant_id, {})


async def kept_spenders(
    session: AsyncSession, tenant_id: str, scope: str, period: str, window: PeriodWindow, most: int
) -> list[tuple[str, int]]:
    """(id, nano-USD) of the owners of a scope whose kept sums of a window are the largest."""
    spent, owner = col(BudgetSpent.spent_nano), col(BudgetSpent.scope_id)
    statement = (
        select_columns(owner, spent)
        .where(col(BudgetSpent.tenant_id) == tenant_id)
        .where(col(BudgetSpent.scope) == KEPT_SCOPES.get(scope, scope), col(BudgetSpent.period) == period)
        .where(col(BudgetSpent.window_start_ms) == window.start_ms)
        .where(col(BudgetSpent.window_end_ms) == window.end_ms)
        .order_by(spent.desc(), owner)
    )
    rows = (await (await session.connection()).execute(statement.limit(most))).all()
    return [(id, int(nano)) for id, nano in rows]


async def _watermarks(session: AsyncSession, tenants: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The last line in each tenant's sums, and since when they have all."""
    statement = select_columns(
        col(BudgetWatermark.tenant_id), col(BudgetWatermark.line_seq), col(BudgetWatermark.since_ms)
    ).where(col(BudgetWatermark.tenant_id).in_(tenants))
    rows = (await (await session.connection()).execute(statement)).all()
    return {tenant: (seq, since_ms) for tenant, seq, since_ms in rows}


async def _read(session: AsyncSession, wanted: Mapping[str, Iterable[BudgetSum]]) -> Sums:
    by_row = {tuple(row_key(tenant, key).values()): key for tenant, keys in wanted.items() for key in keys}
    if not by_row:
        return {}
    statement = select_columns(
        col(BudgetSpent.tenant_id),
        col(BudgetSpent.scope),
        col(BudgetSpent.scope_id),
        col(BudgetSpent.period),
        col(BudgetSpent.window_start_ms),
        col(BudgetSpent.window_end_ms),
        col(BudgetSpent.spent_nano),
    ).where(
        col(BudgetSpent.tenant_id).in_(sorted({key[0] for key in by_row})),
        col(BudgetSpent.scope).in_(sorted({key[1] for key in by_row})),
        col(BudgetSpent.scope_id).in_(sorted({key[2] for key in by_row})),
        col(BudgetSpent.window_start_ms).in_(sorted({key[4] for key in by_row})),
    )
    sums: Sums = {}
    for row in (await (await session.connection()).execute(statement)).all():
        if row[:6] in by_row:
            sums.setdefault(row[0], {})[by_row[row[:6]]] = row[6]
    return sums
