"""Hints survive a lost connection, and never grow without bound."""

from typing import Any

import pytest

from engine.api import HintChannel
from engine.queue import notifications as module
from tests.engine.builders import pool, request
from tests.support.patience import soon, wait_until
from tests.support.redis import Redis


async def test_hints_come_again_after_a_lost_connection(redis: Redis):
    """What was published while it was gone is lost; what comes later arrives."""
    p = pool(redis)
    hints = HintChannel(redis, "g1")
    await hints.follow(p.name)
    await hints.follow(p.name)
    assert await redis.client_kill_filter(_type="pubsub") == 1

    async def subscribed() -> bool:
        client: Any = redis
        return (await client.pubsub_shardnumsub(p.key("gw:g1")))[0][1] == 1

    await wait_until(subscribed)
    e = request(gateway="g1")
    await p.queue.enqueue(e)
    assert (await soon(anext(aiter(hints)))).id == e.id
    await hints.close()


async def test_unread_hints_are_bounded(redis: Redis, monkeypatch: pytest.MonkeyPatch):
    """At the limit the oldest go: a reader reads the log from its cursor anyway."""
    monkeypatch.setattr(module, "WAITING_HINTS_MAX", 3)
    p = pool(redis)
    hints = HintChannel(redis, "g1")
    await hints.follow(p.name)
    sent = [request(gateway="g1") for _ in range(6)]
    for e in sent:
        await p.queue.enqueue(e)
    stream = aiter(hints)
    heard = [(await soon(anext(stream))).id]
    while heard[-1] != sent[-1].id:
        heard.append((await soon(anext(stream))).id)
    assert heard == [e.id for e in sent][-len(heard) :]
    await hints.close()
