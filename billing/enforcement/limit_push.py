"""Applies edited money limits to running answers: Redis' counts get the limits from the rows."""

from billing.enforcement.limit_cache import read_rows
from billing.limits import MoneyLimit, RequestFacts, TenantRows, limits_of
from billing.quota.money import MoneyCounts
from billing.quota.script_calls import LimitsCall, PushedLimit
from billing.quota.scripts import quota_script
from core.clock import now_ms
from core.redis.client import RedisClient
from core.redis.script_calls import STRUCTS_MAX
from core.sql.database import Database

_LIMITS = quota_script("limits", LimitsCall, int, "base", "money", "takes")


async def push_limits(db: Database, redis: RedisClient, tenant_id: str) -> None:
    """Push a tenant's limits after a change of a budget or the wallet. A repetition changes nothing. Limits
    that another has read and pushed since, or of which money is being taken, stay as they are."""
    now = now_ms()
    counted = await MoneyCounts(redis).counted(tenant_id)
    current = [limit for limit in counted if now < limit.window.end_ms]
    if not current:
        return
    keys = [f"{{t:{tenant_id}}}{each.key}" for each in current]
    read_ms = await _LIMITS(redis, keys[:1], LimitsCall(read_ms=0, limits=[]))
    rows = await read_rows(db, tenant_id, now)
    limits = [_pushed(current_limit(rows, each, now), now) for each in current]
    for at in range(0, len(keys), STRUCTS_MAX):
        part = slice(at, at + STRUCTS_MAX)
        await _LIMITS(redis, keys[part], LimitsCall(read_ms=read_ms, limits=limits[part]))


def _pushed(limit: MoneyLimit | None, now: int) -> PushedLimit:
    if limit is None:
        return PushedLimit(0, 0, 0, hard=False, revision=now)
    override = limit.override_nano
    until = 0 if override is None else limit.override_until_ms
    return PushedLimit(limit.script_nano, override or 0, until, limit.hard, limit.revision)


def current_limit(rows: TenantRows, counted: MoneyLimit, now: int) -> MoneyLimit | None:
    """The limit that the rows now set on a count; None: none any more. Pure."""
    ids = {"project": "", "key": "", "user": "", "model": "", counted.scope.value: counted.scope_id}
    ids.pop("tenant", None)
    whose = (counted.scope, counted.scope_id, counted.period, counted.shadow)
    for limit in limits_of(rows, RequestFacts(rows.tenant, **ids), now).money:
        if (limit.scope, limit.scope_id, limit.period, limit.shadow) == whose:
            return limit
    return None
