"""A reader goes on at its offset, whoever wrote meanwhile."""

from engine.api import LogReader
from tests.engine.builders import TENANT, append_to, pool
from tests.support.redis import Redis


async def test_a_reader_that_comes_back_misses_nothing_and_hears_nothing_twice(redis: Redis):
    """It says what it has; which gateway it asks does not matter, since the log is the truth."""
    p = pool(redis)
    log, claim = LogReader(p.redis, "default"), await p.running("w1")
    await p.queue.append("w1", [append_to(claim, ids=(1,), x="Once ")])
    heard = await log.read(TENANT, claim.id, 0, 100)
    assert [entry.x for entry in heard] == ["", "", "Once "]  # queued, running, text
    p.clock.advance(p.settings.worker_lease_ms + 1)  # its worker dies while nobody reads
    await p.queue.reap()
    await p.worker("w2")
    (taken,) = await p.claim("w2")
    await p.queue.append("w2", [append_to(taken, ids=(2,), x="upon")])
    rest = await log.read(TENANT, claim.id, heard[-1].o, 100)
    assert [entry.o for entry in (*heard, *rest)] == [1, 2, 3, 4, 5]
    assert "".join(entry.x for entry in (*heard, *rest)) == "Once upon"
