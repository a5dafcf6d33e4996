"""A tenant's share, caps and reserve in the pools. The rows are the truth; gateways bring the pools in line
(server/pools/tenant_terms.py).

A tenant's own terms override its plan's, and while it is throttled (billing/noisy) the lower cap holds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.tables.noisy import NoisyFinding
from billing.tables.tenants import Plan, PoolTerms, Tenant
from billing.tenants.edits import lock_settings
from billing.tenants.tenancy import publish_news
from core.clock import now_ms
from core.errors import bad_request
from core.redis.client import RedisClient
from core.sql.database import Database

TERMS_CHANGED = "terms_changed"
WEIGHT_MAX = 1_000_000.0
FORGOTTEN_MS = 24 * 3_600_000
INTEGER_MAX = (1 << 53) - 1  # the largest number that the queue's scripts count exactly


async def find_terms(db: Database, tenant_id: str) -> PoolTerms:
    """A tenant's terms without throttles: its own, else its plan's, else the default."""
    async with db.session() as session:
        return await _base_terms(session, tenant_id)


async def list_terms(db: Database) -> Sequence[PoolTerms]:
    """Terms in force, throttles included, of all tenants that have any, or had them by a plan or a throttle
    within the last day. For keeping the pools in line; the returned rows are copies, not the table's."""
    since = now_ms() - FORGOTTEN_MS
    held_back = select(NoisyFinding).where(
        col(NoisyFinding.throttled_ms).is_not(None),
        col(NoisyFinding.lifted_ms).is_(None) | (col(NoisyFinding.lifted_ms) >= since),
    )
    placed = select(Plan.id).where(col(Plan.weight).is_not(None))
    in_plans = select(Tenant).where(
        (col(Tenant.plan_since_ms) >= since) | col(Tenant.plan_id).in_(placed.scalar_subquery())
    )
    throttles: dict[str, list[NoisyFinding]] = {}
    async with db.session() as session:
        own = {row.tenant_id: row for row in (await session.exec(select(PoolTerms))).all()}
        plans = {plan.id: plan for plan in (await session.exec(select(Plan))).all()}
        moved = {tenant.tenant_id: tenant for tenant in (await session.exec(in_plans)).all()}
        for finding in (await session.exec(held_back)).all():
            throttles.setdefault(finding.tenant_id, []).append(finding)
    return [
        throttled_terms(base_terms(id, own.get(id), moved.get(id), plans), throttles.get(id, []))
        for id in sorted({*own, *moved, *throttles})
    ]


def base_terms(
    tenant_id: str, own: PoolTerms | None, tenant: Tenant | None, plans: dict[str, Plan]
) -> PoolTerms:
    """A tenant's own terms, else its plan's, else the default. Pure."""
    if own is not None:
        return own
    plan = plans.get(tenant.plan_id) if tenant is not None and tenant.plan_id else None
    since = (tenant.plan_since_ms if tenant is not None else None) or 0
    if plan is None or plan.weight is None:
        return PoolTerms(tenant_id=tenant_id, updated_ms=since)
    return PoolTerms(
        tenant_id=tenant_id,
        weight=plan.weight,
        slots_max=plan.slots_max,
        tokens_max=plan.tokens_max,
        reserve_tokens=plan.reserve_tokens,
        updated_ms=since,
    )


def throttled_terms(terms: PoolTerms, findings: Sequence[NoisyFinding]) -> PoolTerms:
    """A copy of the terms with the lowest cap of the throttles in force. Pure."""
    caps = [finding for finding in findings if finding.throttled_ms is not None and finding.lifted_ms is None]
    slots = [terms.slots_max, *(cap.slots_max for cap in caps)]
    times = (time or 0 for finding in findings for time in (finding.throttled_ms, finding.lifted_ms))
    return PoolTerms(
        tenant_id=terms.tenant_id,
        weight=terms.weight,
        slots_max=min((each for each in slots if each is not None), default=None),
        tokens_max=terms.tokens_max,
        reserve_tokens=terms.reserve_tokens,
        updated_ms=max(terms.updated_ms, *times, 0),
    )


async def set_terms(db: Database, redis: RedisClient, terms: PoolTerms) -> None:
    """Store a tenant's own terms, all of them, and tell the gateways. Raises Refused where a value is
    invalid."""
    async with db.transaction() as session:
        await lock_settings(session, terms.tenant_id)
        await _store(session, terms)
    await publish_news(redis, terms.tenant_id, TERMS_CHANGED)


async def change_terms(
    db: Database, redis: RedisClient, tenant_id: str, changes: Mapping[str, Any]
) -> PoolTerms:
    """Change some of a tenant's terms in force and tell the gateways: from now on all are its own. Raises
    Refused where a value is invalid."""
    terms = await write_terms(db, tenant_id, changes)
    await tell_terms(db, redis, tenant_id)
    return terms


async def tell_terms(_: Database, redis: RedisClient, tenant_id: str) -> None:
    """Tell gateways that a tenant's terms changed."""
    await publish_news(redis, tenant_id, TERMS_CHANGED)


async def write_terms(db: Database, tenant_id: str, changes: Mapping[str, Any]) -> PoolTerms:
    """As `change_terms`, without telling gateways."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        found = await _base_terms(session, tenant_id)
        terms = PoolTerms(**found.model_dump() | dict(changes))
        await _store(session, terms)
    return terms


async def _store(session: AsyncSession, terms: PoolTerms) -> None:
    check_terms(terms)
    terms.updated_ms = now_ms()
    old = await session.get(PoolTerms, terms.tenant_id)
    before = old.model_dump(exclude={"updated_ms"}) if old else None
    await session.merge(terms)
    after = terms.model_dump(exclude={"updated_ms"})
    await record(session, terms.tenant_id, "terms.set", terms.tenant_id, before, after)


async def _base_terms(session: AsyncSession, tenant_id: str) -> PoolTerms:
    own = await session.get(PoolTerms, tenant_id)
    tenant = await session.get(Tenant, tenant_id)
    plan = await session.get(Plan, tenant.plan_id) if tenant is not None and tenant.plan_id else None
    return base_terms(tenant_id, own, tenant, {plan.id: plan} if plan else {})


def check_terms(terms: PoolTerms) -> None:
    """Raises Refused where a value is invalid."""
    if not (math.isfinite(terms.weight) and 0 < terms.weight <= WEIGHT_MAX):
        raise bad_request(f"a weight is above 0 and at most {WEIGHT_MAX:,.0f}", field="weight")
    for name, least in (("slots_max", 1), ("tokens_max", 1), ("reserve_tokens", 0)):
        value = getattr(terms, name)
        if value is not None and not least <= value <= INTEGER_MAX:
            raise bad_request(f"{name} is at least {least} and at most {INTEGER_MAX}", field=name)
