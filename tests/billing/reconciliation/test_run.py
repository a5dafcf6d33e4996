"""Reconciliation: books that agree are said to agree, and each planted fault is found by its check."""

import msgspec
import pytest
from sqlmodel import col, select

from billing.audit.log import record
from billing.limits import MoneyLimit, RequestLimits, Scope
from billing.periods import Period, window_at, zone_named
from billing.posting.biller import post
from billing.posting.usage_stream import EndedStream
from billing.quota.client import Quota
from billing.quota.redis_keys import posted_key
from billing.reconciliation import run as reconciliation
from billing.reconciliation.comparison import (
    BookSums,
    Check,
    Comparison,
    ComparisonState,
    lines_and_revenue,
    receivable,
)
from billing.reconciliation.pools import HOUR_MS, store_engine_hours
from billing.reconciliation.run import Reconciliation, store_differences
from billing.reconciliation.tenant_keys import EndedStreams
from billing.tables.audit import AuditLog
from billing.tables.reconciliation import ReconItem
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import create_tenant
from billing.usage import ENDED_FIELD, EngineCounts, encode, ended_stream, engine_hours
from chaos.tampering.unguarded import tamper
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.reconciliation.billed import admitted, billed, differing
from tests.support.redis import Redis

NOW = 1_000_000


async def found(
    database: Database, redis: Redis, settings: Settings, whole: bool = False
) -> list[Comparison]:
    """All comparisons of tenant t1."""
    return await Reconciliation(database, redis, settings).run(tenant_id="t1", whole=whole)


async def test_books_that_agree_are_said_to_agree(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """Every check of a tenant is there and equal, at once and when only what is new is read."""
    await billed(database, redis, settings, an_event("r1"), an_event("r2", output_text=0, reason="error"))
    first = await found(database, redis, settings)
    assert {each.state for each in first} == {ComparisonState.EQUAL}
    assert {each.check for each in first} >= {Check.R1, Check.R2, Check.R4, Check.R7, Check.R8}
    await billed(database, redis, settings, an_event("r3"))
    again = await found(database, redis, settings)
    assert {each.state for each in again} == {ComparisonState.EQUAL}
    totals = {each.subject: each.actual for each in again if each.check is Check.R4}
    assert totals["requests"] == 3
    whole = await found(database, redis, settings, whole=True)
    subjects = [(each.subject, each.expected) for each in whole if each.subject != "rollups"]
    assert subjects == [(each.subject, each.expected) for each in again]
    assert len(whole) == len(again) + 1


@pytest.mark.parametrize(
    ("statement", "checks"),
    [
        (
            "UPDATE usage_line SET amount_nano = amount_nano + 1 WHERE meter = 'output'",
            {"R1", "R2", "R4", "R7"},
        ),
        (
            "UPDATE ledger_entry SET amount_nano = amount_nano - 1 WHERE account = 'revenue:input'",
            {"R1", "R7"},
        ),
        ("UPDATE ledger_entry SET amount_nano = amount_nano + 1 WHERE account = 'receivable'", {"R2", "R7"}),
        ("UPDATE usage_line SET quantity = quantity + 1 WHERE meter = 'output'", {"R4", "R7"}),
        ("UPDATE ledger_txn SET posted_ms = posted_ms + 1", {"R7"}),
        ("DELETE FROM usage_line WHERE number = 0", {"R4", "R7"}),
    ],
)
async def test_a_change_in_the_books_is_found(
    statement: str, checks: set[str], database: Database, redis: Redis, settings: Settings
) -> None:
    """Each change by hand is found by the checks that it breaks, and by no other."""
    await billed(database, redis, settings, an_event("r1"))
    await tamper(database, statement)
    assert differing(await found(database, redis, settings)) == checks


async def test_a_change_behind_the_mark_is_found_by_the_whole_reading(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """The minute's look reads what is new; the whole one reads everything."""
    await billed(database, redis, settings, an_event("r1"))
    assert not differing(await found(database, redis, settings))
    await tamper(database, "UPDATE usage_line SET ended_ms = ended_ms + 1")
    assert not differing(await found(database, redis, settings))
    assert differing(await found(database, redis, settings, whole=True)) == {"R7"}
    await Quota(redis, settings).settle(an_event("r2"))  # and while something is under way
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(an_event("r2"))})
    assert differing(await found(database, redis, settings, whole=True)) == {"R7"}


async def test_books_whose_end_was_cut_off_are_found(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """Who deletes the last transaction and moves the head back meets the hash that was kept."""
    await billed(database, redis, settings, an_event("r1"))
    await billed(database, redis, settings, an_event("r2"))
    assert not differing(await found(database, redis, settings))
    await tamper(
        database,
        "DELETE FROM ledger_entry WHERE txn_seq = 2",
        "DELETE FROM usage_line WHERE seq > (SELECT last_line_seq FROM ledger_txn WHERE seq = 1)",
        "UPDATE ledger_head SET txn_seq = 1, sha256 = (SELECT sha256 FROM ledger_txn WHERE seq = 1),"
        " line_seq = (SELECT last_line_seq FROM ledger_txn WHERE seq = 1)",
        "DELETE FROM ledger_txn WHERE seq = 2",
    )
    assert "R7" in differing(await found(database, redis, settings))


async def test_a_slot_that_counted_otherwise_is_found_and_resolved(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """R4 says by how much, and since when; once it is mended it is no difference any more."""
    await billed(database, redis, settings, an_event("r1"))
    await redis.hincrby(posted_key("t1"), "cost_nano", 7)
    (cost,) = [
        each for each in await found(database, redis, settings) if each.state is ComparisonState.DIFFERS
    ]
    assert (cost.check, cost.subject, cost.difference) == (Check.R4, "cost", 7)
    await redis.hincrby(posted_key("t1"), "cost_nano", -7)
    assert not differing(await found(database, redis, settings))


async def test_what_is_unread_is_no_false_alarm(database: Database, redis: Redis, settings: Settings) -> None:
    """A worker settles before the biller posts: until the stream is drained R4 waits."""
    await billed(database, redis, settings, an_event("r1"))
    event = an_event("r2")
    await admitted(redis, settings, "r2")
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(event)})
    await Quota(redis, settings).settle(event)
    waiting = [
        each for each in await found(database, redis, settings) if each.state is not ComparisonState.EQUAL
    ]
    assert {each.state for each in waiting} == {ComparisonState.WAITING}
    assert "not drained: 1 unread" in waiting[0].waiting
    stream = EndedStream(redis, "default", "c")
    await stream.ensure_groups()
    deliveries = await stream.read()
    await post(database, "default", [each.data for each in deliveries])
    await stream.acknowledge(deliveries)
    assert {each.state for each in await found(database, redis, settings)} == {ComparisonState.EQUAL}


def test_streams_say_how_much_they_hold_and_since_when() -> None:
    """In seconds; nothing where they are drained."""
    assert EndedStreams(("1-0",)).waiting(9_000) == ""
    assert EndedStreams(("1-0",), 3, 2_000).waiting(9_000) == "not drained: 3 unread, the oldest for 7 s"


@pytest.mark.parametrize("how", ["lease over", "billed", "never queued", "live"])
async def test_holds_that_nobody_will_close_are_found(
    how: str, database: Database, redis: Redis, settings: Settings
) -> None:
    """Past its deadline and grace, billed already, or never in a queue; one that runs is none."""
    changes: dict[str, dict[str, object]] = {"lease over": {"deadline_ms": 5_000}}
    if how == "never queued":
        changes[how] = {"now_ms": 1_000}
    await admitted(redis, settings, "r1", **changes.get(how, {}))
    if how == "live":
        await redis.hset("{p:default}req:t1:r1", "status", "run")
    if how == "billed":
        await post(database, "default", [encode(an_event("r1"))])
    compared = await Reconciliation(database, redis, settings).run({Check.R8}, "t1")
    (holds,) = compared
    assert holds.actual == (0 if how == "live" else 1)


async def test_a_difference_is_remembered_from_when_it_was_first_seen(database: Database) -> None:
    """Its age grows while it lasts; what waits leaves it open; a new one later begins at nought."""
    wrong = Comparison(Check.R4, "t1", "cost", "nano", 5, 7)
    checks = {Check.R4}
    assert (await store_differences(database, [wrong], checks, "t1", NOW))[0].age_ms == 0
    assert (await store_differences(database, [wrong], checks, "t1", NOW + 500))[0].age_ms == 500
    waits = Comparison(Check.R4, "t1", "cost", "nano", 5, 7, waiting="not drained")
    assert (await store_differences(database, [waits], checks, "t1", NOW + 600))[0].age_ms == 600
    equal = Comparison(Check.R4, "t1", "cost", "nano", 7, 7)
    assert (await store_differences(database, [equal], checks, "t1", NOW + 700))[0].age_ms == 0
    assert (await store_differences(database, [wrong], checks, "t1", NOW + 800))[0].age_ms == 0


async def test_two_who_saw_it_first_count_as_the_older(database: Database) -> None:
    """A biller and a command may look at the same moment; what was resolved long ago is forgotten."""
    wrong = Comparison(Check.R4, "t1", "cost", "nano", 5, 7)
    async with database.transaction() as session:
        for first in (NOW - 10, NOW):
            session.add(reconciliation._seen(None, wrong, first))  # pyright: ignore[reportPrivateUsage]
    assert (await store_differences(database, [wrong], {Check.R4}, "t1", NOW + 5))[0].age_ms == 15
    async with database.session() as session:
        items = (await session.exec(select(ReconItem).order_by(col(ReconItem.first_seen_ms)))).all()
    assert [each.resolved_ms for each in items] == [None, NOW + 5]
    await reconciliation.forget_old(database, NOW + 6 + reconciliation.KEPT_MS)
    async with database.session() as session:
        assert len((await session.exec(select(ReconItem))).all()) == 1


def test_revenue_is_compared_by_meter() -> None:
    """A true-up and an adjustment count with their meter; an account without lines is a difference."""
    sums = BookSums(
        amounts={"usage:input": 100, "adjust:input": -10, "true_up:output": 5},
        accounts={"usage:revenue:input": -100, "adjust:revenue:input": 10, "usage:revenue:reasoning": -3},
    )
    assert [(each.subject, each.difference) for each in lines_and_revenue("t1", sums)] == [
        ("input", 0),
        ("output", -5),
        ("reasoning", 3),
    ]


def test_what_a_wallet_paid_is_not_owed() -> None:
    """Charged 100: 60 from the wallet, 40 owed. Grants made elsewhere do not count."""
    accounts = {"usage:receivable": 40, "usage:wallet:paid:g1": 60, "usage:revenue:input": -100}
    sums = BookSums(amounts={"usage:input": 100}, accounts={**accounts, "grant:wallet:paid:g1": -500})
    assert receivable("t1", sums).difference == 0


def test_what_was_paid_beforehand_is_owed_from_the_start() -> None:
    """A commitment of 90 paid at its start; 30 of it are earned since."""
    accounts = {"commitment:receivable": 90, "commitment:deferred": -90, "pool:deferred": 30}
    sums = BookSums(amounts={"true_up:reserved_gpu_second": 30}, accounts=accounts)
    assert receivable("t1", sums).difference == 0
    assert receivable("t1", sums.plus(BookSums(accounts={"pool:receivable": 1}))).difference == 1


COUNTS = EngineCounts(
    engine_prompt=30,
    prompt_new=20,
    prompt_test=10,
    engine_output=12,
    output_taken=7,
    output_dropped=1,
    output_test=4,
)


async def test_engines_counts_are_stored_and_compared(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """R5: absolute by worker and hour: told twice they change nothing; the unbilled part is said."""
    hour = now_ms() // HOUR_MS * HOUR_MS
    earlier = msgspec.structs.replace(COUNTS, engine_output=8, output_taken=3)
    compared: list[Comparison] = []
    for counts in (earlier, COUNTS, COUNTS):
        await redis.hset(engine_hours("default"), f"w:1:{hour}", msgspec.msgpack.encode(counts))
        compared = await Reconciliation(database, redis, settings).run({Check.R5})
    output, prompt = compared
    assert (output.state, output.expected, output.detail) == (ComparisonState.EQUAL, 12, "unbilled 41.7 %")
    assert (prompt.state, prompt.expected) == (ComparisonState.EQUAL, 30)
    wrong = msgspec.structs.replace(COUNTS, engine_output=15)
    await redis.hset(engine_hours("default"), f"w:1:{hour}", msgspec.msgpack.encode(wrong))
    compared = await Reconciliation(database, redis, settings).run({Check.R5})
    assert differing(compared) == {"R5"}
    assert compared[0].difference == -3
    unread = msgspec.structs.replace(wrong, output_unseen_max=64)
    await redis.hset(engine_hours("default"), f"w:1:{hour}", msgspec.msgpack.encode(unread))
    assert not differing(await Reconciliation(database, redis, settings).run({Check.R5}))


async def test_old_counts_leave_redis_once_they_are_stored(database: Database, redis: Redis) -> None:
    """An hour that nobody writes any more is in SQL only; what is no count is left alone."""
    old, now = 10 * HOUR_MS, 13 * HOUR_MS
    await redis.hset(engine_hours("p"), f"w:{old}", msgspec.msgpack.encode(COUNTS))
    await redis.hset(engine_hours("p"), f"w:{now}", msgspec.msgpack.encode(COUNTS))
    await redis.hset(engine_hours("p"), "rubbish", b"x")
    assert await store_engine_hours(database, redis, "p", now) == 2
    assert sorted(await redis.hkeys(engine_hours("p"))) == [b"rubbish", f"w:{now}".encode()]


async def test_a_redis_that_lost_data_is_brought_in_line_with_the_books(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """A counter that starts again at nothing. R4 says so until an operator has it counted
    anew, which is refused while usage is on its way, and recorded."""
    await billed(database, redis, settings, an_event("r1"), an_event("r2"))
    await redis.flushall()
    assert differing(await found(database, redis, settings)) == {"R4"}
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(an_event("r3"))})
    looking = Reconciliation(database, redis, settings)
    with pytest.raises(Refused, match="on its way"):
        await looking.repair("t1")
    await redis.delete(ended_stream("default"))
    assert {each.state for each in await looking.repair("t1")} == {ComparisonState.EQUAL}
    assert not differing(await found(database, redis, settings))
    async with database.session() as session:
        (row,) = (await session.exec(select(AuditLog).where(col(AuditLog.source) != "migration"))).all()
    assert row.action == "reconciliation.repair"


async def test_a_budget_that_redis_counts_otherwise_is_found(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """R4 compares every budget's window, not only the tenant's sums; a correction is in it after a reseed."""
    month = window_at(Period.MONTH, zone_named("UTC"), now_ms())
    limit = MoneyLimit(Scope.TENANT, "", "month", month, 10**12, hard=True)
    quota = Quota(redis, settings, database)
    accepted = msgspec.structs.replace(an_event("r1"), accepted_ms=now_ms())
    await admitted(redis, settings, "r1", db=database, limits=RequestLimits(money=(limit,)))
    (seq,) = (await post(database, "default", [encode(accepted)]))[0].line_seqs.values()
    await quota.settle(accepted, seq)
    compared = await found(database, redis, settings)
    (budget,) = [each for each in compared if each.subject.startswith("month of tenant")]
    assert (budget.state, budget.actual) == (ComparisonState.EQUAL, accepted.cost_nano)
    (key,) = [key async for key in redis.scan_iter(match="{t:t1}m*:tenant:*")]
    await redis.hincrby(key, "posted", 5)
    compared = await found(database, redis, settings)
    assert [each.difference for each in compared if each.state is ComparisonState.DIFFERS] == [5]


async def test_a_change_in_the_record_of_administrators_is_found(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """R7 proves that chain too, a tenant's and the platform's."""
    for tenant_id in ("t1", PLATFORM):
        async with database.transaction() as session:
            await record(session, tenant_id, "test.change", "x", None, {"a": 1})
    looking = Reconciliation(database, redis, settings)
    await create_tenant(database, "acme")
    assert not differing(await looking.run({Check.R7}))
    await tamper(database, "UPDATE audit_log SET author = 'nobody'")
    wrong = await looking.run({Check.R7}, whole=True)
    assert differing(wrong) == {"R7"}
    assert PLATFORM in {each.tenant_id for each in wrong if each.state is ComparisonState.DIFFERS}
