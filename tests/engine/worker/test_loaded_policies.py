"""Policies that a worker has to load: from the pool, before a token is sampled, holding up nothing else."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from engine.api import EntryKind, PinnedPolicy
from engine.queue import redis_keys
from engine.safety.documents import PolicyDocument, PolicyPattern, policy_hash, stored
from engine.safety.verdicts import Action
from engine.worker import policy_loader
from tests.engine.builders import TENANT
from tests.engine.workers import PoolWorkers, paused_at, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis

SECRET = "EMP-123456"
TEXT = f"Ask {SECRET} about it."
REDACTED = "Ask [EMPLOYEE_ID_1] about it."


def policy(pattern: str = "EMP-[0-9]{6}", action: Action = "redact") -> PinnedPolicy:
    """A tenant's own."""
    document = PolicyDocument(patterns=(PolicyPattern("employee_id", pattern, action, scope="tenant"),))
    return PinnedPolicy(policy_hash(document), stored(document))


@pytest.fixture
def crew(redis: Redis, settings: Settings) -> PoolWorkers:
    """Workers of an empty pool, who may read policies."""
    return PoolWorkers(redis, settings, as_worker=True)


def fast(text: str = TEXT) -> ScriptedEngine:
    """An engine that says this text at once."""
    return ScriptedEngine(saying(text), step_seconds=0)


async def flags(crew: PoolWorkers, id: str) -> int:
    """How many the log has."""
    return sum(entry.k is EntryKind.FLAGGED for entry in await crew.entries(id))


async def test_an_answer_is_filtered_by_a_policy_that_was_loaded_for_it(crew: PoolWorkers):
    """By its own one, and a second answer by what is there already."""
    async with crew.worker(fast()):
        for _ in range(2):
            id = await crew.send(policy=policy())
            assert (await crew.ended(id))["reason"] == "stop"
            assert await crew.text(id) == REDACTED
            await crew.redis.delete(redis_keys.policy(crew.pool, policy().hash))
            await crew.queue.store_policy(policy())


@pytest.mark.parametrize(
    "document", [None, b"", b"damaged", stored(PolicyDocument()), policy("EMP").document]
)
async def test_what_cannot_be_checked_ends_its_answer_alone(crew: PoolWorkers, document: bytes | None):
    """Nothing of it is sampled: it ends typed, the reason is told, and others go on."""
    sent = crew.request_of(policy=policy())
    await crew.queue.enqueue(sent)
    key = redis_keys.policy(crew.pool, policy().hash)
    if document is None:
        await crew.redis.delete(key)
    else:
        await crew.redis.set(key, document)
    with capture_logs() as logs:
        async with crew.worker(fast()):
            end = await crew.ended(sent.id)
            assert (end["reason"], end["code"], end["usage"]["output"]) == ("error", "internal", 0)
            assert await crew.text(sent.id) == ""
            other = await crew.send()
            assert (await crew.ended(other))["reason"] == "stop"
    [line] = [each for each in logs if each["event"] == "request.claim_unreadable"]
    assert line["id"] == sent.id
    assert policy().hash in line["error"]
    assert "EMP" not in str(line)


@pytest.mark.parametrize("broken", ["(", "a*", "x{300}"])
async def test_what_cannot_be_compiled_ends_its_answer(crew: PoolWorkers, broken: str):
    """Though it stands there under its own hash."""
    async with crew.worker(fast()):
        id = await crew.send(policy=policy(broken))
        end = await crew.ended(id)
        assert (end["reason"], end["code"]) == ("error", "internal")


async def test_others_do_not_wait_for_a_policy(crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch):
    """While it compiles, what runs goes on, and what comes is begun and ended."""
    go, at_work = asyncio.Event(), asyncio.Event()
    loop, original = asyncio.get_running_loop(), policy_loader.compiled

    def slow(document: PolicyDocument) -> Any:
        loop.call_soon_threadsafe(at_work.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
        return original(document)

    monkeypatch.setattr(policy_loader, "compiled", slow)
    async with crew.worker(fast()):
        try:
            id = await crew.send(policy=policy())
            await at_work.wait()
            other = await crew.send()
            assert (await crew.ended(other))["reason"] == "stop"
            assert await crew.kinds(id) == ["queued", "running"]
        finally:
            go.set()
        await crew.ended(id)
        assert await crew.text(id) == REDACTED


async def test_a_taken_over_answer_goes_on_under_its_own_policy(crew: PoolWorkers):
    """The next worker loads what the first one had, also where the tenant's policy is another one now."""
    async with crew.worker(paused_at(12, TEXT)) as first:
        id = await crew.send(policy=policy())
        await crew.reaches(id, 12)
        await crew.send(policy=policy("about", "block"))
    await crew.lose(first.name)
    async with crew.worker(fast()):
        end = await crew.ended(id)
    assert (await crew.text(id), end["reason"], await flags(crew, id)) == (REDACTED, "stop", 1)


async def test_a_policy_that_is_deleted_in_mid_stream_ends_nothing(crew: PoolWorkers):
    """Its worker has it; the next one does not, and ends it typed: no letter more is shown."""
    async with crew.worker(paused_at(12, TEXT)) as first:
        id = await crew.send(policy=policy())
        await crew.reaches(id, 12)
        await crew.redis.delete(redis_keys.policy(crew.pool, policy().hash))
        shown = await crew.text(id)
        first.engine.resume()
        assert (await crew.ended(id))["reason"] == "stop"
        assert await crew.text(id) == REDACTED
        assert REDACTED.startswith(shown)


async def test_a_taken_over_answer_whose_policy_is_lost_ends(crew: PoolWorkers):
    """With what was shown, and no letter more."""
    async with crew.worker(paused_at(12, TEXT)) as first:
        id = await crew.send(policy=policy())
        await crew.reaches(id, 12)
        shown = await crew.text(id)
    await crew.lose(first.name)
    await crew.redis.delete(redis_keys.policy(crew.pool, policy().hash))
    async with crew.worker(fast()):
        end = await crew.ended(id)
    assert (await crew.text(id), end["reason"], end["code"]) == (shown, "error", "internal")


async def test_a_draining_worker_gives_back_what_waits_for_a_policy(
    crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch
):
    """Another one takes it at once."""

    async def never(*_: object) -> str:
        await asyncio.Event().wait()
        return ""

    with monkeypatch.context() as patch:
        patch.setattr(policy_loader.PolicyLoader, "load", never)
        async with crew.worker(fast()) as first:
            id = await crew.send(policy=policy())

            async def claimed() -> bool:
                return await crew.kinds(id) == ["queued", "running"]

            await wait_until(claimed)
            first.stop.set()
            await first.task
    assert (TENANT, id) not in await crew.queue.claimed(first.name)
    async with crew.worker(fast()):
        assert (await crew.ended(id))["reason"] == "stop"
    assert await crew.kinds(id) == ["queued", "running", "moved:drain", "flagged", "end"]


async def test_many_tenants_with_a_policy_each(crew: PoolWorkers):
    """Each answer goes by its own one."""
    policies = [policy(f"EMP-[0-9]{{5}}[{at % 10}]", "redact" if at % 2 else "flag") for at in range(20)]
    async with crew.worker(fast(f"Ask {SECRET}.")):
        sent = [await crew.send(policy=each) for each in policies]
        for at, id in enumerate(sent):
            await crew.ended(id)
            hit = at % 10 == 6
            assert await crew.text(id) == f"Ask {SECRET}.", at
            assert await flags(crew, id) == int(hit)
