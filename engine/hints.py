"""News from the pool over sharded channels. Hints only: what they say is in Redis, and readers poll for
what is lost."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from redis.exceptions import RedisError

from core.redis import Client
from core.telemetry import logger
from engine import keys
from engine.log import unpack_entries
from engine.queue_types import Hint
from engine.request import Control

POLL_SECONDS = 1.0
RETRY_SECONDS = 0.2

log = logger(__name__)


class ShardChannels:
    """Messages of some sharded channels; subscribes again after a lost connection, and loses what came
    meanwhile."""

    def __init__(self, redis: Client) -> None:
        client: Any = redis
        self._pubsub: Any = client.pubsub(ignore_subscribe_messages=False)
        self._channels: set[str] = set()
        self._changed = asyncio.Event()

    async def subscribe(self, channel: str) -> None:
        """Messages published after this returns arrive, while the connection holds."""
        if channel not in self._channels:
            self._channels.add(channel)
            await self._pubsub.ssubscribe(channel)
            self._changed.set()

    async def messages(self) -> AsyncIterator[tuple[str, bytes]]:
        """(channel, message), for ever."""
        while True:
            if not self._channels:
                await self._changed.wait()
            try:
                message = await self._next()
            except (RedisError, OSError) as error:
                log.warning("hints interrupted", error=type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if message is not None and message["type"] == "smessage":
                yield message["channel"].decode(), message["data"]

    async def close(self) -> None:
        """Give the connections back."""
        await self._pubsub.aclose()

    async def _next(self) -> Any:
        return await self._pubsub.get_message(timeout=POLL_SECONDS)


class Hints:
    """One gateway's hints from all the pools it follows. Iterate it in one task."""

    def __init__(self, redis: Client, gateway: str) -> None:
        self._channels = ShardChannels(redis)
        self._gateway = gateway
        self._pools: dict[str, str] = {}

    async def follow(self, pool: str) -> None:
        """Start listening to a pool. Do it before registering as a reader there."""
        channel = keys.gateway_channel(pool, self._gateway)
        self._pools[channel] = pool
        await self._channels.subscribe(channel)

    async def __aiter__(self) -> AsyncIterator[Hint]:
        async for channel, message in self._channels.messages():
            for tenant, id, head, packed in msgspec.msgpack.decode(message):
                yield Hint(self._pools[channel], tenant, id, unpack_entries(head, packed), head)

    async def close(self) -> None:
        """Stop listening."""
        await self._channels.close()


class WorkerWakes:
    """Control flags of one worker's requests, as they are set. `renew` repeats those that get lost."""

    def __init__(self, redis: Client, pool: str, worker: str) -> None:
        self._channels = ShardChannels(redis)
        self._channel = keys.worker_channel(pool, worker)

    async def start(self) -> None:
        """Start listening."""
        await self._channels.subscribe(self._channel)

    async def __aiter__(self) -> AsyncIterator[tuple[str, str, Control]]:
        async for _, message in self._channels.messages():
            tenant, id, flags = msgspec.msgpack.decode(message)
            yield tenant, id, Control(flags)

    async def close(self) -> None:
        """Stop listening."""
        await self._channels.close()
