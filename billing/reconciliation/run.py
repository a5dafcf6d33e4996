"""Compares the books that must agree, remembers since when they differ, and reports it.

The comparisons are pure (comparison.py) or beside the reads they need (ledger.py, tenant_keys.py, pools.py).
Chaos runs judge by the same functions.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from sqlalchemy import delete
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, select

from billing import instruments
from billing.audit.log import record
from billing.quota.client import Quota
from billing.quota.redis_keys import posted_key
from billing.reconciliation.comparison import UNCOMPARED, BookSums, Check, Comparison, ComparisonState
from billing.reconciliation.last_run import store_last_run
from billing.reconciliation.ledger import (
    BOOK_CHECKS,
    compare_audit,
    compare_derived,
    compare_ledger,
    compare_sums,
)
from billing.reconciliation.overdue_comparisons import alarm_waiting
from billing.reconciliation.pools import (
    compare_engines,
    compare_pool_time,
    metered_pools,
    store_engine_hours,
)
from billing.reconciliation.redis_repair import rebuild_lost_sums
from billing.reconciliation.tenant_keys import (
    EndedStreams,
    compare_budgets,
    compare_holds,
    look_at_streams,
    posted_sums,
    slot_fields,
    slot_sums,
)
from billing.reconciliation.unbilled import compare_ended, store_ended_hours
from billing.reconciliation.unbilled_alarm import alarm_unbilled
from billing.reconciliation.untrue_seeds import reseed_untrue
from billing.tables.reconciliation import EndedHour, EngineHour, ReconItem
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import list_tenants
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import bad_request
from core.names import storable_name
from core.observability.error_facts import error_facts, error_summary, kind
from core.observability.telemetry import logger
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.pools import known_pools
from core.runtime.failed_rounds import is_store_down
from core.sql.database import Database

log = logger(__name__)

EVERY_SECONDS = 60.0
LEASE_MS = 50_000
LOOKS_MAX = 5
LOOK_SECONDS = 0.1
KEPT_MS = 90 * 24 * 3_600_000
OF_A_TENANT = frozenset({*BOOK_CHECKS, Check.R4, Check.R8})
OF_A_POOL = frozenset({Check.R5, Check.R6})
EVERYTHING = frozenset(Check)
SUM_MAX = (1 << 63) - 1


class Reconciliation:
    """All comparisons over one database and one Redis. Writes only its own records. `stores`: copy workers'
    counts into SQL first, which a console may not, and keep the result of all checks."""

    def __init__(self, db: Database, redis: RedisClient, settings: Settings, stores: bool = True) -> None:
        self._stores = stores
        self._db = db
        self._redis = redis
        self._settings = settings
        self._quota = Quota(redis, settings, db)

    async def run(
        self, checks: Collection[Check] = EVERYTHING, tenant_id: str | None = None, whole: bool = False
    ) -> list[Comparison]:
        """Compare one tenant, or all tenants and pools, with the age of each difference.

        `whole`: read the books from their first row, not from the last verified position."""
        tenants = [tenant_id] if tenant_id else [each.tenant_id for each in await list_tenants(self._db)]
        compared: list[Comparison] = []
        if of_tenant := OF_A_TENANT & set(checks):
            for each in tenants:
                compared += await _or_why_not(self._of_tenant(each, checks, whole), each, "", of_tenant)
        if tenant_id is None:
            if Check.R7 in checks:
                compared.append(await compare_audit(self._db, PLATFORM, now_ms(), whole))
            for pool in sorted(await self.pools() | await metered_pools(self._db)):
                of_pool = OF_A_POOL & set(checks)
                compared += await _or_why_not(self._of_pool(pool, checks), PLATFORM, pool, of_pool)
        aged = await store_differences(self._db, compared, checks, tenant_id, now_ms())
        if tenant_id is None and self._stores and set(checks) >= EVERYTHING:
            await store_last_run(self._db, aged, now_ms())
        return aged

    async def repair(self, tenant_id: str, cause: str = "") -> list[Comparison]:
        """Set a tenant's posted sums in Redis to the books' sums, after a loss of data; return R4 then.
        `cause`: for the audit log, where nobody asked for it.

        Raises Refused while any usage is under way, as unbooked usage would be lost, or where the books are
        wrong."""
        await self._set_sums(
            tenant_id, cause, lambda: compare_ledger(self._db, tenant_id, now_ms(), whole=True)
        )
        return await self.run({Check.R4}, tenant_id)

    async def set_sums(self, tenant_id: str, cause: str) -> None:
        """Set a tenant's posted sums in Redis as `repair` does, in a fraction of its time, for callers that
        prove the whole books afterwards: their chain is not read."""
        await self._set_sums(tenant_id, cause, lambda: compare_sums(self._db, tenant_id))

    async def _set_sums(
        self,
        tenant_id: str,
        cause: str,
        compare: Callable[[], Awaitable[tuple[list[Comparison], BookSums]]],
    ) -> None:
        refused = bad_request("usage is on its way into the books: try again in a moment")
        async with self._redis.pipeline(transaction=True) as pipeline:
            await pipeline.watch(posted_key(tenant_id))
            before = await self._streams()
            if before.unread:  # checked first, as the books take long to read
                raise refused
            compared, sums = await compare()
            if any(each.difference for each in compared):
                raise bad_request("the books themselves are wrong: see R1, R2 and R7")
            after = await self._streams()
            if after.unread or after.last_ids != before.last_ids:
                raise refused
            fields = {each.field: each.wanted for each in slot_fields(sums)}
            had = await slot_sums(self._redis, tenant_id)
            pipeline.multi()
            pipeline.hset(posted_key(tenant_id), mapping=fields)
            try:
                await pipeline.execute()
            except redis_errors.WatchError as error:
                raise refused from error
        await self._quota.reseed(tenant_id)
        async with self._db.transaction() as session:
            lacked = {name: had.get(name, 0) for name in fields}
            done = {**fields, "cause": cause or "asked for"}
            await record(session, tenant_id, "reconciliation.repair", tenant_id, lacked, done)

    async def _of_pool(self, pool: str, checks: Collection[Check]) -> list[Comparison]:
        compared: list[Comparison] = []
        if Check.R5 in checks:
            if self._stores:
                await store_engine_hours(self._db, self._redis, pool, now_ms())
                await store_ended_hours(self._db, self._redis, pool, now_ms())
            compared += await compare_engines(self._db, pool, now_ms())
            streams = await look_at_streams(self._redis, [pool])  # read before the books
            waiting = streams.waiting(now_ms())
            compared += await compare_ended(self._db, pool, now_ms(), waiting, self._stores)
        if Check.R6 in checks:
            compared += await compare_pool_time(self._db, pool, now_ms())
        return compared

    async def _of_tenant(self, tenant_id: str, checks: Collection[Check], whole: bool) -> list[Comparison]:
        books = await self._settled_books(tenant_id, whole)
        if Check.R8 in checks:
            streams = await self._streams()
            drained = not streams.unread
            holds = await compare_holds(self._db, self._redis, self._quota, tenant_id, now_ms(), drained)
            books.append(holds)
        return [each for each in books if each.check in checks]

    async def _settled_books(self, tenant_id: str, whole: bool) -> list[Comparison]:
        """Compare the books and the slot, again while they differ and something moves."""
        compared, found = await self._books_and_slot(tenant_id, whole)
        for _ in range(LOOKS_MAX - 1):
            if all(each.state is not ComparisonState.WAITING for each in found):
                break
            await asyncio.sleep(LOOK_SECONDS)
            _, found = await self._books_and_slot(tenant_id, whole=False)
        return [*compared, *found, await compare_audit(self._db, tenant_id, now_ms(), whole)]

    async def _books_and_slot(self, tenant_id: str, whole: bool) -> tuple[list[Comparison], list[Comparison]]:
        """Comparisons within the books, and of the books with Redis; the latter wait while anything is under
        way."""
        now = now_ms()
        before, slot_before = await self._streams(), await slot_sums(self._redis, tenant_id)
        compared, sums = await compare_ledger(self._db, tenant_id, now, whole)
        budgets = await compare_budgets(self._db, self._quota, tenant_id, now)
        compared += await compare_derived(self._db, tenant_id, whole)
        slot, after = await slot_sums(self._redis, tenant_id), await self._streams()
        moved = slot != slot_before or after.last_ids != before.last_ids
        now = now_ms()
        waiting = after.waiting(now) or before.waiting(now) or ("requests end now" if moved else "")
        found = [*posted_sums(tenant_id, sums, slot), *budgets]
        return compared, [replace(each, waiting=waiting if each.difference else "") for each in found]

    async def _streams(self) -> EndedStreams:
        return await look_at_streams(self._redis, await self.pools())

    async def pools(self) -> set[str]:
        """The installation's pools."""
        return {self._settings.pool, *await known_pools(self._redis, self._settings)}


async def _or_why_not(
    comparing: Awaitable[list[Comparison]], tenant_id: str, pool: str, checks: Collection[Check]
) -> list[Comparison]:
    """Return the comparisons. A failure becomes a difference, so that one owner's unreadable data does not
    stop the others. Raises what shows that a store is down."""
    try:
        return await comparing
    except Exception as error:
        if is_store_down(error):
            raise
        log.error(
            "reconciliation.compare_failed", tenant=tenant_id or PLATFORM, pool=pool, **error_facts(error)
        )
        subject = f"{pool} {UNCOMPARED}".strip()
        return [
            Comparison(check, tenant_id, subject, "faults", 0, 1, kind(error)) for check in sorted(checks)
        ]


async def store_differences(
    db: Database, compared: Sequence[Comparison], checks: Collection[Check], tenant_id: str | None, now: int
) -> list[Comparison]:
    """Store differences, resolve those that are gone, and return the comparisons with their ages. Waiting
    ones stay as they were. For all tenants, or for one."""
    async with db.transaction() as session:
        statement = select(ReconItem).where(col(ReconItem.resolved_ms).is_(None))
        statement = statement.where(col(ReconItem.check_id).in_(sorted(checks)))
        if tenant_id is not None:
            statement = statement.where(col(ReconItem.tenant_id) == tenant_id)
        items: dict[tuple[str, str, str], ReconItem] = {}
        for item in await session.exec(statement.order_by(col(ReconItem.first_seen_ms))):
            key = (item.tenant_id, item.check_id, item.subject)
            if key in items:  # stored by two runs at once: keep the older
                item.resolved_ms = now
            items.setdefault(key, item)
        aged: list[Comparison] = []
        for each in compared:
            item = items.pop((each.tenant_id, each.check.value, each.subject), None)
            if each.state is ComparisonState.DIFFERS:
                session.add(item := _seen(item, each, now))
            elif item is not None and each.state is ComparisonState.EQUAL:
                item.resolved_ms = now
            aged.append(each.aged(now - item.first_seen_ms) if item and not item.resolved_ms else each)
        unknown = {(each.tenant_id, each.check.value) for each in compared if each.is_uncompared}
        for item in items.values():  # their subject is gone
            if (item.tenant_id, item.check_id) not in unknown:
                item.resolved_ms = now
    return aged


async def forget_old(db: Database, now: int) -> None:
    """Delete differences resolved, and hours counted, longer than KEPT_MS ago."""
    async with db.transaction() as session:
        connection = await session.connection()
        await connection.execute(delete(ReconItem).where(col(ReconItem.resolved_ms) < now - KEPT_MS))
        for hours in (EngineHour, EndedHour):
            await connection.execute(delete(hours).where(col(hours.hour_ms) < now - KEPT_MS))


def _seen(item: ReconItem | None, compared: Comparison, now: int) -> ReconItem:
    item = item or ReconItem(
        tenant_id=compared.tenant_id,
        check_id=compared.check.value,
        subject=compared.subject,
        first_seen_ms=now,
        last_seen_ms=now,
        expected=0,
        actual=0,
        difference=0,
    )
    item.last_seen_ms, item.detail = (
        now,
        storable_name(compared.detail),
    )  # a worker may have written text and numbers
    item.expected, item.actual = _storable(compared.expected), _storable(compared.actual)
    item.difference = _storable(compared.difference)
    return item


def _storable(number: int) -> int:
    return max(-SUM_MAX, min(SUM_MAX, number))


async def watch(db: Database, redis: RedisClient, settings: Settings, stop: asyncio.Event) -> None:
    """Compare once a minute until `stop`, in one process of the installation at a time, and show the result
    as metrics."""
    reconciliation = Reconciliation(db, redis, settings)
    name = secrets.token_hex(8)
    while not stop.is_set():
        try:
            if await redis.set(f"{settings.installation}:reconciling", name, nx=True, px=LEASE_MS):
                compared = await reconciliation.run()
                report(compared)
                await alarm_unbilled(db, await reconciliation.pools(), settings.unbilled_share_max, now_ms())
                await alarm_waiting(db, compared, now_ms())
                await forget_old(db, now_ms())
                await rebuild_lost_sums(db, redis, reconciliation, compared)
                await reseed_untrue(db, Quota(redis, settings, db), compared)
        except (redis_errors.RedisError, SQLAlchemyError, OSError) as error:
            log.warning("reconciliation.run_failed", error=error_summary(error))
        try:
            async with asyncio.timeout(EVERY_SECONDS):
                await stop.wait()
        except TimeoutError:
            pass


def report(compared: Sequence[Comparison]) -> None:
    """Show metrics by check, and log each difference."""
    differing = {check.value: 0 for check in Check}
    differences = dict(differing)
    for each in compared:
        if each.state is ComparisonState.DIFFERS:
            differing[each.check.value] += 1
            differences[each.check.value] += abs(each.difference)
    instruments.show_differences(differing, differences)
    for each in compared:
        if each.state is ComparisonState.DIFFERS:
            log.error(
                "reconciliation.difference_detected",
                check=each.check.value,
                tenant=each.tenant_id or PLATFORM,
                subject=each.subject,
                expected=each.expected,
                actual=each.actual,
                age_ms=each.age_ms,
            )
