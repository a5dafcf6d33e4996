"""Releases admissions that never reached their pool, because a gateway died in between, and what lapsed.

First the pool is told, so that a gateway that was only slow cannot enqueue what is no longer admitted.
"""

from collections.abc import Sequence

from redis.exceptions import ResponseError

from billing.api import Quota, release_lapsed
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.runtime.failed_rounds import store_errors
from engine.queue.client import PoolQueue

SWEEP_SECONDS = 10.0
STALE_MS = 60_000
IDS_MAX = 100

log = logger(__name__)


async def release_stale_admissions(queue: PoolQueue, quota: Quota, older_than_ms: int = STALE_MS) -> int:
    """Release admissions that one pool should have had long ago and has not, and those that lapsed, of any
    pool. Returns their number."""
    swept = 0
    for tenant in sorted(await quota.open_tenants()):
        try:
            for id in await release_lapsed(quota, queue.settings, tenant):
                log.warning("admission.released", why="lapsed", tenant=tenant, id=id)
                swept += 1
            stale = [id for id, pool in await quota.stale(tenant, older_than_ms) if pool == queue.pool]
            for at in range(0, len(stale), IDS_MAX):
                swept += await _sweep(queue, quota, tenant, stale[at : at + IDS_MAX])
        except Exception as error:  # its keys are damaged: the others must not suffer
            if isinstance(error, store_errors()) and not isinstance(error, ResponseError):
                raise
            log.error("admission.release_failed", tenant=tenant, error=error_summary(error))
    return swept


async def _sweep(queue: PoolQueue, quota: Quota, tenant: str, ids: Sequence[str]) -> int:
    swept = 0
    for id in await queue.refuse_late_enqueue(tenant, ids):
        if await quota.release(tenant, id):
            log.info("admission.released", why="stale", tenant=tenant, id=id)
            swept += 1
    return swept
