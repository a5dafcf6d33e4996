"""Many calls over one connection: everyone has their own reply, and nobody's trouble is another's."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum

import pytest
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as ReplyTimeout

from core.redis.redis_connections import MultiplexedRedis, connect_url
from core.redis.shared_connection import MultiplexedConnection
from tests.support.patience import BEAT_SECONDS, HANG_SECONDS, QUIET_SECONDS, patience, pause, wait_until
from tests.support.redis import Redis

SLOW = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i end return ARGV[2]"


class Word(StrEnum):
    """Text of a subclass."""

    GREETING = "grüezi"


@pytest.fixture
async def shared(redis: Redis) -> AsyncGenerator[MultiplexedConnection]:
    """One connection to an empty Valkey."""
    connection = MultiplexedConnection(redis.connection_pool, reply_seconds=HANG_SECONDS)
    yield connection
    await connection.aclose()


@pytest.fixture
async def hasty(redis: Redis) -> AsyncGenerator[MultiplexedConnection]:
    """One that waits for a reply for a moment only."""
    connection = MultiplexedConnection(redis.connection_pool, reply_seconds=QUIET_SECONDS)
    yield connection
    await connection.aclose()


@asynccontextmanager
async def writes_wait(redis: Redis) -> AsyncGenerator[None]:
    """Within the block the server answers what writes to nobody."""
    await redis.client_pause(3_600_000, all=False)
    try:
        yield
    finally:
        await redis.client_unpause()


async def _id(shared: MultiplexedConnection) -> int:
    return int(await shared.call("CLIENT", "ID"))


async def test_everyone_has_their_own_reply(shared: MultiplexedConnection):
    """Also of those that begin in the same moment, over a single connection."""
    replies = await asyncio.gather(*(shared.call("ECHO", str(number)) for number in range(500)))
    assert replies == [str(number).encode() for number in range(500)]
    assert await _id(shared) == await _id(shared)


async def test_text_numbers_and_bytes_arrive(shared: MultiplexedConnection):
    await shared.call("RPUSH", "key", Word.GREETING, "a b", 7, 0.5, b"\x00\xff", "")
    expected = ["grüezi".encode(), b"a b", b"7", b"0.5", b"\x00\xff", b""]
    assert await shared.call("LRANGE", "key", 0, -1) == expected


async def test_an_error_is_its_callers_alone(shared: MultiplexedConnection):
    replies = await shared.calls([("SET", "a", 1), ("LPUSH", "a", 1), ("GET", "a")])
    assert replies[2] == b"1"
    assert isinstance(replies[1], ResponseError)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await shared.call("LPUSH", "a", 1)
    with pytest.raises(TypeError):
        await shared.call("SET", "a", None)  # pyright: ignore[reportArgumentType]
    assert await shared.call("GET", "a") == b"1"


async def test_who_is_cancelled_takes_nobody_with_it(shared: MultiplexedConnection):
    """Their reply comes all the same, and is nobody else's."""
    before = await _id(shared)
    calls = [asyncio.create_task(shared.call("EVAL", SLOW, 0, 100_000, number)) for number in range(40)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert answers[1::2] == [str(number).encode() for number in range(1, 40, 2)]
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert await _id(shared) == before


async def test_a_connection_that_is_cut_is_opened_again(shared: MultiplexedConnection, redis: Redis):
    """All that wait are told; the next call is answered."""
    before = await _id(shared)
    async with writes_wait(redis):
        calls = [asyncio.create_task(shared.call("SET", "key", number)) for number in range(5)]
        await pause(BEAT_SECONDS)
        await redis.client_kill_filter(_id=str(before))
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(answer, ConnectionLost)
    assert await _id(shared) != before


async def test_an_idle_connection_may_be_cut(shared: MultiplexedConnection, redis: Redis):
    before = await _id(shared)
    await redis.client_kill_filter(_id=str(before))
    async with patience():
        while True:
            try:
                after = await _id(shared)
                break
            except ConnectionLost:  # it was on its way when the news came
                pass
    assert after != before


async def test_who_never_answers_is_given_up(hasty: MultiplexedConnection, redis: Redis):
    """After a bounded wait, and for good: a late answer is nobody's."""
    async with writes_wait(redis):
        with pytest.raises(ReplyTimeout):
            await hasty.call("SET", "key", 1)
    assert await hasty.call("ECHO", "again") == b"again"


async def test_a_long_idle_time_is_no_trouble(hasty: MultiplexedConnection):
    """Longer than a reply may take."""
    before = await _id(hasty)
    await pause(2 * QUIET_SECONDS)
    assert await _id(hasty) == before


async def test_who_waits_at_the_end_is_told(shared: MultiplexedConnection, redis: Redis):
    await _id(shared)
    async with writes_wait(redis):
        call = asyncio.create_task(shared.call("SET", "key", 1))
        await pause(BEAT_SECONDS)
        await shared.aclose()
        with pytest.raises(ConnectionLost):
            await call


async def test_who_is_cancelled_while_it_opens_leaves_nothing_open(redis: Redis):
    """Those who waited for the same opening have it all the same."""
    before = len(await redis.client_list())
    for turns in range(6):
        shared = MultiplexedConnection(redis.connection_pool)
        calls = [asyncio.create_task(shared.call("ECHO", number)) for number in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        calls[0].cancel()
        _, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert others == [b"1", b"2"]
        await shared.aclose()

    async def closed() -> bool:
        return len(await redis.client_list()) == before

    await wait_until(closed)


async def test_a_redis_that_is_away_is_said_to_each():
    client = connect_url("redis://127.0.0.1:1")
    assert isinstance(client, MultiplexedRedis)
    calls = [client.multiplexed.call("PING") for _ in range(3)]
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(answer, ConnectionLost)
    await client.aclose()
