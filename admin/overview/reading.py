"""Reads what the overview is made of: Redis and SQL at once, each thing in one question."""

import asyncio
from collections.abc import Sequence

from redis.exceptions import RedisError

from admin.overview.facts import OverviewFacts, RedisFacts, SqlFacts
from admin.overview.happened import SHOWN_MAX, tenants_named, untold
from billing.api import Look, list_findings
from billing.pages import (
    AuditLog,
    EndedStreams,
    count_quarantined,
    erased_tenants,
    last_run,
    look_at_streams,
    newest_changes,
    present_owners,
    row_shown,
    tenant_names,
    tenant_needs,
    users_in,
    users_named,
)
from billing.pools import read_pools
from core.configuration.settings import Settings
from core.observability.recent_figures import RecentFigures
from core.redis.client import RedisClient
from core.redis.figure_minutes import read_figures
from core.redis.pools import known_pools
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import read_live_pools

NOISY_MAX = 20
REDIS_SECONDS_MAX = 5.0


async def read_facts(look: Look, sees_pools: bool) -> OverviewFacts:
    """All of it. Without Redis what SQL has; raises where SQL is away."""
    reading = asyncio.create_task(_of_redis(look.redis, look.settings, sees_pools))
    try:
        sql = await _of_sql(look.db, look.now_ms())
        redis = await reading
    finally:
        await cancel_tasks([reading])
    names = await tenant_names(look.db, _tenants(redis, sql))
    return OverviewFacts(look.now_ms(), redis, sql, names, sees_pools)


async def _of_redis(redis: RedisClient, settings: Settings, sees_pools: bool) -> RedisFacts | None:
    try:
        async with asyncio.timeout(REDIS_SECONDS_MAX):
            pools = sorted({settings.pool, *await known_pools(redis, settings)})
            (now, live), unread, figures = await asyncio.gather(
                read_live_pools(redis, settings, pools if sees_pools else []),
                _unread(redis, pools),
                _figures(redis, settings, sees_pools),
            )
            return RedisFacts(now, live, unread, figures)
    except (RedisError, OSError):
        return None


async def _figures(redis: RedisClient, settings: Settings, sees_pools: bool) -> RecentFigures | None:
    return await read_figures(redis, settings) if sees_pools else None


async def _unread(redis: RedisClient, pools: Sequence[str]) -> EndedStreams:
    """What ended in all pools and waits for the biller."""
    seen = await asyncio.gather(*(look_at_streams(redis, [pool]) for pool in pools))
    since = [each.oldest_ms for each in seen if each.unread]
    return EndedStreams((), sum(each.unread for each in seen), min(since, default=0))


async def _of_sql(db: Database, now: int) -> SqlFacts:
    rows = await read_pools(db)
    models = {each.pool: [each.model] for each in rows if each.workers and not each.draining}
    noisy = (await list_findings(db))[:NOISY_MAX]
    owners, quarantined = await present_owners(db), await count_quarantined(db)
    needs = await tenant_needs(db, now)
    return SqlFacts(owners, models, await last_run(db), await _changes(db), noisy, quarantined, needs)


async def _changes(db: Database) -> list[AuditLog]:
    """The newest changes, with users' names, and without those of who is erased."""
    rows = await newest_changes(db, SHOWN_MAX, untold())
    named = await users_named(db, ((row.tenant_id, user) for row in rows for user in users_in(row)))
    names: dict[str, dict[str, str]] = {}
    for (tenant, user), name in named.items():
        names.setdefault(tenant, {})[user] = name
    erased = await erased_tenants(db, {row.tenant_id for row in rows})
    return [row_shown(row, names.get(row.tenant_id, {}), row.tenant_id in erased) for row in rows]


def _tenants(redis: RedisFacts | None, sql: SqlFacts) -> set[str]:
    """Ids of the tenants whose names are needed."""
    checks = sql.compared.checks.values() if sql.compared else ()
    compared = {each.tenant for check in checks for each in check.unequal}
    running = {tenant for pool in redis.pools for tenant in pool.running} if redis else set[str]()
    noisy = {each.tenant_id for each in sql.noisy}
    return ({*sql.owners.values(), *sql.needs} | noisy | tenants_named(sql.changes) | compared | running) - {
        ""
    }
