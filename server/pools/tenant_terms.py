"""Keeps the pools in line with tenants' terms. Every gateway does it: each write is complete, so several
writers agree, and a Redis that lost its data has it back within seconds."""

import asyncio
from collections.abc import Mapping

from billing.api import PoolTerms, list_terms
from core.clock import monotonic
from core.configuration.settings import Settings
from core.observability.error_facts import error_facts
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from core.runtime.failed_rounds import is_store_down, logged_failures
from core.sql.database import Database
from engine.api import PoolQueue, PriorityClass, TenantTerms

ALL_SECONDS = 60.0

log = logger(__name__)


class TenantTermsSync:
    """One gateway's writer of terms."""

    def __init__(
        self, db: Database, redis: RedisClient, queues: Mapping[str, PoolQueue], settings: Settings
    ) -> None:
        self._db = db
        self._redis = redis
        self._queues = queues
        self._settings = settings
        self._changed = asyncio.Event()
        self._written: dict[str, TenantTerms] = {}
        self._run_id = ""
        self._all_due = 0.0

    def changed(self) -> None:
        """Look soon, as there is news of changed terms."""
        self._changed.set()

    def pool_added(self) -> None:
        """Write all terms soon, as another pool is served from now on."""
        self._run_id = ""
        self._changed.set()

    async def run(self) -> None:
        """Write at the start, at news, and every `terms_seconds`."""
        while True:
            self._changed.clear()
            with logged_failures(log, "tenant_terms.sync_failed"):
                await self.apply()
            try:
                async with asyncio.timeout(self._settings.terms_seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def apply(self) -> None:
        """Write changed terms; all of them to a Redis that was started anew, and once a minute."""
        run_id = (await self._redis.info("server"))["run_id"]
        if run_id != self._run_id or monotonic() >= self._all_due:
            self._written.clear()
            await self._write_reserves()
            self._run_id, self._all_due = run_id, monotonic() + ALL_SECONDS
        for row in await list_terms(self._db):
            terms = terms_of(row)
            if self._written.get(row.tenant_id) != terms and await self._write(row.tenant_id, terms):
                self._written[row.tenant_id] = terms

    async def _write_reserves(self) -> None:
        for queue in self._queues.values():
            await queue.set_reserve(PriorityClass.INTERACTIVE, self._settings.reserve_interactive_tokens)
            await queue.set_reserve(PriorityClass.STANDARD, self._settings.reserve_standard_tokens)

    async def _write(self, tenant: str, terms: TenantTerms) -> bool:
        """False where a pool's keys are damaged; the other tenants and pools get their terms."""
        whole = True
        for pool, queue in self._queues.items():
            try:
                taken = await queue.set_tenant(tenant, terms)
            except Exception as error:
                if is_store_down(error):
                    raise
                log.error("tenant_terms.set_failed", pool=pool, tenant=tenant, **error_facts(error))
                whole = False
                continue
            if not taken:
                log.error(
                    "tenant_terms.reserves_over_limit",
                    setting="PARLEY_TENANT_RESERVES_MAX",
                    pool=pool,
                    tenant=tenant,
                )
        return whole


def terms_of(row: PoolTerms) -> TenantTerms:
    """The terms in the queue's form. Classes are clamped at the edge, before a request is enqueued."""
    return TenantTerms(
        weight=row.weight,
        slots_max=row.slots_max,
        tokens_max=row.tokens_max,
        reserve_tokens=row.reserve_tokens,
    )
