"""Ends that went down with Redis before a biller read them are billed all the same, and once."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from billing.booking.assess import Quarantined
from billing.posting.biller import post
from billing.posting.usage_stream import EndedStream
from billing.quota.client import Quota
from billing.reconciliation.comparison import Check
from billing.reconciliation.run import Reconciliation
from billing.usage import EndedCounts, decode, encode, ended_stream
from chaos.injected.scripted import ScriptedEngine
from core.access.processes import GATEWAY, SUPERVISOR, WORKER, ProcessKind
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.scripts import load_scripts
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import Append, ClaimOffer, EndReason, Entry, EntryKind
from engine.journal import end_counts
from engine.journal.files import FOLDER, JournalSegments, taken
from engine.journal.journal import Journal
from engine.journal.keeper import JournalKeeper
from engine.lifecycle.finish import end_unclaimed
from engine.queue.client import PoolQueue
from engine.queue.journaled_ends import HEAD, MAGIC, MARK, JournaledEnd, frame
from tests.billing.events import an_event as sealed_event
from tests.billing.posting.billers import a_biller, held, rows, until_acknowledged, until_posted
from tests.engine.builders import FINGERPRINT, TENANT
from tests.engine.journal.journaled import POOL, admitted, ends_in, files, streamed
from tests.engine.journals import a_journal, journals_are_closed
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis
from tests.support.users import client_of

__all__ = ["journals_are_closed"]


@asynccontextmanager
async def running(journal: Journal) -> AsyncGenerator[Journal]:
    """Writing; its file is closed when the block is left."""
    task = asyncio.create_task(journal.run())
    await asyncio.sleep(0)
    try:
        yield journal
    finally:
        await cancel_tasks([task])


async def answered(redis: Redis, settings: Settings, count: int) -> PoolWorkers:
    """So many requests of a worker that keeps a journal, all of them ended, and the worker gone."""
    crew = PoolWorkers(redis, settings, journal=a_journal(settings, "w"))
    assert crew.journal is not None
    requests = [admitted(crew) for _ in range(count)]
    async with running(crew.journal), crew.worker(ScriptedEngine(saying("Rivers."), step_seconds=0)):
        for each in requests:
            await crew.queue.enqueue(each)
        for each in requests:
            await crew.ended(each.id)
    return crew


async def posted(database: Database, redis: Redis, count: int) -> None:
    """A biller that reads all, and dies after it has posted so many and said so."""
    stream = EndedStream(redis, POOL, "first")
    await stream.ensure_groups()
    deliveries = (await stream.read())[:count]
    await post(database, POOL, [each.data for each in deliveries])
    await stream.acknowledge(deliveries)


@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("read", [0, 2, 4])
async def test_ends_that_redis_lost_are_billed_exactly_once(
    read: int, looked: bool, database: Database, redis: Redis, settings: Settings
) -> None:
    """Before a biller read any of them, half or all; whether their keeper had looked before, or starts now.
    The admission that is gone with Redis is proven by the seal that each event has."""
    crew = await answered(redis, settings, 4)
    events = [decode(end.event) for end in ends_in(settings)]
    assert len({event.request for event in events}) == 4
    await posted(database, redis, read)
    own = a_journal(settings, "k")
    keeper = JournalKeeper(crew.queue, own)
    if looked:
        await keeper.once()
        assert len(ends_in(settings)) == (0 if read == 4 else 4)
    await redis.flushall()
    await keeper.once()
    await keeper.once()
    assert await redis.xlen(ended_stream(POOL)) == (4 - read if looked else 4)
    async with a_biller(database, redis, settings):
        found = await until_posted(database, 4)
        if await redis.xlen(ended_stream(POOL)):
            await until_acknowledged(redis)
    assert {row.request_id: row.cost_nano for row in found} == {e.request: e.cost_nano for e in events}
    assert await held(database) == []
    own._segments.close()  # pyright: ignore[reportPrivateUsage]
    await keeper.once()
    assert files(settings) == []


async def test_a_request_that_redis_knows_as_open_wins(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """Sent again after the loss it runs again: its first end waits, and then is listed, not billed."""
    crew = await answered(redis, settings, 1)
    (first,) = ends_in(settings)
    await redis.flushall()
    await crew.queue.enqueue(admitted(crew, first.request))
    own = a_journal(settings, "k")
    keeper = JournalKeeper(crew.queue, own)
    await keeper.once()
    assert await redis.xlen(ended_stream(POOL)) == 0
    assert ends_in(settings) == [first]
    assert await end_unclaimed(crew.queue, Quota(redis, settings), TENANT, first.request, EndReason.CANCELLED)
    async with a_biller(database, redis, settings):
        await until_posted(database, 1)
        own._segments.close()  # pyright: ignore[reportPrivateUsage]
        await keeper.once()

        async def listed() -> bool:
            return bool(await held(database))

        await wait_until(listed)
    (row,) = await rows(database)
    (other,) = await held(database)
    assert (row.reason, other.reason, other.event) == ("cancelled", Quarantined.CONFLICTING, first.event)


async def test_a_restart_that_lost_nothing_brings_nothing_back(redis: Redis, settings: Settings) -> None:
    """Redis counts it as another memory; what it knows of each end says that its event is there."""
    crew = await answered(redis, settings, 2)
    await redis.hset("{p:default}sys", "incarnation", "7")
    own = a_journal(settings, "k")
    await JournalKeeper(crew.queue, own).once()
    assert await redis.xlen(ended_stream(POOL)) == 2
    assert {end.memory.partition(".")[2] for end in ends_in(settings)} == {"7"}


async def test_a_lost_tail_is_brought_back_alone(redis: Redis, settings: Settings) -> None:
    """A failover that lost the last second: what is there stays as it is."""
    crew = await answered(redis, settings, 3)
    first, *_, last = ends_in(settings)
    await redis.xdel(ended_stream(POOL), last.id)
    await redis.delete(f"{{p:default}}req:{TENANT}:{last.request}")
    await redis.hset("{p:default}sys", "incarnation", "1")
    await JournalKeeper(crew.queue, a_journal(settings, "k")).once()
    found = await streamed(redis)
    assert decode(found[-1][1]).request == last.request
    assert (len(found), found[0][0]) == (3, first.id)


async def test_a_reply_that_is_lost_loses_no_end(redis: Redis, settings: Settings) -> None:
    """Who asks again hears where its event is; who had nothing to do with the end hears nothing."""
    kept: list[JournaledEnd] = []
    crew = PoolWorkers(redis, settings)
    queue = PoolQueue(redis, POOL, settings, ended=kept.append)
    await queue.register("w", FINGERPRINT, {"kv_tokens": 1000})
    asked = admitted(crew)
    await queue.enqueue(asked)
    (claim,) = (await queue.claim("w", 1, ClaimOffer(FINGERPRINT, 4, 9_999, 9_999))).claims
    end = Entry(o=claim.o + 1, k=EntryKind.END, v=b"{}")
    sent = Append(
        tenant=TENANT,
        id=asked.id,
        ck=claim.ck,
        n0=0,
        o0=claim.o,
        raw=0,
        visible=0,
        entries=[end],
        end=b"event",
    )
    first, again = [await queue.append("w", [sent]) for _ in range(2)]
    (other,) = await queue.append("w", [msgspec.structs.replace(sent, ck="another's", end=b"other")])
    assert first == again
    assert (other.code, other.ended) == ("ENDED", None)
    assert [(each.request, each.event) for each in kept] == [(asked.id, b"event")] * 2
    ((at, _),) = await streamed(redis)
    assert {each.id for each in kept} == {at}


async def test_ends_of_reapers_and_cancels_are_journaled_too(redis: Redis, settings: Settings) -> None:
    """Whoever writes an end tells of it: what was parked may have used something."""
    kept: list[JournaledEnd] = []
    crew = PoolWorkers(redis, settings)
    queue = PoolQueue(redis, POOL, settings, ended=kept.append)
    asked = admitted(crew)
    await queue.enqueue(asked)
    at = (queue, Quota(redis, settings), TENANT, asked.id)
    assert [await end_unclaimed(*at, EndReason.CANCELLED) for _ in range(2)] == [True, False]
    (end,) = kept
    assert decode(end.event).reason == "cancelled"
    assert (await queue.ends()).memory == end.memory


async def test_files_are_for_their_user_alone(redis: Redis, settings: Settings) -> None:
    """Under any umask."""
    before = os.umask(0)
    try:
        await answered(redis, settings, 1)
    finally:
        os.umask(before)
    (path,) = files(settings)
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert b"Rivers" not in path.read_bytes()


async def test_a_disk_that_takes_nothing_stops_nothing(redis: Redis, settings: Settings) -> None:
    """The folder cannot be made: answers go on, and what waits is written once it can be."""
    blocker = settings.home / FOLDER
    blocker.write_text("no folder")
    crew = PoolWorkers(redis, settings, journal=a_journal(settings, "w"))
    assert crew.journal is not None
    async with running(crew.journal), crew.worker(ScriptedEngine(saying("Rivers."), step_seconds=0)):
        id = await crew.send()
        assert (await crew.ended(id))["reason"] == "stop"
        blocker.unlink()
        await wait_until(lambda: is_kept(settings, id))


async def is_kept(settings: Settings, id: str) -> bool:
    """Whether its end is in a journal."""
    return [end.request for end in ends_in(settings)] == [id]


async def test_a_journal_has_a_bound_and_goes_on_once_it_is_cut(settings: Settings) -> None:
    """Beyond it nothing is written; what is there stays whole."""
    journal = a_journal(settings, "w", 600)
    ends = [JournaledEnd("t", f"r{n}", "m", f"{n}-0", b"x" * 200) for n in range(4)]
    assert [await journal.keep([end]) for end in ends] == [True, True, False, False]
    assert ends_in(settings) == ends[:2]
    journal._segments.close()  # pyright: ignore[reportPrivateUsage]
    assert not await journal.keep(ends[2:3])
    files(settings)[0].unlink()
    assert await journal.keep(ends[2:3])


async def test_nobody_cuts_what_is_still_written(redis: Redis, settings: Settings) -> None:
    """A living worker's file is its own; a file that is no journal is set aside, and others are tended."""
    queue = PoolQueue(redis, POOL, settings)
    segments = JournalSegments(settings.home / FOLDER, POOL, "living", 1 << 20)
    segments.write([b"anything"])
    (path,) = files(settings)
    with taken(path) as closed:
        assert closed is None
    garbage = settings.home / FOLDER / "default~x~1.ends"
    garbage.write_bytes(b"no journal" * 9)
    empty = settings.home / FOLDER / "default~y~1.ends"
    empty.touch()
    other_pool = settings.home / FOLDER / "other~y~1.ends"
    other_pool.touch()
    await JournalKeeper(queue, a_journal(settings, "k")).once()
    assert files(settings) == sorted([garbage.with_suffix(".unreadable"), path, other_pool])
    segments.close()


async def test_a_file_that_a_worker_made_up_keeps_nobody_from_the_others(
    redis: Redis, settings: Settings
) -> None:
    """Neither a place that no stream has, nor one that cannot be set aside, nor false heads, nor another
    pool's."""
    folder = settings.home / FOLDER
    places = ("x", "9" * 20 + "-0", "\u0663-\u0663", "1-0-0")
    made_up = JournalSegments(folder, POOL, "a", 1 << 20)
    made_up.write([frame(JournaledEnd("t", f"r{at}", "gone", at, b"made up")) for at in places])
    made_up.close()
    (folder / f"{POOL}~b~1.ends").write_bytes(b"no journal" * 9)
    (folder / f"{POOL}~b~1.unreadable").mkdir()
    false_heads = HEAD.pack(MARK, 500_000, 1) * (3 * 2**20 // HEAD.size)
    (folder / f"{POOL}~b~2.ends").write_bytes(MAGIC + false_heads)
    good = JournalSegments(folder, POOL, "c", 1 << 20)
    good.write([frame(JournaledEnd("t", "r1", "gone", "1-0", b"good"))])
    good.close()
    other = JournalSegments(folder, f"{POOL}~c", "d", 1 << 20)
    other.write([frame(JournaledEnd("t", "r1", "gone", "1-0", b"another pool's"))])
    other.close()
    for number, name in enumerate("abc"):
        os.utime(folder / f"{POOL}~{name}~1.ends", (number, number))
    await JournalKeeper(PoolQueue(redis, POOL, settings), a_journal(settings, "k")).once()
    assert [event for _, event in await streamed(redis)] == [b"good"]
    assert (folder / f"{POOL}~b~2.unreadable").exists()


async def test_what_a_worker_made_up_is_held(database: Database, redis: Redis, settings: Settings) -> None:
    """An event in a journal that no gateway has sealed, or that is of another pool, bills nobody."""
    good = sealed_event(accepted_ms=now_ms(), ended_ms=now_ms())
    made_up = {
        "r1": msgspec.structs.replace(good, request="r1", tenant="victim"),
        "r2": msgspec.structs.replace(good, request="r2", seal=b""),
        "r3": sealed_event(request="r3", pool="other"),
    }
    journal = a_journal(settings, "w")
    async with running(journal):
        for id, event in made_up.items():
            journal.add(JournaledEnd(event.tenant, id, "gone", "1-0", encode(event)))
    await JournalKeeper(PoolQueue(redis, POOL, settings), a_journal(settings, "k")).once()
    async with a_biller(database, redis, settings):

        async def listed() -> bool:
            return len(await held(database)) == len(made_up)

        await wait_until(listed)
    assert {each.reason for each in await held(database)} == {Quarantined.UNADMITTED}
    assert await rows(database) == await rows(database, "victim") == []


@pytest.mark.parametrize("process", [SUPERVISOR, GATEWAY, WORKER], ids=lambda process: process.name)
async def test_keepers_need_no_more_than_their_own_users_may(
    process: ProcessKind, redis: Redis, settings: Settings
) -> None:
    """Whoever keeps journals cuts them and brings back what is lost, under its Redis user."""
    crew = await answered(redis, settings, 1)
    await redis.flushall()
    await load_scripts(redis)
    async with client_of(redis, settings.redis_endpoint, process, POOL) as client:
        queue = PoolQueue(client, POOL, crew.settings)
        await EndedStream(redis, POOL, "b").ensure_groups()
        await JournalKeeper(queue, a_journal(settings, "k")).once()
    assert await redis.xlen(ended_stream(POOL)) == 1


async def test_lost_ends_show_as_a_difference_until_they_are_back(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """What a worker says that it ended is not what Redis knows, so R5 sees what both lost."""
    crew = await answered(redis, settings, 3)
    assert crew.journal is not None
    await redis.flushall()
    await end_counts.publish(redis, POOL, "w", crew.journal.counted)

    async def missing() -> int:
        await redis.delete(ended_stream(POOL))
        found = await Reconciliation(database, redis, settings).run({Check.R5})
        (requests,) = [each for each in found if each.subject.endswith("ended requests")]
        return requests.difference

    assert await missing() == -3
    await JournalKeeper(crew.queue, a_journal(settings, "k")).once()
    async with a_biller(database, redis, settings):
        await until_posted(database, 3)
    assert await missing() == 0


def test_an_end_that_is_told_twice_is_counted_once() -> None:
    """As one is whose reply was lost; what is no event is not counted."""
    counted = end_counts.EndCounts()
    event = sealed_event(ended_ms=5)
    for id in ("1-0", "2-0"):
        counted.add(JournaledEnd("t1", "r1", "m", id, encode(event)))
    counted.add(JournaledEnd("t1", "r2", "m", "3-0", b"none"))
    assert counted.hours == {0: EndedCounts(1, event.output_text, event.cost_nano)}
