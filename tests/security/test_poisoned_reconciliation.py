"""What a worker writes where reconciliation reads stops it for nobody, and hides nothing."""

import msgspec
import pytest
from sqlmodel import col, select

from billing.periods import HOUR_MS
from billing.quota.redis_keys import open_key, posted_key
from billing.reconciliation import run
from billing.reconciliation.comparison import Check, Comparison, ComparisonState
from billing.reconciliation.pools import FIELDS_MAX
from billing.reconciliation.redis_repair import rebuild_lost_sums
from billing.reconciliation.run import Reconciliation
from billing.reconciliation.unbilled import (
    HOURS_MAX,
    compare_ended,
    share_of,
    store_ended_hours,
)
from billing.tables.reconciliation import ReconItem
from billing.tenants.tenancy import create_tenant
from billing.usage import EndedCounts, ended_hours, engine_hours
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.reconciliation.billed import billed
from tests.support.redis import Redis

CHECKS = {Check.R4, Check.R8}


async def look(database: Database, redis: Redis, settings: Settings) -> list[Comparison]:
    """As a biller does once a minute; what it found."""
    looking = Reconciliation(database, redis, settings)
    compared = await looking.run(CHECKS)
    await rebuild_lost_sums(database, redis, looking, compared)
    return compared


def differing(compared: list[Comparison], tenant: str) -> set[tuple[str, str]]:
    """A tenant's checks and subjects that differ."""
    found = [each for each in compared if each.tenant_id == tenant and each.state is ComparisonState.DIFFERS]
    return {(each.check, each.subject) for each in found}


@pytest.mark.parametrize("poison", ["kind", "number", "digits", "name", "since", "began", "sum", "member"])
async def test_what_a_worker_writes_of_one_tenant_hides_no_others_fault(
    poison: str, database: Database, redis: Redis, settings: Settings
) -> None:
    """The other's difference is found, and kept in sight, in each look."""
    poisoned = (await create_tenant(database, "a-poisoned")).tenant_id
    other = (await create_tenant(database, "other")).tenant_id
    for tenant in (poisoned, other):
        await billed(database, redis, settings, an_event("r1", tenant=tenant))
    await look(database, redis, settings)
    await redis.hincrby(posted_key(other), "cost_nano", 7)
    key = posted_key(poisoned)
    match poison:
        case "kind":
            await redis.set(key, "x")
        case "number":
            await redis.hset(key, "cost_nano", "x")
        case "digits":
            await redis.hset(key, "cost_nano", "9" * 4_000)
        case "name":
            await redis.hset(key, b"\xff", "1")
        case "since":
            await redis.hset(key, "since", b"\xff\0")
        case "began":
            await redis.hset(key, mapping={"began": "x", "cost_nano": "1"})
        case "sum":
            await redis.hset(key, "cost_nano", str((1 << 63) - 1))
        case _:
            await redis.zadd(open_key(poisoned), {b"\0\xff": 1, b"a\0": 1})
    compared: list[Comparison] = []
    for _ in range(2):
        compared = await look(database, redis, settings)
        assert (Check.R4, "cost") in differing(compared, other)
    assert bool(differing(compared, poisoned)) is (poison not in ("name", "since"))
    async with database.session() as session:
        open_now = select(ReconItem.tenant_id).where(col(ReconItem.resolved_ms).is_(None))
        assert other in (await session.exec(open_now)).all()


async def told(redis: Redis, field: str, requests: int, output: int = 0) -> None:
    """What somebody says that a process ended."""
    await redis.hset(ended_hours("default"), field, msgspec.msgpack.encode(EndedCounts(requests, output)))


async def test_hours_that_nobody_can_have_counted_hide_no_loss(database: Database, redis: Redis) -> None:
    """Neither hours to come, nor so many that what was lost is not among them, nor what no column can add."""
    now = now_ms()
    hour = now - now % HOUR_MS - HOUR_MS
    await told(redis, f"w1:{hour}", 3, 21)
    for number in range(2 * HOURS_MAX):
        await told(redis, f"w2:{hour + (5 + number) * HOUR_MS}", 0)
        await told(redis, f"w3:{hour + 1 + number}", 0)
    await told(redis, f"w4:{hour}", 1, (1 << 53) - 1)
    assert await store_ended_hours(database, redis, "default", now) == 1
    assert {each.difference for each in await compare_ended(database, "default", now, "")} == {-3, -21}
    assert (await share_of(database, "default", now)).unbilled == 21
    assert await redis.hkeys(ended_hours("default")) == [f"w1:{hour}".encode()]


async def test_what_was_ended_becomes_no_less_and_is_looked_at_again(
    database: Database, redis: Redis
) -> None:
    """Whoever writes zero over it; and an hour that was found whole is not whole for ever."""
    now = now_ms()
    hour = now - now % HOUR_MS - 2 * HOUR_MS
    for requests, difference in ((0, 0), (3, -3), (0, -3)):
        await told(redis, f"w1:{hour}", requests)
        await store_ended_hours(database, redis, "default", now)
        found = await compare_ended(database, "default", now, "")
        assert min((each.difference for each in found), default=0) == difference, requests


@pytest.mark.parametrize("key", [ended_hours("default"), engine_hours("default")])
async def test_a_flood_of_writers_is_told(
    key: str, database: Database, redis: Redis, settings: Settings
) -> None:
    """And read by nobody."""
    await redis.hset(key, mapping={str(each): "x" for each in range(FIELDS_MAX + 1)})
    found = await Reconciliation(database, redis, settings).run({Check.R5})
    assert [each.is_uncompared for each in found] == [True]


async def test_what_cannot_be_compared_resolves_nothing(database: Database) -> None:
    """What differed before stays in sight, from when it did."""
    wrong = Comparison(Check.R4, "t1", "cost", "nano", 5, 3)
    await run.store_differences(database, [wrong], CHECKS, None, now_ms() - 9)
    none = Comparison(Check.R4, "t1", run.UNCOMPARED, "faults", 0, 1)
    await run.store_differences(database, [none], CHECKS, None, now_ms())
    async with database.session() as session:
        rows = (await session.exec(select(ReconItem))).all()
    assert {(row.subject, row.resolved_ms) for row in rows} == {("cost", None), (run.UNCOMPARED, None)}
