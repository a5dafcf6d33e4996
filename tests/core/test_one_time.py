"""What is good once stays so when a connection is lost between the mark and its reply."""

from typing import Any

import pytest
from redis.exceptions import ConnectionError as ConnectionLost

from core.redis.client import RedisClient
from core.redis.one_time import use_once
from tests.support.redis import Redis


async def test_a_mark_whose_reply_was_lost_is_ones_own(
    redis: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first who shows it gets in though the connection broke; the second does not."""
    assert isinstance(redis, Redis)
    call, lost = redis.multiplexed.call, 0

    async def losing(*command: Any) -> Any:
        nonlocal lost
        reply = await call(*command)
        if not lost:
            lost += 1
            raise ConnectionLost("the connection was lost")
        return reply

    monkeypatch.setattr(redis.multiplexed, "call", losing)
    assert await use_once(redis, "once", 1_000)
    assert lost == 1
    assert not await use_once(redis, "once", 1_000)
