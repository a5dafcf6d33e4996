"""News from the pool over sharded channels. Hints only: Redis holds what they announce, and readers poll."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from redis.exceptions import RedisError

from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable, read
from core.tasks import cancel_tasks
from engine.queue import redis_keys
from engine.queue.request_log import unpack_entries
from engine.queue.script_calls import PackedEntry
from engine.queue.types import Hint
from engine.request import Control, Entry

POLL_SECONDS = 1.0
RETRY_SECONDS = 0.2
OPEN_SECONDS_MAX = 5.0
WAITING_HINTS_MAX = 4096

log = logger(__name__)
repeated = RepeatedWarning(log)


class ShardChannel:
    """One sharded channel on a connection of its own, so that a silent node does not delay messages of the
    others.

    A lost connection is opened again; what was published meanwhile is lost.
    """

    def __init__(self, redis: RedisClient, name: str) -> None:
        self.name = name
        self._pubsub = redis.pubsub()
        self._get = self._pubsub.get_sharded_message if redis.is_cluster else self._pubsub.get_message

    async def open(self) -> None:
        """Subscribe. While the connection holds, everything published after this returns arrives. After a
        failure nothing is open."""
        try:
            async with asyncio.timeout(OPEN_SECONDS_MAX):
                await self._pubsub.ssubscribe(self.name)
                while True:
                    message = await self._get(timeout=POLL_SECONDS)
                    if message and message["type"] == "ssubscribe":
                        return
        except BaseException:
            await self.close()
            raise

    async def messages(self) -> AsyncIterator[bytes]:
        """Every message, for ever."""
        while True:
            try:
                message = await self._get(timeout=POLL_SECONDS)
            except (RedisError, OSError) as error:
                repeated.warning("queue.channel_failed", error=type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if message and message["type"] == "smessage":
                yield message["data"]

    async def close(self) -> None:
        """Give the connection back."""
        await self._pubsub.aclose()


class HintChannel:
    """One gateway's hints from all the pools it follows, in one stream that drops the oldest at its limit."""

    def __init__(self, redis: RedisClient, gateway: str) -> None:
        self._redis = redis
        self._gateway = gateway
        self._waiting: asyncio.Queue[Hint] = asyncio.Queue(WAITING_HINTS_MAX)
        self._channels: dict[str, tuple[ShardChannel, asyncio.Task[None]]] = {}
        self._following = asyncio.Lock()

    async def follow(self, pool: str) -> None:
        """Listen to a pool from now on, before registering as a reader there. Repeating is harmless."""
        async with self._following:
            if pool in self._channels:
                return
            channel = ShardChannel(self._redis, redis_keys.gateway_channel(pool, self._gateway))
            await channel.open()
            self._channels[pool] = channel, asyncio.create_task(self._listen(pool, channel))

    async def __aiter__(self) -> AsyncIterator[Hint]:
        while True:
            yield await self._waiting.get()

    async def close(self) -> None:
        """Stop listening."""
        while self._channels:
            _, (channel, task) = self._channels.popitem()
            try:
                await cancel_tasks([task])
            finally:
                await channel.close()

    async def _listen(self, pool: str, channel: ShardChannel) -> None:
        async for message in channel.messages():
            for hint in _hints(pool, message):
                if self._waiting.full():
                    self._waiting.get_nowait()
                self._waiting.put_nowait(hint)


class _News(msgspec.Struct, array_like=True):
    tenant: str
    id: str
    head: int
    entries: list[PackedEntry]
    epoch: int
    dest: str = ""


_news = msgspec.msgpack.Decoder(list[_News], strict=False)


def _hints(pool: str, message: bytes) -> list[Hint]:
    """The hints in a message; none where it cannot be read, since readers poll."""
    found = read("hint", lambda packed: _decoded(pool, packed), message)
    if isinstance(found, Unreadable):
        repeated.warning("queue.hint_unreadable", pool=pool, error=found.why)
        return []
    return found


def _decoded(pool: str, message: bytes) -> list[Hint]:
    return [
        Hint(pool, each.tenant, each.id, _entries(each), each.head, each.epoch, each.dest)
        for each in _news.decode(message)
    ]


def _entries(news: _News) -> list[Entry]:
    return unpack_entries(news.head, news.entries)


def _wake(message: bytes) -> tuple[str, str, Control]:
    tenant, id, flags = msgspec.msgpack.decode(message, type=tuple[str, str, int])
    return tenant, id, Control(flags)


class WorkerWakes:
    """Control flags of one worker's requests as they are set; `renew` and `append` repeat them."""

    def __init__(self, redis: RedisClient, pool: str, worker: str) -> None:
        self._channel = ShardChannel(redis, redis_keys.worker_channel(pool, worker))

    async def start(self) -> None:
        """Start listening."""
        await self._channel.open()

    async def __aiter__(self) -> AsyncIterator[tuple[str, str, Control]]:
        async for message in self._channel.messages():
            woken = read("wake", _wake, message)
            if isinstance(woken, Unreadable):
                repeated.warning("queue.wake_unreadable", error=woken.why)
            else:
                yield woken

    async def close(self) -> None:
        """Stop listening."""
        await self._channel.close()
