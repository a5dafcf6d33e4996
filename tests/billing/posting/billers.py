"""Billers, and what they have booked."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from sqlmodel import col, func, select

from billing.posting.biller import Biller
from billing.quota.client import Quota
from billing.quota.types import Admission
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.usage import ENDED_FIELD, UsageEvent, encode, ended_stream
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import PRICES
from tests.support.patience import wait_until
from tests.support.redis import Redis

STREAM = ended_stream("default")


async def end(redis: Redis, events: Sequence[UsageEvent], settings: Settings) -> None:
    """Admit the requests and put their events on the stream, as gateway and worker do."""
    quota = Quota(redis, settings)
    for event in events:
        await quota.admit(
            Admission(
                tenant=event.tenant,
                id=event.request,
                body_hash="h",
                owner_key="k",
                project="p",
                user="",
                model=event.model,
                pool=event.pool,
                fingerprint=event.fingerprint,
                input_tokens=12,
                chunk_tokens=256,
                deadline_ms=1 << 42,
                prices=PRICES,
            )
        )
        await redis.xadd(ended_stream(event.pool), {ENDED_FIELD: encode(event)})


@asynccontextmanager
async def a_biller(
    database: Database, redis: Redis, settings: Settings, pools: Sequence[str] = ("default",)
) -> AsyncGenerator[None]:
    """A running biller that takes over a dead one's batch at once."""
    stop = asyncio.Event()
    running = asyncio.create_task(Biller(database, redis, settings, pools, claim_idle_ms=1).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def rows(database: Database, tenant: str = "t1") -> list[UsageRow]:
    """What is posted for a tenant."""
    async with database.session() as session:
        return list((await session.exec(select(UsageRow).where(col(UsageRow.tenant_id) == tenant))).all())


async def held(database: Database) -> list[UsageQuarantine]:
    """What is quarantined."""
    async with database.session() as session:
        return list((await session.exec(select(UsageQuarantine))).all())


async def until_posted(database: Database, count: int, tenant: str = "t1") -> list[UsageRow]:
    """The tenant's rows once there are `count` of them."""

    async def posted() -> bool:
        return await row_count(database, tenant) == count

    await wait_until(posted)
    return await rows(database, tenant)


async def until_acknowledged(redis: Redis) -> None:
    """Returns once the biller group has nothing pending and nothing unread."""

    async def done() -> bool:
        groups = {group["name"]: group for group in await redis.xinfo_groups(STREAM)}
        biller = groups.get(b"biller")  # missing until the biller's first step
        return biller is not None and biller["pending"] == 0 and biller["lag"] == 0

    await wait_until(done)


async def row_count(database: Database, tenant: str = "t1") -> int:
    """How much is posted for a tenant."""
    counting = select(func.count()).select_from(UsageRow).where(col(UsageRow.tenant_id) == tenant)
    async with database.session() as session:
        return (await session.exec(counting)).one()
