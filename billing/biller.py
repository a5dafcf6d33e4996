"""The biller: from `ended` streams to posted usage, each request once.

Per batch: one SQL transaction, then the tenants' slots are settled, then the entries are acknowledged.
Each step is idempotent: a death between any two is repaired by delivering the batch again.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Sequence

from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing import instruments
from billing.books import book_usage
from billing.ended import CLAIM_IDLE_MS, Delivery, EndedStream
from billing.posting import Assessed, Batch, Key, assess, conflicts
from billing.quota import Quota
from billing.tables import UsageRow
from core.clock import now_ms
from core.database import Database, insert_ignore, require_schema
from core.pools import known_pools
from core.redis import Client, connect
from core.settings import Settings
from core.telemetry import logger

log = logger(__name__)

RETRY_SECONDS = 1.0
CLAIM_SECONDS = 2.0
TRIM_SECONDS = 1.0
FORGET_SECONDS = 600.0
LOOK_SECONDS = 1.0


class Biller:
    """One consumer over the streams of all pools: `pools`, and every other of the installation. Any number of
    billers may run."""

    def __init__(
        self,
        db: Database,
        redis: Client,
        settings: Settings,
        pools: Sequence[str],
        claim_idle_ms: int = CLAIM_IDLE_MS,
    ) -> None:
        self._db = db
        self._quota = Quota(redis, settings)
        self._redis = redis
        self._settings = settings
        self._pools = set(pools)
        self._consumer = f"{settings.node}-{os.getpid()}-{secrets.token_hex(4)}"
        self._claim_idle_ms = claim_idle_ms

    async def run(self, stop: asyncio.Event) -> None:
        """Serve every pool, those that come up meanwhile too, until `stop` is set; a batch under way is
        finished."""
        served = set[str]()
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                for pool in sorted((self._pools | await self._known()) - served):
                    served.add(pool)
                    stream = EndedStream(self._redis, pool, self._consumer, self._claim_idle_ms)
                    group.create_task(self._serve(stream, stop))
                await _wait(stop, LOOK_SECONDS)

    async def _known(self) -> set[str]:
        try:
            return await known_pools(self._redis, self._settings)
        except (RedisError, OSError):
            return set()  # the streams say so

    async def _serve(self, stream: EndedStream, stop: asyncio.Event) -> None:
        """A failure leaves its batch pending: it is claimed again once Redis and SQL answer."""
        while not stop.is_set():
            try:
                await stream.ensure_groups()
                await self._follow(stream, stop)
            except (RedisError, DBAPIError, OSError) as error:
                log.warning("billing interrupted", pool=stream.pool, error=str(error))
                await _wait(stop, RETRY_SECONDS)

    async def _follow(self, stream: EndedStream, stop: asyncio.Event) -> None:
        claims, trims, forgets = _Every(CLAIM_SECONDS), _Every(TRIM_SECONDS), _Every(FORGET_SECONDS)
        while not stop.is_set():
            if claims.due():
                while batch := await stream.claim():
                    await self._handle(stream, batch)
            await self._handle(stream, await stream.read())
            if trims.due():
                await stream.trim()
            if forgets.due():
                await stream.forget_dead_consumers()

    async def _handle(self, stream: EndedStream, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        batch, posted = await post(self._db, stream.pool, [each.data for each in deliveries])
        for event in batch.settlements:
            await self._quota.settle(event)
        await stream.acknowledge(deliveries)
        _report(stream.pool, batch, posted)


async def post(db: Database, pool: str, deliveries: Sequence[bytes]) -> tuple[Batch, list[Assessed]]:
    """Write a batch in one transaction; what it held, and the part that was not posted before."""
    now = now_ms()
    batch = assess(pool, deliveries, now)
    async with db.transaction() as session:
        # In one order, so that two billers with the same events wait for one another, never in a circle.
        rows = sorted((each.row for each in batch.good), key=lambda row: (row.tenant_id, row.request_id))
        inserted: set[Key] = {(row[0], row[1]) for row in await insert_ignore(session, rows, UsageRow)}
        repeated = [each for each in batch.good if each.key not in inserted]
        batch.held += conflicts(pool, repeated, await _posted_sha256(session, repeated), now)
        await insert_ignore(session, batch.held)
        posted = [each for each in batch.good if each.key in inserted]
        if posted:
            await book_usage(session, [(each.row, each.lines) for each in posted], now)
    return batch, posted


async def _posted_sha256(session: AsyncSession, repeated: Sequence[Assessed]) -> dict[Key, str]:
    """The hashes of the events that these requests were posted from."""
    requests: dict[str, list[str]] = {}
    for each in repeated:
        requests.setdefault(each.row.tenant_id, []).append(each.row.request_id)
    found: dict[Key, str] = {}
    for tenant_id, request_ids in requests.items():
        statement = select(UsageRow.request_id, UsageRow.event_sha256).where(
            col(UsageRow.tenant_id) == tenant_id, col(UsageRow.request_id).in_(request_ids)
        )
        for request_id, event_sha256 in (await session.exec(statement)).all():
            found[tenant_id, request_id] = event_sha256
    return found


def _report(pool: str, batch: Batch, posted: Sequence[Assessed]) -> None:
    repeated = len(batch.good) - len(posted)
    instruments.events_posted.add(len(posted))
    instruments.events_repeated.add(repeated)
    for each in posted:
        instruments.posting_lag.record(max(0, each.row.posted_ms - each.row.ended_ms))
    for held in batch.held:
        instruments.events_quarantined.add(1, {"reason": held.reason})
        log.error(
            "usage event quarantined",
            pool=pool,
            reason=held.reason,
            detail=held.detail,
            tenant=held.tenant_id,
            request=held.request_id,
        )
    cost_nano = sum(each.row.cost_nano for each in posted)
    log.info(
        "usage posted",
        pool=pool,
        events=len(posted),
        repeated=repeated,
        quarantined=len(batch.held),
        cost_nano=cost_nano,
    )


class _Every:
    """Due at once, and again `seconds` after it was last found due."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


async def main(settings: Settings, stop: asyncio.Event) -> None:
    """The process `parley biller`. Raises StartupError where the database is not migrated."""
    db, redis = Database(settings.database_endpoint), connect(settings)
    try:
        await require_schema(db)
        pools = [name.strip() for name in settings.pool.split(",") if name.strip()]
        log.info("biller ready", pools=pools)
        await Biller(db, redis, settings, pools).run(stop)
    finally:
        await redis.aclose()
        await db.close()
