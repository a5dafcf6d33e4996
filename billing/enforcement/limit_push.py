"""Edited limits of money reach the answers that run: what Redis counts gets the limits that the rows say."""

from pathlib import Path

from billing.enforcement.limit_cache import read_rows
from billing.limits import MoneyLimit, RequestFacts, TenantRows, limits_of
from billing.quota.money import MoneyCounts
from core.clock import now_ms
from core.database import Database
from core.redis import RedisClient
from core.scripts import Script

_LIMITS = Script(Path(__file__).parents[1] / "quota" / "lua" / "limits.lua")


async def push_limits(db: Database, redis: RedisClient, tenant_id: str) -> None:
    """After a budget or the wallet of a tenant was changed. Said again, it changes nothing."""
    now = now_ms()
    counted = await MoneyCounts(redis).counted(tenant_id)
    rows = await read_rows(db, tenant_id, now)
    current = [limit for limit in counted if now < limit.window.end_ms]
    if not current:
        return
    arguments: list[int] = []
    for each in current:
        limit = current_limit(rows, each, now)
        if limit is None:
            arguments += [0, 0, 0, 0, now]
        else:
            override = limit.override_nano
            until = 0 if override is None else limit.override_until_ms
            arguments += [limit.script_nano, override or 0, until, int(limit.hard), limit.revision]
    await _LIMITS(redis, [f"{{t:{tenant_id}}}{each.key}" for each in current], arguments)


def current_limit(rows: TenantRows, counted: MoneyLimit, now: int) -> MoneyLimit | None:
    """The limit that the rows put on what is counted; None: there is none any more. Pure."""
    ids = {"project": "", "key": "", "user": "", "model": "", counted.scope.value: counted.scope_id}
    ids.pop("tenant", None)
    whose = (counted.scope, counted.scope_id, counted.period, counted.shadow)
    for limit in limits_of(rows, RequestFacts(rows.tenant, **ids), now).money:
        if (limit.scope, limit.scope_id, limit.period, limit.shadow) == whose:
            return limit
    return None
