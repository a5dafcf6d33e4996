"""R4 after Redis lost data: healed without anybody's asking, and only where a loss is proven."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlmodel import select

from billing.posting.usage_stream import EndedStream
from billing.quota.redis_keys import posted_key
from billing.reconciliation import overdue_comparisons, redis_repair, repair_pauses
from billing.reconciliation.comparison import Check, Comparison, ComparisonState
from billing.reconciliation.redis_repair import SumsOrigin, has_lost_sums, rebuild_lost_sums
from billing.reconciliation.run import Reconciliation, watch
from billing.tables.audit import AuditLog
from billing.tables.reconciliation import ReconMark
from billing.tenants.tenancy import create_tenant
from billing.usage import ENDED_FIELD, encode, ended_stream
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.reconciliation.billed import billed, differing
from tests.support.patience import wait_until
from tests.support.redis import Redis

EQUAL = Comparison(Check.R4, "t1", "cost", "nano", 5, 5)
LESS = replace(EQUAL, actual=3)
NONE = replace(EQUAL, actual=0)


@pytest.mark.parametrize(
    ("compared", "agreed", "name", "lost"),
    [
        ([EQUAL], "a 1", "b 1", False),
        ([LESS], "a 1", "a 1", False),  # nothing explains it: people must see it
        ([LESS], "", "a 1", False),  # nor was it ever seen to agree
        ([LESS], "a 1", "b 1", True),
        ([LESS], "a 1", "a 2", True),
        ([NONE], "", "a 1", True),
        ([NONE, replace(EQUAL, subject="requests")], "", "a 1", False),
        ([replace(NONE, waiting="not drained")], "a 1", "b 1", False),
        ([EQUAL, replace(LESS, subject="month of tenant")], "a 1", "b 1", True),
    ],
)
def test_a_loss_is_told_from_a_fault(
    compared: Sequence[Comparison], agreed: str, name: str, lost: bool
) -> None:
    """By where the sums stand and since when; a difference that nothing explains is left for people."""
    assert has_lost_sums(compared, agreed, SumsOrigin(name, 0), None) is lost


@pytest.mark.parametrize(
    ("compared", "agreed", "began_ms", "booked_ms", "lost"),
    [
        ([LESS], "", 20_001, 15_000, True),
        ([LESS], "", 20_000, 15_000, False),  # so much may clocks differ
        ([LESS], "", 20_001, None, False),
        ([LESS], "", 0, 15_000, False),  # counted by a version that does not say since when
        ([LESS], "a 1", 20_001, 15_000, False),
        ([EQUAL], "", 20_001, 15_000, False),
    ],
)
def test_sums_that_began_after_the_books_lost_what_was_before(
    compared: Sequence[Comparison], agreed: str, began_ms: int, booked_ms: int | None, lost: bool
) -> None:
    """Where they were never seen to agree, as of a tenant that is minutes old, or always busy."""
    assert has_lost_sums(compared, agreed, SumsOrigin("a 1", began_ms), booked_ms) is lost


async def look(database: Database, redis: Redis, settings: Settings) -> list[Comparison]:
    """As a biller does once a minute; what it healed."""
    looking = Reconciliation(database, redis, settings)
    return await rebuild_lost_sums(database, redis, looking, await looking.run({Check.R4}))


async def test_after_a_flush_the_sums_are_counted_anew_by_themselves(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """Of every tenant, without a command; what it did is in the audit log, once."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant=tenant))
    assert await look(database, redis, settings) == []
    await redis.flushall()
    assert {each.state for each in await look(database, redis, settings)} == {ComparisonState.EQUAL}
    assert await redis.hget(posted_key(tenant), "requests") == b"1"
    assert await look(database, redis, settings) == []
    async with database.session() as session:
        rows = [row for row in await session.exec(select(AuditLog)) if "repair" in row.action]
    (row,) = rows
    assert (row.tenant_id, row.target) == (tenant, tenant)
    assert '"requests":0' in (row.before or "").replace(" ", "")
    assert redis_repair.CAUSE in (row.after or "")


async def test_the_billers_minute_look_heals(database: Database, redis: Redis, settings: Settings) -> None:
    """Beside its comparing, which goes on showing what differed."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant=tenant))
    await redis.flushall()
    stop = asyncio.Event()
    watching = asyncio.create_task(watch(database, redis, settings, stop))

    async def healed() -> bool:
        return await redis.hget(posted_key(tenant), "requests") == b"1"

    await wait_until(healed)
    stop.set()
    await watching


async def test_sums_that_began_again_are_counted_anew_too(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """A flush that was seen late: requests have been settled since, so the sums are not empty."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant=tenant))
    await look(database, redis, settings)
    await redis.flushall()
    await billed(database, redis, settings, an_event("r2", tenant=tenant))
    assert {each.state for each in await look(database, redis, settings)} == {ComparisonState.EQUAL}
    assert await redis.hget(posted_key(tenant), "requests") == b"2"


async def test_so_are_those_that_no_look_saw_before(
    database: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant that was used for less than a minute, and goes on after the flush."""
    monkeypatch.setattr(redis_repair, "CLOCKS_DIFFER_MS", -5_000)  # as if that much later
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant=tenant))
    await redis.flushall()
    await billed(database, redis, settings, an_event("r2", tenant=tenant))
    assert {each.state for each in await look(database, redis, settings)} == {ComparisonState.EQUAL}
    assert await redis.hget(posted_key(tenant), "requests") == b"2"


async def test_a_fault_is_not_healed_in_silence(database: Database, redis: Redis, settings: Settings) -> None:
    """Sums that nobody lost and that are wrong all the same stay so: R4 differs until people look."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant=tenant))
    await look(database, redis, settings)
    await redis.hincrby(posted_key(tenant), "cost_nano", 7)
    assert await look(database, redis, settings) == []
    assert differing(await Reconciliation(database, redis, settings).run({Check.R4})) == {"R4"}


async def test_what_is_on_its_way_is_waited_for(
    database: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that nobody has posted would be lost from the sums: healed by the next look, once it is."""
    monkeypatch.setattr(redis_repair, "ROUND_SECONDS_MAX", 0.0)
    monkeypatch.setattr(redis_repair, "TRY_SECONDS", 0.0)
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant=tenant))
    compared = await Reconciliation(database, redis, settings).run({Check.R4})
    await redis.flushall()
    differs = [replace(each, actual=0) for each in compared]
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(an_event("r9", tenant=tenant))})
    looking = Reconciliation(database, redis, settings)
    assert await rebuild_lost_sums(database, redis, looking, differs) == []
    assert await redis.hget(posted_key(tenant), "requests") is None
    stream = EndedStream(redis, "default", "c")
    await stream.ensure_groups()
    await stream.acknowledge(await stream.read())
    assert {each.state for each in await rebuild_lost_sums(database, redis, looking, differs)} == {
        ComparisonState.EQUAL
    }


async def test_a_memory_that_waits_has_not_agreed(sqlite: Database, redis: Redis, settings: Settings) -> None:
    """A look that comes between says nothing of it: the next one still knows which memory did."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    await billed(sqlite, redis, settings, an_event("r1", tenant=tenant))
    await look(sqlite, redis, settings)
    await redis.flushall()
    await billed(sqlite, redis, settings, an_event("r2", tenant=tenant))
    looking = Reconciliation(sqlite, redis, settings)
    waits = [replace(each, waiting="not drained") for each in await looking.run({Check.R4})]
    assert await rebuild_lost_sums(sqlite, redis, looking, waits) == []
    assert {each.state for each in await look(sqlite, redis, settings)} == {ComparisonState.EQUAL}


async def test_sums_that_are_deleted_again_and_again_are_not_healed_for_ever(
    database: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a worker that somebody took over: the pause doubles, and R4 differs meanwhile for people to see."""
    now = redis_repair.now_ms()
    monkeypatch.setattr(redis_repair, "now_ms", lambda: now)
    tenant = (await create_tenant(database, "acme")).tenant_id
    await billed(database, redis, settings, an_event("r1", tenant=tenant))
    healed: list[bool] = []
    for minutes in (0, 1, 1, 1, 2, 1):
        now += minutes * 60_000
        await redis.delete(posted_key(tenant))
        healed.append(bool(await look(database, redis, settings)))
    assert healed == [True, False, True, False, False, True]  # at 0, 2 and 6 minutes
    await redis.delete(posted_key(tenant))
    assert await look(database, redis, settings) == []
    assert differing(await Reconciliation(database, redis, settings).run({Check.R4})) == {"R4"}


def test_a_pause_is_of_one_server_and_ends() -> None:
    """It doubles up to a day; another server, and two days without a loss, begin anew."""
    mark = ReconMark(
        tenant_id="t", chain=repair_pauses.REBUILT, seq=1, sha256="a", sums={}, verified_ms=1_000
    )
    assert repair_pauses.paused_until_ms(None, "a", 1_000) == 0
    assert repair_pauses.paused_until_ms(mark, "a", 2_000) == 1_000 + repair_pauses.FIRST_MS
    assert repair_pauses.paused_until_ms(mark, "b", 2_000) == 0
    assert repair_pauses.paused_until_ms(mark, "a", 1_000 + repair_pauses.FIRST_MS) == 0
    mark.seq = 500
    assert repair_pauses.paused_until_ms(mark, "a", 2_000) == 1_000 + repair_pauses.LONGEST_MS
    assert repair_pauses.rebuild_count(mark, "a", 2_000) == 500
    assert repair_pauses.rebuild_count(mark, "a", 1_001 + repair_pauses.FORGOTTEN_MS) == 0


async def test_what_waits_too_long_is_an_alarm(database: Database) -> None:
    """By look after look, for an hour; what was compared meanwhile begins anew."""
    waits, hour = replace(LESS, waiting="not drained"), overdue_comparisons.WAITS_MAX_MS
    assert await overdue_comparisons.alarm_waiting(database, [waits], 1_000) == []
    assert await overdue_comparisons.alarm_waiting(database, [waits], 1_000 + hour) == []
    assert await overdue_comparisons.alarm_waiting(database, [waits], 1_001 + hour) == ["t1"]
    assert await overdue_comparisons.alarm_waiting(database, [EQUAL], 1_002 + hour) == []
    assert await overdue_comparisons.alarm_waiting(database, [waits], 1_003 + hour) == []
    assert await overdue_comparisons.alarm_waiting(database, [waits], 1_004 + 2 * hour) == ["t1"]
