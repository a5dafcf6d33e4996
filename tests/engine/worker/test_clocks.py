"""Clocks that jump: a machine's own decides nothing, the server's doubles nothing and holds nothing up."""

import time
from typing import Any

import pytest

from billing import usage
from chaos.injected.scripted import ScriptedEngine
from core.clock import ServerClock
from core.configuration.settings import Settings
from engine.api import AppendCode
from tests.engine.builders import START_MS, append_to, pool, request
from tests.engine.workers import PoolWorkers, later, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis

HOUR_MS = 3_600_000
DEADLINE_MS = 30_000
JUMPS = [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS]
TEXT = "x" * 120


def jump(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """This machine's wall clock, all of it, from now on."""
    true_ns, true = time.time_ns, time.time
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + ms * 1_000_000)
    monkeypatch.setattr(time, "time", lambda: true() + ms / 1000)


@pytest.mark.parametrize("ms", JUMPS)
async def test_a_machines_clock_may_jump(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch, ms: int
):
    """No answer ends too early or too late, and its bill names the server's times."""
    crew = PoolWorkers(redis, settings)
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0.01)):
        goes_on, too_long = await crew.send(), await crew.send(deadline_ms=DEADLINE_MS)
        await crew.reaches(goes_on, 3)
        await crew.reaches(too_long, 3)
        jump(monkeypatch, ms)
        later(monkeypatch, DEADLINE_MS)
        assert (await crew.ended(too_long))["reason"] == "deadline"
        end = await crew.ended(goes_on)
    assert (end["reason"], await crew.text(goes_on)) == ("stop", TEXT)
    assert end["timing"]["total_ms"] < 60_000
    client: Any = redis
    for _, fields in await client.xrange(usage.ended_stream(crew.pool)):
        event = usage.decode(fields[b"e"])
        assert event.accepted_ms <= event.first_token_ms + 1_000 <= event.ended_ms + 2_000
        assert event.ended_ms - event.accepted_ms < 60_000


@pytest.mark.parametrize("ms", JUMPS)
async def test_a_worker_that_starts_with_a_wrong_clock(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch, ms: int
):
    """It serves like any other."""
    crew = PoolWorkers(redis, settings)
    id = await crew.send()
    jump(monkeypatch, ms)
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0)):
        end = await crew.ended(id)
    assert (end["reason"], await crew.text(id)) == ("stop", TEXT)
    assert 0 <= end["timing"]["total_ms"] < 60_000


async def test_the_servers_time_is_carried_on():
    """A slow answer replaces no quick one; the time between two looks is the monotonic clock's."""
    clock, looked = ServerClock(), [START_MS]

    async def look() -> int:
        return looked[0]

    await clock.set(look)
    assert 0 <= clock.now_ms() - START_MS < 1_000
    looked[0] += HOUR_MS
    await clock.set(look)
    assert 0 <= clock.now_ms() - START_MS - HOUR_MS < 1_000
    before = clock.now_ms()
    await wait_until(lambda: clock.now_ms() > before)


async def test_the_servers_clock_goes_forward(redis: Redis):
    """Every lease is over at once: all is reclaimed once, the late are fenced, each is claimed again."""
    p = pool(redis)
    held = {name: await _hold(p, name, 3) for name in ("w1", "w2", "w3")}
    p.clock.advance(HOUR_MS)
    assert [(await p.queue.reap()).requeued for _ in range(2)] == [9, 0]
    for name, claims in held.items():
        late = [append_to(claim, ids=(1,)) for claim in claims]
        assert {answer.code for answer in await p.queue.append(name, late)} == {AppendCode.FENCED}
        assert not (await p.queue.renew(name, 0, {})).alive
    again = [claim for name in ("v1", "v2", "v3") for claim in await p.claim(await p.worker(name))]
    assert sorted(claim.id for claim in again) == sorted(c.id for claims in held.values() for c in claims)
    assert {(claim.deaths, claim.epoch, claim.cn) for claim in again} == {(1, 1, 2)}
    await p.queue.enqueue(request(deadline_ms=START_MS + 100 * HOUR_MS))
    view = await p.queue.enqueue(request(deadline_ms=p.clock() + 600_000))
    assert getattr(view, "wait_ms", HOUR_MS) < 600_000, "an hour's jump is no pace"


async def test_the_servers_clock_goes_back(redis: Redis):
    """A dead worker's lease does not last until the hour has come again, nor a preempted request's rest."""
    p = pool(redis)
    (claim, preempted) = await _hold(p, "dead", 2)
    await p.worker("other")
    await p.queue.unclaim("dead", preempted.tenant, preempted.id, preempted.ck, "preempt")
    p.clock.advance(-HOUR_MS)
    assert (await p.queue.reap()).requeued == 0
    await p.queue.renew("other", 0, {"kv_tokens": 100_000})
    assert [taken.id for taken in await p.claim("other")] == [preempted.id]
    requeued = 0
    for _ in range(70):
        p.clock.advance(1_000)
        await p.queue.renew("other", 0, {"kv_tokens": 100_000})
        requeued += (await p.queue.reap()).requeued
    assert requeued == 1
    assert [taken.id for taken in await p.claim("other")] == [claim.id]


async def _hold(p: Any, name: str, count: int) -> list[Any]:
    """So many requests with a deadline far away, claimed by a worker."""
    await p.worker(name)
    for _ in range(count):
        await p.queue.enqueue(request(deadline_ms=START_MS + 100 * HOUR_MS))
    return await p.claim(name)
