"""The operation that shows what tenants take of a pool now, beside the share that is theirs."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.api import Look
from core.access.processes import LINES
from core.operations import OPERATORS, Role, Uses, operation
from engine.operations.live_pools import running_by_tenant
from engine.operations.pool_questions import WORKER_READS, known_pool, names_of_tenants
from engine.operations.tenant_rows import TenantRow, tenant_rows


class AskShares(msgspec.Struct, frozen=True, kw_only=True):
    """Which pool."""

    pool: Annotated[str, Meta(description="The pool's name.")]


class TenantShare(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant with requests in a pool. `share`, from 0 to 1: of the KV tokens that are in flight there, None
    where none are; `fair_share`: what its weight gives it beside the others; `at_cap`: at one of its own."""

    tenant: str
    tenant_name: str
    running: int
    waiting: int
    share: float | None
    fair_share: float
    at_cap: bool


class PoolShares(msgspec.Struct, frozen=True, kw_only=True):
    """Tenants of a pool now, who has most in hand first: at most 64 a class."""

    pool: str
    tenants: list[TenantShare]


@operation(
    "pools.shares",
    "GET /pools/{pool}/shares",
    may=OPERATORS | {Role.SUPPORT},
    uses=Uses(reads="tenant pool", keys=(*WORKER_READS, *LINES, "P:ten:")),
)
async def show_shares(look: Look, ask: AskShares) -> PoolShares:
    """Show what tenants take of a pool now, beside their fair share by weight."""
    queue = await known_pool(look, ask.pool)
    workers = [view.worker for view in await queue.workers() if view.claims]
    running = await running_by_tenant(queue.redis, queue.pool, workers)
    rows = await tenant_rows(queue.redis, queue.pool, running)
    names = await names_of_tenants(look, (row.tenant for row in rows))
    return PoolShares(pool=queue.pool, tenants=shares_of(rows, names))


def shares_of(rows: Sequence[TenantRow], names: Mapping[str, str]) -> list[TenantShare]:
    """Each tenant's shares. Pure."""
    tokens, weight = sum(row.tokens for row in rows), sum(row.weight for row in rows)
    return [
        TenantShare(
            tenant=row.tenant,
            tenant_name=names.get(row.tenant, row.tenant),
            running=row.running,
            waiting=row.waiting,
            share=row.tokens / tokens if tokens else None,
            fair_share=row.weight / weight,
            at_cap=row.blocked,
        )
        for row in rows
    ]


OPERATIONS = (show_shares,)
