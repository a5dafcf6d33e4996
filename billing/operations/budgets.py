"""Operations on budgets: limits on money, other limits in their place for some time, and their spending."""

from collections.abc import Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta
from sqlmodel import col

from billing.enforcement.limit_settings import (
    DEFAULT_THRESHOLDS,
    budgets_of,
    list_budgets,
    name_owners,
    tell_money,
    write_budget,
    write_budget_end,
    write_override,
)
from billing.enforcement.scope_ids import counted_id_of
from billing.limits import Mode, Scope
from billing.money import to_display, to_text
from billing.operations.budget_facts import (
    BudgetFor,
    BudgetInUse,
    budget_facts,
    held_in_redis,
    spending_facts,
    standing_facts,
)
from billing.operations.last_month import READS as LAST_MONTH
from billing.operations.last_month import month_of_budget
from billing.operations.limited import NAMED_IN, check_below, check_own, keys_held, names_of
from billing.operations.shared_fields import AUDIT, CONTROL, NameTenant, TenantName
from billing.periods import Period, local_instant
from billing.tables.limits import Budget
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from billing.wallets.budgets import EACH_MAX, budget_standings, check_budgets
from core.errors import ChangeSince, Refusal, Refused, bad_request, see, unknown
from core.operations import (
    ADMINS,
    MONEY,
    OPERATORS,
    PAYERS,
    STAFF,
    ListedPage,
    MoneyAmount,
    Role,
    Uses,
    operation,
)
from core.redis.client import RedisClient
from core.sql.database import Database

OVERRIDERS = OPERATORS | MONEY
BUDGET_EDITORS = OVERRIDERS | ADMINS
BUDGET_READERS = STAFF | PAYERS | {Role.VIEWER}
MONEY_COUNTS = ("T:money:", "T:money~:", "T:moneys")
TOLD = (*CONTROL, *MONEY_COUNTS)
SPENDING = "usage_event usage_line rollup_hour api_key budget_spent budget_watermark ledger_head"
# What telling of a changed budget reads: its own spending, and what of limits is pushed to Redis.
TOLD_READS = f"{SPENDING} tenant_user quota_policy plan wallet wallet_grant alert_target"
TOLD_WRITES = "ledger_head budget_alert outbox"


class SetBudget(NameTenant, frozen=True, kw_only=True):
    """A budget, in place of the one that counts the same."""

    limit: Annotated[MoneyAmount, Meta(description="Like '250.00 USD'; at most nine decimals.")]
    scope: Scope = Scope.TENANT
    of: Annotated[str, Meta(description="One project, key, user or model; by default each of them.")] = ""
    period: Period = Period.MONTH
    soft: Annotated[bool, Meta(description="Alert only, refuse nothing.")] = False
    thresholds: Annotated[
        list[int], Meta(description="Per cents of the limit that alert; by default 50,80,100.")
    ] = msgspec.field(default_factory=lambda: list(DEFAULT_THRESHOLDS))
    mode: Annotated[Mode, Meta(description="shadow: only count what would be refused.")] = Mode.ENFORCE
    seen: Annotated[
        str,
        Meta(description="The id of the budget that you saw there: refused where another one stands now."),
    ] = ""


class NameBudget(NameTenant, frozen=True, kw_only=True):
    """Which budget, also by an id that it had before it was edited."""

    budget: Annotated[str, Meta(description="The budget's id.")]


class OverrideBudget(NameBudget, frozen=True, kw_only=True):
    """Another limit, and when it ends; neither: the override ends now."""

    limit: Annotated[
        MoneyAmount | None, Meta(description="The limit that holds meanwhile, like '400.00 USD'.")
    ] = None
    until: Annotated[
        str | None,
        Meta(description="When it ends by itself, like 2026-12-01, in the tenant's time zone."),
    ] = None


class ListBudgets(ListQuestion, frozen=True, kw_only=True):
    """Whose budgets."""

    tenant: TenantName
    ended: Annotated[bool, Meta(description="All that ever were, without what was spent.")] = False


class BudgetSpenders(msgspec.Struct, frozen=True):
    """One budget; where each has it for itself, those who spent the most."""

    standings: list[BudgetInUse]


@operation(
    "budgets.set",
    "POST /tenants/{tenant}/budgets",
    may=BUDGET_EDITORS,
    audit="budget.set",
    reason=True,
    uses=Uses(
        reads=f"{NAMED_IN} {LAST_MONTH} {TOLD_READS}",
        writes=f"tenant budget {TOLD_WRITES} {AUDIT}",
        keys=TOLD,
    ),
)
async def set_budget(change: Change, ask: SetBudget) -> BudgetFor:
    """Set a budget, in place of the one that counts the same. What is spent already counts. A tenant's admins
    set their own beside the operators': whichever is stricter holds."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    scope_id = await counted_id_of(change.db, owner, ask.scope, ask.of)
    counted = (ask.scope, scope_id, ask.period, ask.mode)
    alike = [
        row
        for row in await list_budgets(change.db, owner)
        if (row.scope, row.scope_id, row.period, row.mode) == counted
    ]
    by_tenant = change.who.tenant is not None
    theirs = [row.limit_nano for row in alike if row.hard and not row.by_tenant]
    check_below(change, ask.limit.value, [(nano, to_display(nano)) for nano in theirs])
    await _check_seen(change, owner, ask, next((row for row in alike if row.by_tenant == by_tenant), None))
    row = await write_budget(
        change.db,
        owner,
        scope=ask.scope,
        scope_id=scope_id,
        period=ask.period,
        limit_nano=ask.limit.value,
        hard=not ask.soft,
        mode=ask.mode,
        thresholds=ask.thresholds,
        author=change.who.author.name,
        by_tenant=by_tenant,
    )
    _tell(change, owner)
    return await _with_last_month(change, owner, row, await _budget_for(change, owner, row))


@operation(
    "budgets.list",
    "GET /tenants/{tenant}/budgets",
    may=BUDGET_READERS,
    uses=Uses(reads=f"tenant budget tenant_user {SPENDING}", keys=MONEY_COUNTS),
)
async def list_all_budgets(look: Look, ask: ListBudgets) -> ListedPage[BudgetInUse]:
    """List a tenant's budgets, oldest first, with the money spent, held by open requests and left now.

    Of a budget that each has for itself, whoever spent the most."""
    owner = await look.tenant(ask.tenant)
    statement = budgets_of(owner.tenant_id, ended=ask.ended)
    page = await listed_page(look, ask, statement, col(Budget.id), _itself)
    if not ask.ended:
        ids = [row.id for row in page.items]
        return ListedPage(await _in_use(look, owner.tenant_id, ids, 1, owner.time_zone), page.next)
    async with look.db.session() as session:
        await name_owners(session, owner.tenant_id, page.items)
    names = await names_of(look.db, owner.tenant_id, (row.scope_id for row in page.items))
    return ListedPage(
        [BudgetInUse(**budget_facts(row, names, look.now_ms())) for row in page.items], page.next
    )


@operation(
    "budgets.show",
    "GET /tenants/{tenant}/budgets/{budget}",
    may=BUDGET_READERS,
    uses=Uses(reads=f"tenant budget tenant_user audit_state {SPENDING}", keys=MONEY_COUNTS),
)
async def show_budget(look: Look, ask: NameBudget) -> BudgetSpenders:
    """Show a budget; where each has it for itself, those who spent the most."""
    owner = await look.tenant(ask.tenant)
    newest = await _newest(look.db, owner.tenant_id, ask.budget)
    standings = await _in_use(look, owner.tenant_id, [newest], EACH_MAX, owner.time_zone)
    if not standings:
        raise _no_budget(ask)
    await look.seen(Budget, owner.tenant_id, owner.tenant_id, newest)
    return BudgetSpenders(standings)


@operation(
    "budgets.override",
    "PUT /tenants/{tenant}/budgets/{budget}/override",
    may=OVERRIDERS,
    audit="budget.override",
    reason=True,
    edits=True,
    uses=Uses(reads=f"{LAST_MONTH} {TOLD_READS}", writes=f"tenant budget {TOLD_WRITES} {AUDIT}", keys=TOLD),
)
async def override_budget(change: Change, ask: OverrideBudget) -> BudgetFor:
    """Put another limit in the place of a budget's for some time, or end that. The budget gets a new id."""
    tenant = await change.tenant(ask.tenant)
    if (ask.limit is None) != (ask.until is None):
        raise bad_request("a limit in place of another has an end: name both, or neither", field="until")
    owner = tenant.tenant_id
    newest = await _newest(change.db, owner, ask.budget)
    await change.editing(Budget, owner, owner, newest)
    row = await write_override(
        change.db,
        owner,
        newest,
        None if ask.limit is None else ask.limit.value,
        0 if ask.until is None else local_instant(ask.until, ZoneInfo(tenant.time_zone), "until"),
        change.who.author.name,
    )
    if row is None:
        raise _no_budget(ask)
    change.thing = (Budget, owner, (owner, row.id))
    _tell(change, owner)
    return await _with_last_month(change, owner, row, await _budget_for(change, owner, row))


@operation(
    "budgets.end",
    "POST /tenants/{tenant}/budgets/{budget}/end",
    may=BUDGET_EDITORS,
    audit="budget.end",
    reason=True,
    uses=Uses(reads=TOLD_READS, writes=f"tenant budget {AUDIT}", keys=TOLD),
)
async def end_budget(change: Change, ask: NameBudget) -> BudgetFor:
    """End a budget at once. What was spent is not forgotten, should it be set again."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    newest = await _newest(change.db, owner, ask.budget)
    found = next((each for each in await list_budgets(change.db, owner) if each.id == newest), None)
    if found is None:
        raise _no_budget(ask)
    check_own(change, found, "budget")
    row = await write_budget_end(change.db, owner, newest)
    if row is None:
        raise _no_budget(ask)
    change.after(tell_money, owner)
    return await _budget_for(change, owner, row)


def _tell(change: Change, owner: str) -> None:
    change.after(_alert_at_once, owner)
    change.after(tell_money, owner)


async def _alert_at_once(db: Database, _: RedisClient, owner: str) -> None:
    """In a transaction of its own: it locks the heads of the books, which come before the audit log's."""
    await check_budgets(db, owner)


async def _newest(db: Database, tenant_id: str, budget: str) -> str:
    """The present id of a budget: each edit gives a new id, and alerts name old ones."""
    rows = await list_budgets(db, tenant_id, ended=True)
    for old in rows:  # oldest first, so that one pass follows all edits
        if old.id == budget and old.ended_ms is not None:
            budget = next((row.id for row in rows if _replaces(row, old)), budget)
    return budget


def _replaces(row: Budget, old: Budget) -> bool:
    same = (row.scope, row.scope_id, row.period, row.mode) == (old.scope, old.scope_id, old.period, old.mode)
    return same and row.created_ms == old.ended_ms and row.id != old.id


async def _check_seen(change: Change, owner: str, ask: SetBudget, now: Budget | None) -> None:
    """Raise Refused, with who changed it, where the budget that is to be replaced is not the one that the
    caller saw."""
    if not ask.seen or (now is not None and now.id == ask.seen):
        return
    if now is None:
        raise Refused(Refusal("conflict", "somebody ended this budget meanwhile", retry=True, field="seen"))
    rows = await list_budgets(change.db, owner, ended=True)
    limits = (to_text(row.limit_nano) for row in rows if row.id == ask.seen)
    before: dict[str, Any] = dict(zip(("limit",), limits, strict=False))
    after = {"limit": to_text(now.limit_nano)}
    told = f"somebody set {to_display(now.limit_nano)} here meanwhile"
    since = ChangeSince(now.author, now.created_ms, "budget.set", before, after)
    raise Refused(Refusal("conflict", told, retry=True, field="seen", changes=(since,)))


def _no_budget(ask: NameBudget) -> Refused:
    known = see("budgets.list", tenant=ask.tenant)
    return unknown(f"there is no open budget {ask.budget!r}", field="budget", see=known)


def _itself(row: Budget) -> Budget:
    return row


async def _in_use(
    look: Look, owner: str, ids: Sequence[str], each_max: int, time_zone: str
) -> list[BudgetInUse]:
    now, zone = look.now_ms(), ZoneInfo(time_zone)
    held = await held_in_redis(look, owner)
    found = await budget_standings(look.db, owner, now, each_max, ids)
    whose = {each.counted.scope_id for _, stands in found for each in stands}
    names = await names_of(look.db, owner, whose | {row.scope_id for row, _ in found})
    shown: list[BudgetInUse] = []
    for row, stands in found:
        facts = budget_facts(row, names, now)
        shown += [BudgetInUse(**facts | standing_facts(each, names, held, zone)) for each in stands] or [
            BudgetInUse(**facts)
        ]
    return shown


async def _budget_for(change: Change, owner: str, row: Budget) -> BudgetFor:
    held = await keys_held(change.db, owner, row.scope, row.scope_id)
    names = await names_of(change.db, owner, [row.scope_id])
    return BudgetFor(
        **budget_facts(row, names, change.now_ms()),
        **await _spent_already(change, owner, row),
        holds_for=held.prefixes,
        note=held.note,
    )


async def _with_last_month(change: Change, owner: str, row: Budget, would: BudgetFor) -> BudgetFor:
    """The answer of a dry run tells, too, what the budget would have done last month."""
    if not change.terms.dry_run:
        return would
    alike, tenant = await list_budgets(change.db, owner), await change.tenant(owner)
    return msgspec.structs.replace(would, last_month=await month_of_budget(change, tenant, row, alike))


async def _spent_already(change: Change, owner: str, row: Budget) -> dict[str, Any]:
    """What is spent of a budget in its window, and when it is gone at this pace; nothing of one for each."""
    now = change.now_ms()
    tenant = await change.tenant(owner)
    if row.scope != Scope.TENANT and not row.scope_id:
        return {}
    for _, (stands, *_) in await budget_standings(change.db, owner, now, 1, [row.id]):
        return spending_facts(stands, ZoneInfo(tenant.time_zone))
    return {}


OPERATIONS = (set_budget, list_all_budgets, show_budget, override_budget, end_budget)
