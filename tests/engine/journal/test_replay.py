"""What Redis says of journals: how far the biller is, to the entry, and what it brought back, once."""

from pathlib import Path
from typing import Any

import msgspec

from billing.quota.client import Quota
from billing.usage import ENDED_FIELD, ENDED_GROUP_BILLER, ended_stream
from core.configuration.settings import Settings
from engine.api import EndReason
from engine.journal.files import FOLDER, JournalSegments
from engine.journal.keeper import JournalKeeper
from engine.lifecycle.finish import end_unclaimed
from engine.queue.client import PoolQueue
from engine.queue.journaled_ends import JournaledEnd, frame
from engine.queue.types import ReplayCode
from tests.engine.builders import TENANT
from tests.engine.journal.journaled import admitted, ends_in, files, streamed
from tests.engine.journals import a_journal, journals_are_closed
from tests.engine.workers import PoolWorkers
from tests.support.redis import Redis

__all__ = ["journals_are_closed"]
POOL = "default"


def lost(request: str = "r1", id: str = "5-1", event: bytes = b"event") -> JournaledEnd:
    """An end of a memory that Redis does not have."""
    return JournaledEnd("t1", request, "another.0", id, event)


async def test_the_biller_has_what_is_below_and_not_one_entry_more(redis: Redis, settings: Settings) -> None:
    """Ends of one millisecond are told apart; what was read and not acknowledged is not below."""
    client: Any = redis
    stream, queue = ended_stream(POOL), PoolQueue(redis, POOL, settings)
    assert (await queue.ends()).below == (0, 0)
    for id in ("5-1", "5-2", "5-3"):
        await client.xadd(stream, {ENDED_FIELD: b"x"}, id=id)
    await client.xgroup_create(stream, ENDED_GROUP_BILLER, "0")
    assert (await queue.ends()).below == (0, 1)
    await client.xreadgroup(ENDED_GROUP_BILLER, "b", {stream: ">"}, count=2)
    assert (await queue.ends()).below == (5, 1)
    await client.xack(stream, ENDED_GROUP_BILLER, "5-1")
    assert (await queue.ends()).below == (5, 2)
    await client.xack(stream, ENDED_GROUP_BILLER, "5-2")
    assert (await queue.ends()).below == (5, 3)


async def test_an_end_is_brought_back_once_however_often_it_is_asked_for(
    redis: Redis, settings: Settings
) -> None:
    """Whose keeper died before its file was cut asks again, also after the biller has acknowledged it; two
    ends of one request are two."""
    client: Any = redis
    queue = PoolQueue(redis, POOL, settings)
    ((code, at),) = await queue.replay([lost()])
    assert code is ReplayCode.PUT
    await client.xtrim(ended_stream(POOL), maxlen=0)
    assert await queue.replay([lost()]) == [(ReplayCode.KNOWN, at)]
    codes = [code for code, _ in await queue.replay([lost(id="5-2", event=b"other"), lost("r2")])]
    assert codes == [ReplayCode.PUT, ReplayCode.PUT]
    assert await client.xlen(ended_stream(POOL)) == 2


async def test_what_stands_at_the_place_of_an_end_is_it_only_where_it_says_the_same(
    redis: Redis, settings: Settings
) -> None:
    """A new memory may have another event under that id."""
    client: Any = redis
    queue = PoolQueue(redis, POOL, settings)
    await client.xadd(ended_stream(POOL), {ENDED_FIELD: b"another's"}, id="5-1")
    await client.xadd(ended_stream(POOL), {ENDED_FIELD: b"event"}, id="5-2")
    codes = [code for code, _ in await queue.replay([lost(), lost(id="5-2")])]
    assert codes == [ReplayCode.PUT, ReplayCode.KNOWN]


async def test_an_end_that_its_record_knows_is_not_brought_back(redis: Redis, settings: Settings) -> None:
    """Also where the biller has acknowledged it and its event is gone: a restart alone lost nothing."""
    client: Any = redis
    kept: list[JournaledEnd] = []
    crew = PoolWorkers(redis, settings)
    queue = PoolQueue(redis, POOL, settings, ended=kept.append)
    asked = admitted(crew)
    await queue.enqueue(asked)
    assert await end_unclaimed(queue, Quota(redis, settings), TENANT, asked.id, EndReason.CANCELLED)
    await client.xtrim(ended_stream(POOL), maxlen=0)
    ((code, at),) = await queue.replay([msgspec.structs.replace(kept[0], memory="another.0")])
    assert (code, at.id) == (ReplayCode.KNOWN, kept[0].id)
    assert await client.xlen(ended_stream(POOL)) == 0


async def test_an_end_that_restored_books_may_lack_is_brought_back_where_the_stream_has_it_not(
    redis: Redis, settings: Settings
) -> None:
    """The books that had it are gone, so what was acknowledged counts nothing: only an event that is in the
    stream is known, and a repeated call puts no second one there."""
    client: Any = redis
    kept: list[JournaledEnd] = []
    crew = PoolWorkers(redis, settings)
    queue = PoolQueue(redis, POOL, settings, ended=kept.append)
    asked = admitted(crew)
    await queue.enqueue(asked)
    assert await end_unclaimed(queue, Quota(redis, settings), TENANT, asked.id, EndReason.CANCELLED)
    assert [code for code, _ in await queue.replay(kept, again=True)] == [ReplayCode.KNOWN]
    await client.xtrim(ended_stream(POOL), maxlen=0)
    for codes in ([ReplayCode.PUT, ReplayCode.PUT], [ReplayCode.KNOWN, ReplayCode.KNOWN]):
        assert [code for code, _ in await queue.replay([*kept, lost()], again=True)] == codes
    await client.xtrim(ended_stream(POOL), maxlen=0)
    assert [code for code, _ in await queue.replay([lost()], again=True)] == [ReplayCode.PUT]
    assert await client.xlen(ended_stream(POOL)) == 1


def a_file(settings: Settings, *ends: JournaledEnd) -> Path:
    """Of a process that is gone."""
    segments = JournalSegments(settings.home / FOLDER, POOL, "gone", 1 << 20)
    segments.write([frame(end) for end in ends])
    segments.close()
    (path,) = files(settings)
    return path


async def test_what_waits_beside_what_was_lost_is_kept(redis: Redis, settings: Settings) -> None:
    """One file may hold both: what Redis has, and no biller has acknowledged, may be lost the next time."""
    client: Any = redis
    queue = PoolQueue(redis, POOL, settings)
    here = (await queue.ends()).memory
    id = (await client.xadd(ended_stream(POOL), {ENDED_FIELD: b"waits"})).decode()
    a_file(settings, JournaledEnd("t1", "waits", here, id, b"waits"), lost())
    await JournalKeeper(queue, a_journal(settings, "k")).once()
    assert {end.request for end in ends_in(settings)} == {"waits", "r1"}
    assert {end.memory for end in ends_in(settings)} == {here}


async def test_a_file_stays_until_what_it_holds_is_kept_elsewhere(redis: Redis, settings: Settings) -> None:
    """A journal that is full, or a disk that takes nothing, cuts none."""
    path = a_file(settings, lost())
    full = a_journal(settings, "k", 1)
    queue = PoolQueue(redis, POOL, settings)
    await JournalKeeper(queue, full).once()
    assert path.exists()
    await JournalKeeper(queue, a_journal(settings, "k2")).once()
    assert not path.exists()
    assert len(await streamed(redis)) == 1
