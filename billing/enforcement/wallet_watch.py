"""Books the rest of expired grants, and tells the gateways. Any number of processes may watch."""

import asyncio

from billing.enforcement.limit_push import push_limits
from billing.enforcement.limit_settings import publish_limits_changed
from billing.wallets.wallets import expire, tenants_with_expired
from core.clock import now_ms
from core.observability.error_facts import error_facts
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.runtime.failed_rounds import is_store_down, logged_failures
from core.sql.database import Database

log = logger(__name__)
repeated = RepeatedWarning(log)

LOOK_SECONDS = 0.5


async def publish_wallet_changed(db: Database, redis: RedisClient, tenant_id: str) -> None:
    """Tell gateways to read a changed wallet's limit again, and apply it to running answers."""
    await push_limits(db, redis, tenant_id)
    await publish_limits_changed(redis, tenant_id)


async def expire_all(db: Database, redis: RedisClient, at_ms: int) -> int:
    """Book the unused rest of all grants expired at `at_ms`; return the number of grants."""
    ended = 0
    for tenant_id in await tenants_with_expired(db, at_ms):
        try:
            grants = await expire(db, tenant_id, at_ms)
            await publish_wallet_changed(db, redis, tenant_id)
        except Exception as error:
            if is_store_down(error):
                raise
            repeated.warning("wallet.expire_failed", tenant=tenant_id, **error_facts(error))
            continue
        for row, unused_nano in grants:
            log.info("wallet.grant_expired", tenant=tenant_id, grant=row.id, unused_nano=unused_nano)
        ended += len(grants)
    return ended


async def watch_wallets(db: Database, redis: RedisClient, stop: asyncio.Event) -> None:
    """Check every LOOK_SECONDS until `stop` is set."""
    while not stop.is_set():
        with logged_failures(log, "wallet.watch_failed"):
            await expire_all(db, redis, now_ms())
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await stop.wait()
        except TimeoutError:
            pass
