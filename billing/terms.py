"""What a tenant may take of the pools: its share, its caps and its reserve. The rows are the truth; gateways
bring the pools in line (server/terms.py)."""

import math
from collections.abc import Sequence

from sqlmodel import col, select

from billing.audit_log import record
from billing.tables import PoolTerms
from billing.tenancy import tell
from core.clock import now_ms
from core.database import Database
from core.errors import bad_request
from core.redis import Client

TERMS_CHANGED = "terms_changed"
WEIGHT_MAX = 1_000_000.0
INTEGER_MAX = (1 << 53) - 1  # what the queue's scripts count exactly


async def find_terms(db: Database, tenant_id: str) -> PoolTerms:
    """A tenant's terms, those of everybody where none were set."""
    async with db.session() as session:
        return await session.get(PoolTerms, tenant_id) or PoolTerms(tenant_id=tenant_id)


async def list_terms(db: Database) -> Sequence[PoolTerms]:
    """The terms of all tenants that ever had some set. For what keeps the pools in line."""
    async with db.session() as session:
        return (await session.exec(select(PoolTerms).order_by(col(PoolTerms.tenant_id)))).all()


async def set_terms(db: Database, redis: Client, terms: PoolTerms) -> None:
    """Store a tenant's terms and tell the gateways. Raises Refused where a value is none."""
    _check(terms)
    terms.updated_ms = now_ms()
    async with db.transaction() as session:
        old = await session.get(PoolTerms, terms.tenant_id)
        before = old.model_dump(exclude={"updated_ms"}) if old else None
        await session.merge(terms)
        after = terms.model_dump(exclude={"updated_ms"})
        await record(session, terms.tenant_id, "terms.set", terms.tenant_id, before, after)
    await tell(redis, terms.tenant_id, TERMS_CHANGED)


def _check(terms: PoolTerms) -> None:
    if not (math.isfinite(terms.weight) and 0 < terms.weight <= WEIGHT_MAX):
        raise bad_request(f"a weight is above 0 and at most {WEIGHT_MAX:,.0f}")
    for name, least in (("slots_max", 1), ("tokens_max", 1), ("reserve_tokens", 0)):
        value = getattr(terms, name)
        if value is not None and not least <= value <= INTEGER_MAX:
            raise bad_request(f"{name} is at least {least} and at most {INTEGER_MAX}")
