"""The biller: posts usage from the `ended` streams, each request once.

For each batch: one SQL transaction, then requests are settled under their tenants' keys, then the entries are
acknowledged. Each step is idempotent: a crash between any two is repaired by delivering the batch again.
"""

import asyncio
import os
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing import instruments
from billing.alerts.outbox import OutboxSender
from billing.audit_heads.store_heads import store_heads_forever
from billing.audit_heads.stores import head_stores_of, key_of
from billing.booking.admissions import Admissions, admissions_of
from billing.booking.assess import Assessed, AssessedBatch, Key, assess, conflicts, unstorable
from billing.booking.write import book_usage
from billing.dedicated_pools.meter import PoolMeter
from billing.enforcement.wallet_watch import publish_wallet_changed, watch_wallets
from billing.ledger.transactions import LineKind
from billing.noisy.watch import NoisyWatch
from billing.posting.background_work import run_beside
from billing.posting.erased_users import redact
from billing.posting.month_ends import close_months_forever
from billing.posting.report_schedules import ReportSchedules
from billing.posting.usage_stream import CLAIM_IDLE_MS, Delivery, EndedStream
from billing.quota.client import Quota
from billing.reconciliation import run as reconciliation
from billing.requests.refusal_counter import RefusalCounter
from billing.tables.ledger import UsageLine
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.usage import UsageEvent
from core.clock import now_ms
from core.configuration.settings import Settings
from core.network.comma_list import split_list
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.pools import known_pools
from core.redis.redis_errors import is_refusing_everybody
from core.runtime.failed_rounds import logged_failures, store_errors
from core.runtime.failpoints import Failpoint, hit_failpoint
from core.sql.database import Database, insert_ignore, require_schema
from core.sql.stores import open_stores
from core.tasks import EndingTaskGroup
from core.web.metrics import BILLER_PLACE, serving_metrics

log = logger(__name__)

RETRY_SECONDS = 1.0
CLAIM_SECONDS = 2.0
TRIM_SECONDS = 1.0
FORGET_SECONDS = 600.0
LOOK_SECONDS = 1.0

PostedBatch = tuple[AssessedBatch, list[Assessed]]
Beside = Callable[[AsyncSession, Sequence[Assessed]], Awaitable[None]]


@dataclass
class DrainedStreams:
    """Outcome of the events of streams: numbers of those that are in the books since, by tenant, and that
    were there before; and those that are held."""

    posted: Counter[str] = field(default_factory=Counter[str])
    repeated: int = 0
    held: list[UsageQuarantine] = field(default_factory=list[UsageQuarantine])

    def add(self, batch: AssessedBatch, posted: Sequence[Assessed]) -> None:
        """Count a batch."""
        self.posted.update(each.row.tenant_id for each in posted)
        self.repeated += len(batch.good) - len(posted)
        self.held += batch.held


class Biller:
    """One consumer over the streams of all pools: those in `pools`, and every other pool of the installation.
    Any number of billers may run."""

    def __init__(
        self,
        db: Database,
        redis: RedisClient,
        settings: Settings,
        pools: Sequence[str],
        claim_idle_ms: int = CLAIM_IDLE_MS,
    ) -> None:
        self._db = db
        self._admissions = admissions_of(settings)
        self._quota = Quota(redis, settings, db)
        self._redis = redis
        self._settings = settings
        self._pools = set(pools)
        self._consumer = f"{settings.node}-{os.getpid()}-{secrets.token_hex(4)}"
        self._claim_idle_ms = claim_idle_ms

    async def run(self, stop: asyncio.Event) -> None:
        """Serve every pool, also pools that appear later, until `stop` is set; finishes the batch under
        way."""
        served = set[str]()
        async with EndingTaskGroup() as group:
            while not stop.is_set():
                for pool in sorted((self._pools | await self._known()) - served):
                    served.add(pool)
                    stream = EndedStream(self._redis, pool, self._consumer, self._claim_idle_ms)
                    group.create_task(self._serve(stream, stop))
                await _wait(stop, LOOK_SECONDS)

    async def drain(self) -> DrainedStreams:
        """Post all that the streams hold now, also what other consumers have received, while no other biller
        runs. Raises what keeps it from that."""
        drained = DrainedStreams()
        for pool in sorted(self._pools | await known_pools(self._redis, self._settings)):
            stream = EndedStream(self._redis, pool, self._consumer, claim_idle_ms=0)
            await stream.ensure_groups()
            while batch := await stream.claim() or await stream.read():
                for assessed, posted in await self._handle(stream, batch):
                    drained.add(assessed, posted)
        return drained

    async def _known(self) -> set[str]:
        try:
            return await known_pools(self._redis, self._settings)
        except (redis_errors.RedisError, OSError):
            return set()  # visible in the streams

    async def _serve(self, stream: EndedStream, stop: asyncio.Event) -> None:
        """Serve one pool. A failure leaves its batch pending: it is read again once Redis and SQL answer."""
        while not stop.is_set():
            with logged_failures(log, "biller.run_failed", pool=stream.pool):
                try:
                    await stream.ensure_groups()
                    await self._follow(stream, stop)
                except store_errors() as error:
                    log.warning("biller.run_failed", pool=stream.pool, error=error_summary(error))
            await _wait(stop, RETRY_SECONDS)

    async def _follow(self, stream: EndedStream, stop: asyncio.Event) -> None:
        while not stop.is_set() and (batch := await stream.own_pending()):  # left by a failed batch
            await self._handle(stream, batch)
        claims, trims, forgets = _Interval(CLAIM_SECONDS), _Interval(TRIM_SECONDS), _Interval(FORGET_SECONDS)
        while not stop.is_set():
            if claims.due():
                while not stop.is_set() and (batch := await stream.claim()):
                    await self._handle(stream, batch)
            await self._handle(stream, await stream.read())
            if trims.due():
                await stream.trim()
            if forgets.due():
                await stream.forget_dead_consumers()

    async def _handle(self, stream: EndedStream, deliveries: Sequence[Delivery]) -> list[PostedBatch]:
        if not deliveries:
            return []
        hit_failpoint(Failpoint.BILLER_AFTER_READ)
        events = [each.data for each in deliveries]
        batches = await post_in_parts(self._db, stream.pool, events, self._admissions)
        for batch, posted in batches:
            hit_failpoint(Failpoint.BILLER_AFTER_COMMIT)
            await self._settle(batch)
            for tenant in sorted(batch.revived):
                await publish_wallet_changed(self._db, self._redis, tenant)
            _report(stream.pool, batch, posted)
        hit_failpoint(Failpoint.BILLER_AFTER_SETTLE)
        await stream.acknowledge(deliveries)
        hit_failpoint(Failpoint.BILLER_AFTER_ACKNOWLEDGE)
        return batches

    async def _settle(self, batch: AssessedBatch) -> None:
        """Settle a batch. A slot with broken keys is logged and holds up nobody: reconciliation shows the
        difference."""
        ended = [(event, batch.line_seqs.get((event.tenant, event.request))) for event in batch.settlements]
        for (event, _), outcome in zip(ended, await self._settle_each(ended), strict=True):
            if isinstance(outcome, redis_errors.ResponseError) and is_refusing_everybody(outcome):
                raise outcome
            if isinstance(outcome, Exception):
                log.error(
                    "biller.settle_failed",
                    tenant=event.tenant,
                    request=event.request,
                    error=error_summary(outcome),
                )

    async def _settle_each(self, ended: Sequence[tuple[UsageEvent, int | None]]) -> Sequence[object]:
        """Settle in one round trip; where one request makes that fail, one by one."""
        try:
            return await self._quota.settle_all(ended)
        except store_errors():
            raise
        except Exception as error:  # noqa: BLE001
            return [error] if len(ended) == 1 else [(await self._settle_each([each]))[0] for each in ended]


async def post_in_parts(
    db: Database, pool: str, deliveries: Sequence[bytes], admissions: Admissions | None = None
) -> list[PostedBatch]:
    """Write a batch in one transaction. Where data (not a store's failure) makes that fail, write it in
    halves, down to the event at fault, which is held."""
    try:
        return [await post(db, pool, deliveries, admissions)]
    except Exception as error:
        if isinstance(error, store_errors()) and not (isinstance(error, DBAPIError) and is_data_error(error)):
            raise
        if len(deliveries) == 1:
            now = now_ms()
            batch = AssessedBatch(held=[unstorable(pool, deliveries[0], error_summary(error), now)])
            async with db.transaction() as session:
                await redact(session, (), batch.held)
                await insert_ignore(session, batch.held)
            return [(batch, [])]
    half = len(deliveries) // 2
    first = await post_in_parts(db, pool, deliveries[:half], admissions)
    return first + await post_in_parts(db, pool, deliveries[half:], admissions)


def is_data_error(error: DBAPIError) -> bool:
    """True where the database would refuse the same rows again. Pure."""
    cause = getattr(error.orig, "__cause__", None)
    state = str(getattr(error.orig, "sqlstate", "") or "")
    return (
        isinstance(error, IntegrityError | DataError)
        or state[:2] in ("22", "23")  # data exceptions and integrity constraints, by the SQL standard
        or type(cause).__name__ == "DataError"
    )


async def post(
    db: Database,
    pool: str,
    deliveries: Sequence[bytes],
    admissions: Admissions | None = None,
    beside: Beside | None = None,
) -> PostedBatch:
    """Write a batch in one transaction; return the assessed batch and its events that were not posted before.
    `admissions` None: admissions are not checked. `beside`: looks at those events, and writes last, in the
    same transaction; where it raises, nothing is booked."""
    now = now_ms()
    batch = assess(pool, deliveries, now, admissions)
    async with db.transaction() as session:
        await redact(session, batch.good, batch.held)
        # In one order, so that two billers with the same events cannot deadlock.
        rows = sorted((each.row for each in batch.good), key=lambda row: (row.tenant_id, row.request_id))
        inserted: set[Key] = {(row[0], row[1]) for row in await insert_ignore(session, rows, UsageRow)}
        repeated = [each for each in batch.good if each.key not in inserted]
        late = conflicts(pool, repeated, await _posted_sha256(session, repeated), now)
        await redact(session, (), late)
        batch.held += late
        await insert_ignore(session, sorted(batch.held, key=attrgetter("event_sha256")))
        posted = [each for each in batch.good if each.key in inserted]
        batch.line_seqs = await _line_seqs(session, [each.key for each in repeated])
        if posted:
            booked = await book_usage(session, [(each.row, each.lines) for each in posted], now)
            batch.line_seqs |= booked.line_seqs
            batch.revived |= booked.revived
            if beside is not None:
                await beside(session, posted)
        hit_failpoint(Failpoint.BILLER_BEFORE_COMMIT)
    return batch, posted


async def _line_seqs(session: AsyncSession, keys: Sequence[Key]) -> dict[Key, int]:
    """The last usage line of each of these requests, without corrections."""
    found: dict[Key, int] = {}
    for tenant_id, request_ids in _by_tenant(keys).items():
        statement = (
            select(UsageLine.request_id, func.max(col(UsageLine.seq)))
            .where(col(UsageLine.tenant_id) == tenant_id, col(UsageLine.request_id).in_(request_ids))
            .where(col(UsageLine.kind) == LineKind.USAGE.value)
            .group_by(col(UsageLine.request_id))
        )
        for request_id, seq in (await session.exec(statement)).all():
            found[tenant_id, request_id] = int(seq)
    return found


def _by_tenant(keys: Sequence[Key]) -> dict[str, list[str]]:
    requests: dict[str, list[str]] = {}
    for tenant_id, request_id in keys:
        requests.setdefault(tenant_id, []).append(request_id)
    return requests


async def _posted_sha256(session: AsyncSession, repeated: Sequence[Assessed]) -> dict[Key, str]:
    """Hashes of the events from which these requests were posted."""
    found: dict[Key, str] = {}
    for tenant_id, request_ids in _by_tenant([each.key for each in repeated]).items():
        statement = select(UsageRow.request_id, UsageRow.event_sha256).where(
            col(UsageRow.tenant_id) == tenant_id, col(UsageRow.request_id).in_(request_ids)
        )
        for request_id, event_sha256 in (await session.exec(statement)).all():
            found[tenant_id, request_id] = event_sha256
    return found


def _report(pool: str, batch: AssessedBatch, posted: Sequence[Assessed]) -> None:
    repeated = len(batch.good) - len(posted)
    instruments.events_posted.add(len(posted))
    instruments.events_repeated.add(repeated)
    for each in posted:
        instruments.posting_lag.record(max(0, each.row.posted_ms - each.row.ended_ms))
        if each.mended:
            instruments.events_repaired.add(1)
            log.warning(
                "biller.event_repaired",
                pool=pool,
                tenant=each.row.tenant_id,
                request=each.row.request_id,
                fields=",".join(each.mended),
            )
    for held in batch.held:
        instruments.events_quarantined.add(1, {"reason": held.reason})
        log.error(
            "biller.event_quarantined",
            pool=pool,
            reason=held.reason,
            detail=held.detail,
            tenant=held.tenant_id,
            request=held.request_id,
        )
    cost_nano = sum(each.row.cost_nano for each in posted)
    log.info(
        "biller.posted",
        pool=pool,
        events=len(posted),
        repeated=repeated,
        quarantined=len(batch.held),
        cost_nano=cost_nano,
    )


class _Interval:
    """Timer: due at once, and again `seconds` after it was last found due."""

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
    """Run the process `parley biller`. Raises StartupError where the database is not migrated, or a setting
    is unusable."""
    _ = head_stores_of(settings), key_of(settings)
    async with open_stores(settings) as (db, redis):
        await require_schema(db)
        pools = split_list(settings.pool)
        biller = Biller(db, redis, settings, pools)
        log.info("biller.ready", pools=pools)
        with serving_metrics(settings, BILLER_PLACE, lambda: ""):
            async with EndingTaskGroup() as group:
                for operation, run in {
                    "reconciliation": lambda: reconciliation.watch(db, redis, settings, stop),
                    "noisy": lambda: NoisyWatch(db, redis, settings).run(stop),
                    "reports": lambda: ReportSchedules(db, settings).run(stop),
                    "outbox": lambda: OutboxSender(db, settings).run(stop),
                    "wallets": lambda: watch_wallets(db, redis, stop),
                    "pool_meter": lambda: PoolMeter(db, redis, settings).run(stop),
                    "audit_heads": lambda: store_heads_forever(db, settings, stop),
                    "refusals": lambda: RefusalCounter(db, redis, settings).run(stop),
                    "months": lambda: close_months_forever(db, redis, settings, stop),
                }.items():
                    group.create_task(run_beside(operation, run, stop))
                group.create_task(biller.run(stop))
