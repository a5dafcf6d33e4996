"""Tokens and text go into one append-only log: the request is what is written there."""

from engine.api import AppendCode, LogReader
from tests.engine.builders import TENANT, append_to, pool
from tests.support.redis import Redis


async def test_a_flush_is_one_commit(redis: Redis):
    """Token ids for the next worker, text for readers: both or neither. A repetition is seen to be one."""
    p = pool(redis)
    claim = await p.running()
    flush = append_to(claim, ids=(72, 105), x="Hi")
    (done,) = await p.queue.append("w1", [flush])
    assert (done.code, done.n, done.o) == (AppendCode.OK, 2, claim.o + 1)
    (again,) = await p.queue.append("w1", [flush])
    assert (again.code, again.n, again.o) == (AppendCode.DUP, done.n, done.o)
    assert await LogReader(p.redis, "default").text_through(TENANT, claim.id, done.o) == "Hi"
    assert await p.kinds(TENANT, claim.id) == ["queued", "running", "t"]
