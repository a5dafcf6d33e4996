"""The shared connection at its ends: nothing of it stays open, and nobody waits for what will not come."""

import asyncio
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError as ConnectionLost

from core.redis.shared_connection import MultiplexedConnection, _seen
from tests.support.patience import soon, wait_until
from tests.support.scripted_redis import scripted_redis


async def _outcome(call: asyncio.Task[object]) -> object:
    """What came of a call that must end."""
    (answer,) = await soon(asyncio.gather(call, return_exceptions=True))
    return answer


async def test_one_that_is_replaced_is_closed():
    """Also where it broke by what came over it: Redis still holds that socket open."""
    async with scripted_redis() as server:
        shared = MultiplexedConnection(server.pool)
        assert await shared.call("PING") == b"OK"
        (first,) = server.open
        server.say(b"+unasked\r\n")
        await wait_until(lambda: shared._open is not None and shared._open.broken)
        assert await shared.call("PING") == b"OK"
        await wait_until(lambda: first not in server.open)
        assert (server.accepted, len(server.open)) == (2, 1)
        await shared.aclose()
        await server.all_gone()


async def test_closing_ends_an_opening():
    """Who waits for it is told; nothing of it is left, now or when the server answers after all."""
    async with scripted_redis() as server:
        server.greets.clear()
        shared = MultiplexedConnection(server.pool)
        call = asyncio.create_task(shared.call("PING"))
        await wait_until(lambda: server.accepted == 1)
        await soon(shared.aclose())
        server.greets.set()
        assert isinstance(await _outcome(call), ConnectionLost)
        await server.all_gone()


async def test_closing_as_it_is_opened_leaves_nothing_open():
    """In whichever turn of the loop it comes, and however many wait."""
    async with scripted_redis() as server:
        for turns in range(40):
            shared = MultiplexedConnection(server.pool)
            calls = [asyncio.create_task(shared.call("PING")) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            await shared.aclose()
            for call in calls:
                answer = await _outcome(call)
                assert answer == b"OK" or isinstance(answer, ConnectionLost)
        await server.all_gone()


async def test_closed_once_it_is_never_opened_again():
    """Who tries again, as the connection was lost, would leave one open behind the one who closed it."""
    async with scripted_redis() as server:
        shared = MultiplexedConnection(server.pool)
        assert await shared.call("PING") == b"OK"
        await shared.aclose()
        with pytest.raises(ConnectionLost):
            await shared.call("PING")
        with pytest.raises(ConnectionLost):
            await shared.calls([["PING"]])
        await server.all_gone()
        assert server.accepted == 1


async def test_who_closes_and_is_cancelled_has_closed():
    """A task that ends late holds up the end of the connection, and does not keep it open."""
    async with scripted_redis() as server:
        shared = MultiplexedConnection(server.pool)
        assert await shared.call("PING") == b"OK"
        closing = asyncio.create_task(shared.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await server.all_gone()


async def test_who_waits_for_an_opening_has_it_though_the_first_is_cancelled():
    async with scripted_redis() as server:
        server.greets.clear()
        shared = MultiplexedConnection(server.pool)
        first, second = (asyncio.create_task(shared.call("PING")) for _ in range(2))
        await wait_until(lambda: server.accepted == 1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        server.greets.set()
        assert await _outcome(second) == b"OK"
        assert server.accepted == 1
        await shared.aclose()
        await server.all_gone()


async def test_what_breaks_between_opening_and_sending_is_told():
    """A call that is put on a broken connection would wait for ever."""
    async with scripted_redis() as server:
        shared = MultiplexedConnection(server.pool)
        assert await shared.call("PING") == b"OK"
        opened = shared._open
        assert opened is not None
        server.say(b"+unasked\r\n")
        await wait_until(lambda: opened.broken)
        with pytest.raises(ConnectionLost):
            await soon(opened.send(b"*1\r\n$4\r\nPING\r\n"))
        await shared.aclose()


async def test_of_commands_that_cannot_be_written_none_is_sent():
    async with scripted_redis() as server:
        seen = list[bytes]()
        server.answer = lambda command: seen.append(command[0]) or b"+OK\r\n"
        shared = MultiplexedConnection(server.pool)
        with pytest.raises(TypeError):
            await shared.calls([["SET", "a", 1], ["SET", "b", None]])  # pyright: ignore[reportArgumentType]
        assert await shared.call("PING") == b"OK"
        assert seen == [b"PING"]
        await shared.aclose()


async def test_who_waits_is_told_at_once_when_a_task_of_it_dies():
    """Also of what nobody foresaw: not only after the time for a reply."""
    async with scripted_redis() as server:
        server.answer = lambda _: None
        shared = MultiplexedConnection(server.pool, reply_seconds=600)
        call = asyncio.create_task(shared.call("PING"))
        await wait_until(lambda: shared._open is not None)
        opened = shared._open
        assert opened is not None
        for task in opened._tasks:
            task.cancel()  # as a loop that ends does
        assert isinstance(await _outcome(call), ConnectionLost)
        assert opened.broken
        await shared.aclose()
        await server.all_gone()


async def test_a_connection_that_nobody_waits_for_fails_without_a_word():
    """Else its failure is logged as one that nobody looked at, whenever the collector comes by."""
    refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    refused.set_exception(ConnectionLost("refused"))
    _seen(cast("asyncio.Task[Any]", refused))
    assert not _is_logged(refused)
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ended.cancel()
    _seen(cast("asyncio.Task[Any]", ended))


def _is_logged(future: asyncio.Future[Any]) -> bool:
    """Whether asyncio would log its exception."""
    return future._log_traceback
