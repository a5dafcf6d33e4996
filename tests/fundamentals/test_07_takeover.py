"""Any worker goes on at any token; the one before is fenced."""

from engine.api import AppendCode
from tests.engine.builders import append_to, pool, tokens
from tests.support.redis import Redis


async def test_another_worker_goes_on_where_the_log_ends(redis: Redis):
    """The lease of the first runs out, and the reaper puts its request back in line, at its old place. Should
    it still live, nothing that it says is taken: its claim token is not the newest."""
    p = pool(redis)
    first = await p.running("w1")
    await p.queue.append("w1", [append_to(first, ids=(72, 105), x="Hi")])
    p.clock.advance(p.settings.worker_lease_ms + 1)
    assert (await p.queue.reap()).requeued == 1
    await p.worker("w2")
    (second,) = await p.claim("w2")
    assert (second.id, second.n, second.tokens) == (first.id, 2, tokens(72, 105))
    (late,) = await p.queue.append("w1", [append_to(first, ids=(1,), x="?")])
    assert late.code is AppendCode.FENCED
    (done,) = await p.queue.append("w2", [append_to(second, ids=(33,), x="!")])
    assert (done.code, done.n) == (AppendCode.OK, 3)
