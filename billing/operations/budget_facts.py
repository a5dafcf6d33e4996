"""A budget and what is spent, held and left of it, as they are shown."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, UnsetType

from billing.limits import Mode, Scope
from billing.operations.last_month import LastMonth
from billing.operations.limited import whom
from billing.periods import LAST_MS, Period
from billing.quota.client import Quota
from billing.quota.types import MoneySum
from billing.tables.limits import Budget
from billing.unit_of_work.units import Look
from billing.wallets.budgets import BudgetStanding
from core.clock import iso_time
from core.operations import MoneyAmount
from core.redis import redis_errors


class StoredBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget. `of`: whom it is for, or whose spending is shown: `each`, or empty for the tenant;
    `override`: the limit that holds meanwhile; `by_tenant`: its own admins set it."""

    budget: str
    scope: Scope
    of: str
    period: Period
    kind: str
    mode: Mode
    limit: MoneyAmount
    override: MoneyAmount | UnsetType = UNSET
    override_until: str | UnsetType | None = UNSET
    thresholds: list[int]
    author: str
    by_tenant: bool


class BudgetFor(StoredBudget, frozen=True, kw_only=True):
    """A budget; one on a key says for which keys it holds. `spent` and `exhausted` as in BudgetInUse, of one
    that is of one alone; `last_month`: of a dry run, whom it would have refused."""

    spent: MoneyAmount | UnsetType = UNSET
    exhausted: str | UnsetType | None = UNSET
    holds_for: list[str] | UnsetType = UNSET
    note: str | UnsetType = UNSET
    last_month: LastMonth | UnsetType | None = UNSET


class BudgetInUse(StoredBudget, frozen=True, kw_only=True):
    """A budget and what is spent of it by `of` in its window; nothing where nobody spent. `held` None: Redis
    does not answer; `exhausted`: when the limit is reached at this pace; times are the tenant's own."""

    spent: MoneyAmount | UnsetType = UNSET
    held: MoneyAmount | UnsetType | None = UNSET
    left: MoneyAmount | UnsetType = UNSET
    percent: int | UnsetType = UNSET
    resets: str | UnsetType | None = UNSET
    exhausted: str | UnsetType | None = UNSET


def budget_facts(row: Budget, names: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    """The fields of StoredBudget. Pure."""
    facts: dict[str, Any] = {
        "budget": row.id,
        "scope": Scope(row.scope),
        "of": whom(row.scope, row.scope_id, names),
        "period": Period(row.period),
        "kind": "hard" if row.hard else "soft",
        "mode": Mode(row.mode),
        "limit": MoneyAmount.of(row.limit_nano),
        "thresholds": row.thresholds,
        "author": row.author,
        "by_tenant": row.by_tenant,
    }
    if row.override_nano is None or now_ms >= (row.override_until_ms or 0):
        return facts
    override = MoneyAmount.of(row.override_nano)
    return facts | {"override": override, "override_until": iso_time(row.override_until_ms)}


async def held_in_redis(look: Look, tenant_id: str) -> Sequence[MoneySum] | None:
    """Redis' counts of a tenant's money; None where it does not answer."""
    try:
        return await Quota(look.redis, look.settings).budget_sums(tenant_id)
    except (redis_errors.RedisError, OSError):
        return None


def spending_facts(found: BudgetStanding, zone: ZoneInfo) -> dict[str, Any]:
    """What is spent, and when the limit is reached at this pace. Pure."""
    return {
        "spent": MoneyAmount.of(found.spent_nano),
        "exhausted": _local(found.exhausted_ms, zone),
    }


def standing_facts(
    found: BudgetStanding, names: Mapping[str, str], counts: Sequence[MoneySum] | None, zone: ZoneInfo
) -> dict[str, Any]:
    """Whose spending it is, and the fields that BudgetInUse adds. Pure."""
    shadow = found.budget.mode == Mode.SHADOW
    whose = (found.counted.scope, found.counted.scope_id, found.budget.period, found.window.start_ms, shadow)
    held: int | None = None if counts is None else 0
    for each in counts or ():
        if (each.scope, each.scope_id, each.period, each.window_start_ms, each.shadow) == whose:
            held = each.held_nano + each.unbooked_nano
    return {
        "of": names.get(found.counted.scope_id, found.counted.scope_id),
        **spending_facts(found, zone),
        "held": None if held is None else MoneyAmount.of(held),
        "left": MoneyAmount.of(max(0, found.left_nano - (held or 0))),
        "percent": found.percent,
        "resets": _local(found.window.end_ms, zone) if found.window.end_ms < LAST_MS else None,
    }


def _local(unix_ms: int | None, zone: ZoneInfo) -> str | None:
    return None if unix_ms is None else datetime.fromtimestamp(unix_ms // 1000, zone).isoformat()
