"""The wait that is predicted when a request comes in, beside the wait that it then had."""

import statistics
from typing import Any

import pytest

from billing import usage
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.errors import Refusal
from engine.api import Enqueued
from tests.engine.builders import Pool, pool, request
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import START_SECONDS, pause, wait_until
from tests.support.redis import Redis

BURST, BURSTS = 12, 5
DEADLINE_MS = 4_000
TOKENS = 20


@pytest.fixture
def crew(redis: Redis, settings: Settings) -> PoolWorkers:
    """Workers of an empty pool, four answers at a time."""
    return PoolWorkers(redis, settings.model_copy(update={"worker_slots": 4}))


async def test_requests_that_come_free_together_count_as_many(redis: Redis):
    """Nine a second: eight at once, and one just behind them."""
    p = pool(redis)
    await p.worker()
    for _ in range(100):
        await p.queue.enqueue(request())
    for _ in range(8):
        assert len(await _second(p)) == 9
    reply = await p.queue.enqueue(request())
    assert isinstance(reply, Enqueued)
    assert reply.position * 80 <= reply.wait_ms <= reply.position * 130


async def test_an_overloaded_pool_predicts_the_wait_that_comes(crew: PoolWorkers):
    """Within a factor of five for most, on a machine that does other things, too."""
    async with crew.worker(ScriptedEngine(saying("x" * 256), step_seconds=0.01)):
        predicted = await _flooded(crew)
        came = await _waits(crew, predicted)
    later = list(predicted)[BURST:]
    ratios = [predicted[id] / max(1, came[id]) for id in later]
    print(f"predicted of what came: {statistics.quantiles(ratios, n=10)}")
    assert 0.2 <= statistics.median(ratios) <= 5


async def test_work_that_would_time_out_is_refused(redis: Redis):
    """What is accepted is predicted to start in time, and some of it does; what is refused is told when to
    come back."""
    p = pool(redis)
    await p.worker()
    for _ in range(100):
        await p.queue.enqueue(request())
    for _ in range(8):
        await _second(p)
    asked = [request(deadline_ms=p.clock() + DEADLINE_MS) for _ in range(150)]
    replies = [await p.queue.enqueue(each) for each in asked]
    refused = [reply for reply in replies if isinstance(reply, Refusal)]
    waits = [reply.wait_ms for reply in replies if isinstance(reply, Enqueued)]
    started = {id for _ in range(DEADLINE_MS // 1000) for id in await _second(p)}
    in_time = [each.id in started for each, reply in zip(asked, replies, strict=True) if reply not in refused]
    print(f"{len(refused)} refused, {sum(in_time)} of {len(waits)} accepted started in time")
    assert {(each.code, each.retry) for each in refused} == {("overloaded", True)}
    assert all((each.after_ms or 0) >= 1_000 for each in refused)
    assert 0 < max(waits) <= DEADLINE_MS
    assert sum(in_time) >= len(in_time) / 2


async def _second(p: Pool) -> list[str]:
    """Nine requests start in it."""
    p.clock.advance(990)
    claims = [*await p.claim(slots=8)]
    p.clock.advance(10)
    claims += await p.claim(slots=1)
    await p.queue.renew("w1", 0, {})
    return [claim.id for claim in claims]


async def _put(crew: PoolWorkers, **changes: Any) -> tuple[str, Enqueued | Refusal]:
    asked = crew.request_of(max_tokens=TOKENS, **changes)
    return asked.id, await crew.queue.enqueue(asked)


async def _flooded(crew: PoolWorkers) -> dict[str, int]:
    """The predicted waits by id, of more than the worker can do in that time."""
    predicted: dict[str, int] = {}
    for _ in range(BURSTS):
        for _ in range(BURST):
            id, reply = await _put(crew)
            assert isinstance(reply, Enqueued)
            predicted[id] = reply.wait_ms
        await pause()
    return predicted


async def _waits(crew: PoolWorkers, ids: dict[str, int]) -> dict[str, int]:
    """ms in line of each, once all of them have ended."""

    async def ended() -> dict[str, int]:
        rows: Any = await crew.redis.xrange(f"{{p:{crew.pool}}}ended")
        events = [usage.decode(fields[b"e"]) for _, fields in rows]
        waits = {event.request: (event.claimed_ms or event.ended_ms) - event.accepted_ms for event in events}
        return {id: waits[id] for id in ids} if ids.keys() <= waits.keys() else {}

    return await wait_until(ended, START_SECONDS)
