"""The worker on a real queue: what readers find in the log, whoever dies in between."""

import hashlib
import json
from typing import Any

import pytest

from billing import usage
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from engine.api import ClaimOffer, Control, EntryKind, PriorityClass
from engine.backends.base import EngineDeadError
from tests.engine.builders import FINGERPRINT, HOUR_MS, TENANT, append_to
from tests.engine.tokens import EOS, ids_of
from tests.engine.workers import PROMPT, PoolWorkers, later, paused_at, pausing, saying
from tests.support.patience import patience, wait_until
from tests.support.redis import Redis

TEXT = "Zażółć 日本語 👩‍👩‍👧 naïve.\n\nThe end of it."


@pytest.fixture
def crew(redis: Redis, settings: Settings) -> PoolWorkers:
    """Workers of an empty pool."""
    return PoolWorkers(redis, settings, as_worker=True)


def fast(text: str) -> ScriptedEngine:
    """An engine that says this text at once."""
    return ScriptedEngine(saying(text), step_seconds=0)


async def test_an_answer_is_in_the_log_with_its_end_and_its_usage(crew: PoolWorkers):
    """INV-14: Offsets are dense, positions join, the end names hash, usage and cost, and the pool's stream
    has the event."""
    async with crew.worker(fast(TEXT)):
        id = await crew.send()
        end = await crew.ended(id)
    entries = await crew.entries(id)
    assert [entry.o for entry in entries] == list(range(1, len(entries) + 1))
    texts = [entry for entry in entries if entry.k is EntryKind.TEXT]
    assert "".join(entry.x for entry in texts) == TEXT
    assert [entry.p for entry in texts] == [sum(len(e.x) for e in texts[:at]) for at in range(len(texts))]
    assert all(entry.r == entry.p + len(entry.x) for entry in texts)
    assert end["reason"] == "stop"
    assert end["h"] == hashlib.sha256(TEXT.encode()).hexdigest()
    output = len(TEXT.encode()) + 1
    assert end["usage"] == {"input": len(PROMPT), "cached_input": 0, "output": output, "total": 8 + output}
    client: Any = crew.redis
    [(_, fields)] = await client.xrange(usage.ended_stream(crew.pool))
    event = usage.decode(fields[usage.ENDED_FIELD.encode()])
    assert (event.request, event.output_text, event.cost_nano) == (id, output, end["cost"]["nano"])
    assert event.accepted_ms <= event.claimed_ms <= event.first_token_ms <= event.ended_ms


@pytest.mark.parametrize("n", [1, 3, 8, 9, 15, 22, 30, 55])
async def test_another_worker_continues_a_dead_ones_answer(crew: PoolWorkers, n: int):
    """INV-9: Killed at any token, inside a character or a stop string too: same text, same ids, every id
    billed once."""
    async with crew.worker(paused_at(n, TEXT)) as first:
        id = await crew.send(stop=["END", "\n\n\n"])
        await crew.reaches(id, n)
    await crew.lose(first.name)
    async with crew.worker(fast(TEXT)):
        end = await crew.ended(id)
    assert await crew.text(id) == TEXT
    assert end["usage"]["output"] == len(TEXT.encode()) + 1
    assert end["h"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert await crew.kinds(id) == ["queued", "running", "moved:lost", "end"]


@pytest.mark.parametrize("n", [3, 5, 6, 7, 8])
async def test_a_stop_string_across_a_seam_is_found(crew: PoolWorkers, n: int):
    """INV-22: The dead worker saw its beginning, the next one its end; readers see neither."""
    async with crew.worker(paused_at(n, "abcdSTOPnever")) as first:
        id = await crew.send(stop=["STOP"])
        if n < 8:
            await crew.reaches(id, n)
    await crew.lose(first.name)
    async with crew.worker(fast("abcdSTOPnever")):
        end = await crew.ended(id)
    assert await crew.text(id) == "abcd"
    assert end["reason"] == "stop"
    assert end["usage"]["output"] == 8


async def test_stop_strings_wait_for_min_tokens_and_length_ends(crew: PoolWorkers):
    """A stop string inside the first min_tokens is text; max_tokens ends with what was held back."""
    async with crew.worker(fast("aXbXcXdX")):
        stopped = await crew.send(stop=["X"], min_tokens=4)
        assert (await crew.ended(stopped))["reason"] == "stop"
        assert await crew.text(stopped) == "aXbXc"
        long = await crew.send(stop=["dY"], max_tokens=7)
        assert (await crew.ended(long))["reason"] == "length"
        assert await crew.text(long) == "aXbXcXd"


async def test_cancel_reaches_the_engine_and_keeps_what_was_said(crew: PoolWorkers):
    """The flag wakes the worker; the end has the logged text and bills the sampled ids."""
    async with crew.worker(paused_at(5, "abcdefgh")) as worker:
        id = await crew.send()
        await crew.reaches(id, 5)
        await crew.queue.control(TENANT, id, Control.CANCEL)
        end = await crew.ended(id)
        assert len(worker.engine.aborted) == 1
        assert not worker.engine.unfinished()
    assert end["reason"] == "cancelled"
    assert end["usage"]["output"] == 5
    assert await crew.text(id) == "abcde"


async def test_an_answer_that_was_complete_is_ended_without_the_engine(crew: PoolWorkers):
    """A worker that died between the last id and the end: the next one must not generate past it."""
    id = await crew.send()
    await crew.queue.register("dead", FINGERPRINT, {"kv_tokens": 1000})
    claim = (await crew.queue.claim("dead", 1, ClaimOffer(FINGERPRINT, 1, 1000, 1000))).claims[0]
    await crew.queue.append("dead", [append_to(claim, ids=(*ids_of("done"), EOS), x="done")])
    await crew.lose("dead")
    async with crew.worker(fast("never")) as worker:
        end = await crew.ended(id)
        assert worker.engine.stats().steps == 0
    assert end["reason"] == "stop"
    assert end["usage"]["output"] == 5
    assert await crew.text(id) == "done"


async def test_preempted_and_parked_answers_continue_later(crew: PoolWorkers):
    """Both give the engine's memory back; the answer is the same as without them."""
    async with crew.worker(paused_at(4, TEXT)) as worker:
        id = await crew.send()
        await crew.reaches(id, 4)
        await crew.queue.control(TENANT, id, Control.PREEMPT)
        await wait_until(lambda: worker.engine.aborted)
        worker.engine.next_token = saying(TEXT)
        worker.engine.step_seconds = 0.01
        worker.engine.resume()
        await crew.reaches(id, 10)
        await crew.queue.park(TENANT, id)
        await wait_until(lambda: crew.is_parked(id))
        await crew.queue.unpark(TENANT, id)
        await crew.ended(id)
    assert await crew.text(id) == TEXT
    assert await crew.kinds(id) == ["queued", "running", "moved:preempt", "parked", "resumed", "end"]


async def test_the_deadline_ends_an_answer_with_what_it_has(
    crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch
):
    """It is the worker's to end while the worker has it."""
    async with crew.worker(paused_at(3, TEXT)) as worker:
        id = await crew.send(deadline_ms=HOUR_MS)
        await crew.reaches(id, 3)
        later(monkeypatch, HOUR_MS)
        end = await crew.ended(id)
        assert len(worker.engine.aborted) == 1
    assert end["reason"] == "deadline"
    assert end["usage"]["output"] == 3


async def test_a_draining_worker_gives_its_answers_back(crew: PoolWorkers):
    """Told to stop it logs all it has, releases, and leaves the pool; nothing counts as a death."""
    async with crew.worker(paused_at(6, TEXT)) as worker:
        ids = [await crew.send() for _ in range(3)]
        for id in ids:
            await crew.reaches(id, 6)
        worker.stop.set()
        async with patience():
            await worker.task
    assert await crew.queue.workers() == []
    async with crew.worker(fast(TEXT)):
        for id in ids:
            await crew.ended(id)
            assert await crew.text(id) == TEXT
            assert await crew.kinds(id) == ["queued", "running", "moved:drain", "end"]


async def test_a_worker_that_lost_its_lease_is_fenced(crew: PoolWorkers):
    """It was cut off while another took its work: what it still writes does not count, and it stops
    generating."""
    slow = ScriptedEngine(saying("a" * 200), step_seconds=0.01)
    async with crew.worker(slow) as worker:
        id = await crew.send()
        await crew.reaches(id, 3)
        await crew.lose(worker.name)
        async with crew.worker(fast("a" * 200)):
            end = await crew.ended(id)
        await wait_until(lambda: slow.aborted and not slow.unfinished())
        assert await wait_until(crew.queue.workers)
        assert end["usage"]["output"] == 201
        assert await crew.text(id) == "a" * 200


async def test_a_lost_tail_is_appended_again(crew: PoolWorkers):
    """Redis came back with less: the worker that knows better repeats it, under the same offsets."""
    client: Any = crew.redis
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0.01)) as worker:
        worker.engine.next_token = pausing(saying(TEXT), 4, lambda: worker.engine)
        id = await crew.send()
        await crew.reaches(id, 4)
        keys = [f"{{p:default}}{kind}:{TENANT}:{id}" for kind in ("req", "tok", "log")]
        saved = [await client.dump(key) for key in keys]
        worker.engine.next_token = pausing(saying(TEXT), 12, lambda: worker.engine)
        worker.engine.resume()
        await crew.reaches(id, 12)
        before = await crew.entries(id)
        long = await client.xlen(keys[-1])
        async with client.pipeline(transaction=True) as back:  # at once: the worker may look at any moment
            for key, value in zip(keys, saved, strict=True):
                back.restore(key, 0, value, replace=True)
            back.xlen(keys[-1])
            *_, short = await back.execute()
        assert short < long
        worker.engine.resume()
        await crew.ended(id)
    entries = await crew.entries(id)
    assert entries[: len(before)] == before
    assert [entry.o for entry in entries] == list(range(1, len(entries) + 1))
    assert await crew.text(id) == TEXT


async def test_an_end_that_redis_lost_is_appended_again(crew: PoolWorkers):
    """Redis comes back as it was before the answer's last words: its worker still has them, and says them."""
    client: Any = crew.redis
    async with crew.worker(paused_at(4, TEXT)) as worker:
        id = await crew.send()
        await crew.reaches(id, 4)
        dumped = {key: await client.dump(key) for key in await client.keys("*")}
        saved = {key: value for key, value in dumped.items() if value is not None}  # others have just expired
        worker.engine.next_token = saying(TEXT)
        worker.engine.resume()
        end = await crew.ended(id)
        before = await crew.entries(id)
        log = f"{{p:default}}log:{TENANT}:{id}"
        long = await client.xlen(log)
        async with client.pipeline(transaction=True) as back:  # at once: the worker may look at any moment
            back.flushdb()
            for key, value in saved.items():
                back.restore(key, 0, value)
            back.xlen(log)
            *_, short = await back.execute()
        assert short < long
        assert await crew.ended(id) == end
        [_] = await client.xrange(usage.ended_stream(crew.pool))
        assert await crew.queue.claimed(worker.name) == set()
    assert await crew.entries(id) == before
    assert worker.engine.unfinished() == set()


async def test_a_log_that_takes_nothing_does_not_hold_up_the_others(crew: PoolWorkers):
    """One request whose keys are broken is given back as an error; the rest of the flush goes through."""
    client: Any = crew.redis
    async with crew.worker(paused_at(4, TEXT)) as worker:
        broken, good = await crew.send(), await crew.send()
        await crew.reaches(broken, 4)
        await crew.reaches(good, 4)
        await client.set(f"{{p:default}}log:{TENANT}:{broken}", "not a stream")
        worker.engine.resume()
        await crew.ended(good)
        assert await crew.text(good) == TEXT


async def test_the_death_of_the_engine_ends_the_worker(crew: PoolWorkers):
    """It is final: the supervisor starts another process."""
    async with crew.worker(fast(TEXT)) as worker:
        worker.engine.die()
        with pytest.raises(EngineDeadError):
            await worker.task


async def test_many_answers_share_one_append_a_flush(crew: PoolWorkers):
    """32 answers cost as many calls as one."""
    client: Any = crew.redis
    engine = ScriptedEngine(saying("x" * 40), step_seconds=0.02)
    async with crew.worker(engine):
        ids = [await crew.send() for _ in range(32)]
        before = await client.info("commandstats")
        for id in ids:
            await crew.ended(id)
        after = await client.info("commandstats")
    appends = after["cmdstat_evalsha"]["calls"] - before.get("cmdstat_evalsha", {"calls": 0})["calls"]
    assert appends < 4 * engine.stats().steps + 64
    assert all([json.loads((await crew.entries(id))[-1].v)["usage"]["output"] == 41 for id in ids])


async def test_a_worker_says_what_a_step_takes(crew: PoolWorkers):
    """By what it learned from its engine's steps, in the lease that it renews: at first half a second."""
    async with crew.worker(ScriptedEngine(saying("x" * 200), step_seconds=0.02)):
        id = await crew.send()

        async def learned() -> bool:
            info = [worker.info for worker in await crew.queue.workers()]
            return bool(info) and info[0].get("steps", 0) > 20 and 15 <= info[0]["step_predicted_ms"] <= 25

        await wait_until(learned)
        await crew.ended(id)


async def test_bulk_work_leaves_a_full_worker_for_interactive_work(crew: PoolWorkers):
    """It goes on behind it, with nothing lost: a worker without a free slot asks whether something shall
    leave."""
    crew.settings = crew.settings.model_copy(update={"worker_slots": 1})
    async with crew.worker(ScriptedEngine(saying("x" * 250), step_seconds=0.02)):
        bulk = await crew.send(priority=PriorityClass.BULK)
        await crew.reaches(bulk, 3)
        urgent = await crew.send(max_tokens=5)
        await crew.ended(urgent)
        assert EntryKind.END not in [entry.k for entry in await crew.entries(bulk)]
        await crew.ended(bulk)
    assert await crew.text(bulk) == "x" * 250
    assert await crew.kinds(bulk) == ["queued", "running", "moved:preempt", "end"]


async def test_a_hung_engine_loses_its_work(crew: PoolWorkers):
    """Its process lives and renews, but not for a step that does not end; the reaper gives the work away."""
    async with crew.worker(paused_at(5, TEXT)):
        id = await crew.send()
        await crew.reaches(id, 5)

        async def taken() -> int:
            return (await crew.queue.reap()).requeued

        assert await wait_until(taken, interval=0.1) == 1
        async with crew.worker(fast(TEXT)):
            await crew.ended(id)
        assert await crew.text(id) == TEXT
