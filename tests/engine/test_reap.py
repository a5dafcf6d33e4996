"""The reaper's round at its edges, on a real Valkey: what is left alone until its time."""

import redis.asyncio

from tests.engine.builders import pool, request


async def test_what_waits_for_a_model_of_which_nobody_ever_heard_ends(redis: redis.asyncio.Redis):
    """After as long as one whose last worker went."""
    p = pool(redis)
    e = request(fingerprint="of nobody")
    await p.queue.enqueue(e)
    p.clock.advance(119_999)
    assert (await p.queue.reap()).expired == []
    p.clock.advance(1)
    assert [(x.id, x.reason, x.code) for x in (await p.queue.reap()).expired] == [
        (e.id, "error", "engine_lost")
    ]
