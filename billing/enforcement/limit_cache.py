"""A gateway's cache of tenants' limits: rows of SQL, kept for some seconds, dropped on news.

While SQL does not answer, the last rows stay in use; a tenant that was never read is refused.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from sqlalchemy.exc import DBAPIError
from sqlmodel import col, or_, select

from billing.budgets.key_chains import chain_owners, named_keys, put_on_chains
from billing.limits import RequestFacts, RequestLimits, TenantRows, limits_of
from billing.periods import zone_named
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.tenants import PLATFORM, Tenant
from billing.wallets.wallets import wallet_state
from core.errors import Refusal, Refused
from core.observability.telemetry import RepeatedWarning, logger
from core.sql.database import Database

log = logger(__name__)
repeated = RepeatedWarning(log)

KEPT_MS = 5_000
TENANTS_MAX = 10_000
FACTS_MAX = 10_000
RETRY_MS = 1_000


@dataclass
class _CachedLimits:
    rows: TenantRows
    read_ms: int
    good: bool = True
    limits: dict[RequestFacts, RequestLimits] = field(default_factory=dict[RequestFacts, RequestLimits])

    def holds(self, now_ms: int) -> bool:
        """True while these rows are fresh. A grant's end lowers the wallet, so it ends them too."""
        ends = self.rows.wallet_until_ms
        return self.good and 0 <= now_ms - self.read_ms < KEPT_MS and (ends is None or now_ms < ends)


class LimitCache:
    """The limits that one process knows. `changed` invalidates them; otherwise they are read again after
    KEPT_MS."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept: OrderedDict[str, _CachedLimits] = OrderedDict()
        self._reading: dict[str, asyncio.Task[TenantRows]] = {}

    async def limits_for(
        self, tenant: str, project: str, key: str, user: str, model: str, now_ms: int
    ) -> RequestLimits:
        """Limits that apply to a request accepted now. `key`: the owner key of the used key's chain. Raises
        Refused `overloaded` where they cannot be known."""
        rows = await self.rows(tenant, now_ms)
        facts = RequestFacts(tenant, project, key, user, model)
        kept = self._kept[tenant].limits
        limits = kept.get(facts)
        if limits is None or any(now_ms >= each.window.end_ms for each in limits.money):
            if len(kept) >= FACTS_MAX:
                kept.clear()
            limits = kept[facts] = limits_of(rows, facts, now_ms)
        return limits

    async def rows(self, tenant: str, now_ms: int) -> TenantRows:
        """A tenant's open rows, at most KEPT_MS old while SQL answers."""
        kept = self._kept.get(tenant)
        if kept is not None and kept.holds(now_ms):
            return kept.rows
        try:
            rows = await self._read(tenant, now_ms)
        except (DBAPIError, OSError) as error:
            repeated.warning("limits.read_failed", error=type(error).__name__)
            if kept is None:
                raise Refused(
                    Refusal("overloaded", "limits cannot be read now", retry=True, after_ms=RETRY_MS)
                ) from error
            return kept.rows
        self._kept[tenant] = _CachedLimits(rows, now_ms)
        self._kept.move_to_end(tenant)
        if len(self._kept) > TENANTS_MAX:
            self._kept.popitem(last=False)
        return rows

    def changed(self, tenant: str) -> None:
        """Invalidate a tenant's limits; PLATFORM: everybody's."""
        for name, kept in self._kept.items():
            if tenant in (PLATFORM, name):
                kept.good = False
        for name in [name for name in self._reading if tenant in (PLATFORM, name)]:
            del self._reading[name]  # that read may have begun before the change

    async def _read(self, tenant: str, now_ms: int) -> TenantRows:
        """Read rows; concurrent callers share one read."""
        task = self._reading.get(tenant)
        if task is None:
            task = self._reading[tenant] = asyncio.create_task(read_rows(self._db, tenant, now_ms))
            task.add_done_callback(lambda done: self._done(tenant, done))
        return await asyncio.shield(task)

    def _done(self, tenant: str, task: asyncio.Task[TenantRows]) -> None:
        if self._reading.get(tenant) is task:
            del self._reading[tenant]
        if not task.cancelled():
            task.exception()  # retrieved here, as its waiters raise it


async def read_rows(db: Database, tenant_id: str, now_ms: int) -> TenantRows:
    """Read a tenant's open rows from SQL."""
    wallet = await wallet_state(db, tenant_id, now_ms)
    async with db.session() as session:
        tenant = await session.get(Tenant, tenant_id)
        zone = zone_named(tenant.time_zone if tenant is not None else "UTC")
        plan = tenant.plan_id if tenant is not None else None
        policies = select(QuotaPolicy).where(
            col(QuotaPolicy.ended_ms).is_(None),
            or_(
                col(QuotaPolicy.tenant_id) == tenant_id,
                (col(QuotaPolicy.tenant_id) == PLATFORM) & (col(QuotaPolicy.plan_id) == (plan or "")),
            ),
        )
        budgets = select(Budget).where(col(Budget.tenant_id) == tenant_id, col(Budget.ended_ms).is_(None))
        limits = [*(await session.exec(policies)).all()], [*(await session.exec(budgets)).all()]
        session.expunge_all()
        rows = [*limits[0], *limits[1]]
        put_on_chains(rows, await chain_owners(session, tenant_id, named_keys(rows)))
        return TenantRows(
            tenant_id,
            zone,
            *limits,
            wallet.limit_nano if wallet is not None else None,
            now_ms,
            wallet.next_expiry_ms if wallet is not None else None,
        )
