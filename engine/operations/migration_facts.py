"""Facts of both pools of a move, for its preview. Reads only; of prompts no more than their size."""

from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.pools import PoolRow, let_in_by_pool
from core.errors import StartupError
from core.redis.members import readable, reading
from core.redis.pools import known_pools
from core.sql.database import Database
from engine.lifecycle.migration import tokens_needed
from engine.node.reports import PoolNodes
from engine.operations.inspection import InspectedRequest, Inspection
from engine.operations.migration_preview import DestinationFacts, MovingRequest, SourceFacts
from engine.queue import redis_keys
from engine.queue.client import PoolQueue
from engine.request import PriorityClass

LISTED_MAX = 10_000
PAGE = 64  # inputs that are read at once, each with its prompt


async def read_source(queue: PoolQueue, tenant: str | None) -> SourceFacts:
    """The open requests of a pool: a tenant's, or all."""
    rows = await Inspection(queue).requests(tenant, None, LISTED_MAX)
    pages = [rows[at : at + PAGE] for at in range(0, len(rows), PAGE)]
    return SourceFacts(queue.pool, [each for page in pages for each in await _moving(queue, page)])


async def _moving(queue: PoolQueue, rows: Sequence[InspectedRequest]) -> list[MovingRequest]:
    pipeline = queue.redis.pipeline(transaction=False)
    for row in rows:
        pipeline.hget(redis_keys.record(queue.pool, row.tenant, row.id), "fingerprint")
        pipeline.get(redis_keys.request_input(queue.pool, row.tenant, row.id))
    replies = await pipeline.execute(raise_on_error=False)
    got = dict(readable(f"{{p:{queue.pool}}}req:", range(len(replies)), replies))
    return [
        MovingRequest(
            tenant=row.tenant,
            id=row.id,
            status=row.status,
            fingerprint=(got.get(2 * at) or b"").decode(errors="replace"),
            computed=row.prompt_tokens + row.tokens,
            need=tokens_needed(got.get(2 * at + 1) or b""),
        )
        for at, row in enumerate(rows)
    ]


async def read_destination(queue: PoolQueue, db: Database) -> DestinationFacts:
    """A pool that requests are to move to. While the database is away it takes all."""
    workers, nodes = await queue.workers(), PoolNodes(queue)
    lines = [f"{{p:{queue.pool}}}age:{each}" for each in PriorityClass]
    known = queue.pool in await known_pools(queue.redis, queue.settings)
    return DestinationFacts(
        pool=queue.pool,
        known=known or any(worker.alive for worker in workers),  # whose workers announce it
        workers=workers,
        draining=frozenset([each.worker for each in workers if await nodes.is_draining(each.worker)]),
        waiting=sum([await reading(line, queue.redis.zcard(line), 0) for line in lines]),
        admitted=await _admitted(db, queue.pool),
    )


async def _admitted(db: Database, pool: str) -> frozenset[str] | None:
    try:
        async with db.session() as session:
            return await admitted_to(session, pool)
    except (StartupError, SQLAlchemyError, OSError):
        return None


async def admitted_to(session: AsyncSession, pool: str) -> frozenset[str] | None:
    """Ids of the tenants that a pool takes: who pays, and who is let in; None: all, as it is shared."""
    row = await session.get(PoolRow, pool)
    if row is None or not row.tenant_id:
        return None
    return frozenset((row.tenant_id, *(await let_in_by_pool(session, [pool]))[pool]))
