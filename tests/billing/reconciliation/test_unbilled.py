"""What ended and is not billed shows: in R5, as a share with an alarm, and in a list."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import update
from sqlmodel import select

from billing.alerts.messages import mail_text
from billing.alerts.targets import add_target
from billing.booking.admissions import Admissions
from billing.cli.unbilled import waiting
from billing.cli.usage import usage_command
from billing.periods import HOUR_MS
from billing.posting.biller import post
from billing.posting.usage_stream import EndedStream
from billing.reconciliation.comparison import Check, Comparison, ComparisonState
from billing.reconciliation.run import Reconciliation
from billing.reconciliation.unbilled import (
    LATE_MS,
    EndedPoolHour,
    UnbilledShare,
    compare_ended,
    pool_hours,
    share_of,
    store_ended_hours,
)
from billing.reconciliation.unbilled_alarm import alarm_unbilled, over_share
from billing.tables.reconciliation import EndedHour
from billing.tables.tenants import PLATFORM, UsageQuarantine
from billing.tables.wallets import Outbox
from billing.usage import ENDED_FIELD, EndedCounts, UsageEvent, encode, ended_hours, ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.support.redis import Redis

NOW = now_ms()
HOUR = NOW - NOW % HOUR_MS


async def counted(redis: Redis, *events: UsageEvent, writer: str = "w1") -> None:
    """As a worker tells of what it ended."""
    counts = EndedCounts(len(events), sum(e.output_text for e in events), sum(e.cost_nano for e in events))
    await redis.hset(ended_hours("default"), f"{writer}:{HOUR}", msgspec.msgpack.encode(counts))


def ended(request: str, **changes: Any) -> UsageEvent:
    """An answer that ended in this hour."""
    return an_event(request, accepted_ms=HOUR, ended_ms=HOUR, **changes)


async def r5(database: Database, redis: Redis, settings: Settings) -> list[Comparison]:
    """What was ended against what was billed."""
    return await Reconciliation(database, redis, settings).run({Check.R5})


async def test_ends_that_nobody_billed_are_a_difference(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """By pool and hour, whoever wrote them; it is gone once they are billed."""
    events = [ended(f"r{n}") for n in range(3)]
    await counted(redis, *events[:2])
    await counted(redis, events[2], writer="w2")
    await post(database, "default", [encode(each) for each in events[:2]])
    requests, tokens = await r5(database, redis, settings)
    assert (requests.expected, requests.difference, requests.state) == (3, -1, ComparisonState.DIFFERS)
    assert (tokens.expected, tokens.difference, tokens.unit) == (21, -7, "tokens")
    await redis.flushall()
    assert [each.difference for each in await r5(database, redis, settings)] == [-1, -7]
    await post(database, "default", [encode(events[2])])
    assert {each.state for each in await r5(database, redis, settings)} == {ComparisonState.EQUAL}


async def test_what_is_on_its_way_is_no_difference_yet(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """An event that the biller has not read may be the one that is missing."""
    await counted(redis, ended("r1"))
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(ended("r1"))})
    assert {each.state for each in await r5(database, redis, settings)} == {ComparisonState.WAITING}


async def test_what_is_held_is_not_lost_but_unbilled(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """R5 agrees, and says how many; the share counts it until somebody decides."""
    good, bad = ended("r1"), msgspec.structs.replace(ended("r2"), seal=b"")
    await counted(redis, good, bad)
    admissions = Admissions(settings.admission_keys)
    batch, _ = await post(database, "default", [encode(good), encode(bad)], admissions)
    assert len(batch.held) == 1
    compared = await r5(database, redis, settings)
    assert {(each.state, each.detail) for each in compared} == {(ComparisonState.EQUAL, "1 held")}
    share = await share_of(database, "default", NOW)
    assert (share.output, share.unbilled, share.requests) == (14, 7, 1)


async def test_an_hour_that_is_over_and_whole_is_not_looked_at_again(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """One in which something is missing stays in sight."""
    await counted(redis, ended("r1"))
    await store_ended_hours(database, redis, "default", NOW)
    late = HOUR + HOUR_MS + LATE_MS + 1
    assert [each.difference for each in await compare_ended(database, "default", late, "")] == [-1, -7]
    await post(database, "default", [encode(ended("r1"))])
    assert len(await compare_ended(database, "default", NOW, "")) == 2
    assert len(await compare_ended(database, "default", late - 1, "")) == 2, "what is late may come yet"
    assert len(await compare_ended(database, "default", late, "", keeps=False)) == 2
    assert len(await compare_ended(database, "default", late, "")) == 2
    assert await compare_ended(database, "default", late, "") == []
    async with database.session() as session:
        (row,) = (await session.exec(select(EndedHour))).all()
    assert row.agreed_ms == late


async def test_counts_that_are_none_are_left_alone(database: Database, redis: Redis) -> None:
    """Whatever a worker writes there raises nothing and makes no row."""
    for field, value in (
        ("x", b"y"),
        ("w:1", b"\xff"),
        (f"w:{1 << 60}", msgspec.msgpack.encode(EndedCounts())),
    ):
        await redis.hset(ended_hours("default"), field, value)
    await redis.hset(ended_hours("default"), f"w:{HOUR}", msgspec.msgpack.encode(EndedCounts(-1)))
    assert await store_ended_hours(database, redis, "default", NOW) == 0


async def test_an_hour_has_its_milliseconds_and_no_others(sqlite: Database, redis: Redis) -> None:
    """What is billed or held of it ended in it. It leaves Redis after two hours, a share after a day, and
    sight after a week."""
    value = msgspec.msgpack.encode(EndedCounts(5, 35))
    await redis.hset(ended_hours("default"), f"w:{HOUR}", value)
    for at_ms, left in ((HOUR + 2 * HOUR_MS, 1), (HOUR + 2 * HOUR_MS + 1, 0)):
        await store_ended_hours(sqlite, redis, "default", at_ms)
        assert await redis.hlen(ended_hours("default")) == left
    ends = (HOUR - 1, HOUR, HOUR + HOUR_MS - 1, HOUR + HOUR_MS)
    events = [an_event(f"r{at}", accepted_ms=HOUR - 9, ended_ms=at) for at in ends]
    wrong = [msgspec.structs.replace(each, request=f"h{each.request}", cost_nano=1) for each in events]
    await post(sqlite, "default", [encode(each) for each in events + wrong])
    for held, lost in (
        ({}, (2, 14, 1)),
        ({"created_ms": HOUR}, (2, 14, 1)),
        ({"created_ms": HOUR - 1}, (0, 0, 3)),
        ({"created_ms": HOUR, "resolved_ms": 1, "resolution": "dismissed: x"}, (2, 14, 1)),
        ({"resolution": "accepted (billed): x"}, (0, 0, 3)),
        ({"reason": "conflicting"}, (2, 14, 1)),
        ({"resolved_ms": None}, (2, 14, 1)),
    ):
        if held:
            async with sqlite.transaction() as session:
                await session.exec(update(UsageQuarantine).values(**held))
        (found,) = await pool_hours(sqlite, "default", NOW)
        assert (found.billed_requests, found.billed_output) == (2, 14)
        assert (found.held_requests, found.held_output, found.lost_requests) == lost, held
    day_ms = 24 * HOUR_MS
    assert await share_of(sqlite, "default", HOUR + day_ms) == UnbilledShare("default", 35, 4 * 7 + 7, 5)
    assert await share_of(sqlite, "default", HOUR + day_ms + 1) == UnbilledShare("default", 0, 0, 0)
    for late_ms, seen in ((0, 1), (1, 0)):
        assert len(await pool_hours(sqlite, "default", HOUR + 7 * day_ms + late_ms)) == seen


def test_billed_beyond_what_was_counted_is_no_loss():
    """Ends of commands are counted by nobody; and a share is of something, or whole."""
    hour = EndedPoolHour("p", HOUR, 2, 10, billed_requests=3, billed_output=10)
    assert (hour.lost_requests, hour.lost_output) == (0, 0)
    assert {each.state for each in hour.compared()} == {ComparisonState.EQUAL}
    assert UnbilledShare("p", 0, 0).part == 0
    assert UnbilledShare("p", 0, 5).part == UnbilledShare("p", 5, 9).part == 1
    shares = [UnbilledShare("p", 1_000, 1), UnbilledShare("q", 1_000, 2)]
    assert over_share(shares, 0.001) == shares[1:]


async def test_too_much_unbilled_is_told_once_a_day(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """To the operators' targets, with what and where; below the threshold nobody hears of it."""
    await add_target(database, PLATFORM, "email", "ops@example.com")
    await counted(redis, ended("r1"), ended("r2"))
    await store_ended_hours(database, redis, "default", NOW)
    await post(database, "default", [encode(ended("r1"))])
    assert await alarm_unbilled(database, ["default"], 0.5, NOW) == []
    for _ in range(2):
        (share,) = await alarm_unbilled(database, ["default"], 0.4, NOW)
        assert share == replace(share, output=14, unbilled=7, requests=1)
    async with database.session() as session:
        (row,) = (await session.exec(select(Outbox))).all()
    assert row.payload["type"] == "usage.unbilled"
    assert "7 of 14 output tokens" in mail_text(row.payload)[0]


async def test_what_no_biller_reads_is_listed(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has waited for a minute; what is acknowledged is not."""
    events = [ended(f"r{n}") for n in range(3)]
    assert await waiting(redis, "default", NOW) == []
    ids = [await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(each)}) for each in events]
    later = now_ms() + 61_000
    assert await waiting(redis, "default", now_ms()) == []
    assert await waiting(redis, "default", later) == events
    stream = EndedStream(redis, "default", "b")
    await stream.ensure_groups()
    read = await stream.read()
    await stream.acknowledge(read[:1])
    assert await waiting(redis, "default", later) == events[1:]
    asks = redis.xpending

    async def late(*asked: Any) -> Any:
        await stream.acknowledge(read[1:])
        return await asks(*asked)

    monkeypatch.setattr(redis, "xpending", late)  # acknowledged between the two questions
    assert await waiting(redis, "default", later) == []
    assert len(ids) == 3


def test_the_list_says_where_each_is(home: Path, redis_url: str, sqlite_template: Path) -> None:
    """Held, waiting and lost, for people and for scripts; of one pool where it is named."""
    shutil.copy(sqlite_template, home / "parley.db")

    async def prepare() -> None:
        database, redis = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}"), Redis.from_url(redis_url)
        await redis.flushall()
        bad = msgspec.structs.replace(ended("r1"), seal=b"")
        await post(database, "default", [encode(bad)], Admissions([b"k" * 32]))
        await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(ended("r2"))}, id=f"{NOW - 90_000}-0")
        await counted(redis, *(ended(f"r{n}") for n in range(1, 4)))
        await store_ended_hours(database, redis, "default", NOW)
        await redis.aclose()
        await database.close()

    asyncio.run(prepare())
    environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}

    def typed(*arguments: str) -> Result:
        result = CliRunner().invoke(usage_command, ["unbilled", *arguments], env=environment)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    rows = [json.loads(line) for line in typed("--json").stdout.splitlines()]
    assert [(row["state"], row["request"], row["why"], row["requests"]) for row in rows] == [
        ("held", "r1", "unadmitted", 1),
        ("waiting", "r2", "", 1),
        ("lost", "", "in the hour from then on", 2),
    ]
    assert [row.get("cost_nano") for row in rows] == [ended("r1").cost_nano, ended("r2").cost_nano, 0]
    shown = typed()
    assert "unadmitted" in shown.stdout
    assert "100.000 % (21 of 21 output tokens)" in shown.stderr
    assert "everything that ended is billed" in typed("--pool", "other").output
