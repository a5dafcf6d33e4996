"""What engine, worker and queue do not agree on is put right within two looks, both ways."""

import pytest

from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from engine.api import ClaimOffer
from engine.backends.base import Generation
from engine.worker import worker as worker_module
from tests.engine.builders import FINGERPRINT, TENANT
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis

TEXT = "x" * 200


@pytest.fixture
def crew(redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> PoolWorkers:
    """Workers that look twenty times as often."""
    monkeypatch.setattr(worker_module, "RECONCILE_SECONDS", 0.25)
    return PoolWorkers(redis, settings)


def slow() -> ScriptedEngine:
    """Takes four seconds for the text."""
    return ScriptedEngine(saying(TEXT), step_seconds=0.02)


async def test_what_the_engine_runs_for_nobody_is_aborted(crew: PoolWorkers):
    """A generation that no claim belongs to ends; the answer beside it does not notice."""
    async with crew.worker(slow()) as worker:
        id = await crew.send()
        await crew.reaches(id, 3)
        ghost = Generation(id="ghost", prompt=[1], max_tokens=10_000, stop_ids=())
        await worker.engine.submit(ghost)
        await wait_until(lambda: "ghost" in worker.engine.aborted)
        await crew.ended(id)
    assert await crew.kinds(id) == ["queued", "running", "end"]


async def test_what_the_engine_lost_goes_back_in_line(crew: PoolWorkers):
    """Its claim is released and taken again; the answer is the same, the one beside it untouched."""
    async with crew.worker(slow()) as worker:
        lost = await crew.send()
        await crew.reaches(lost, 3)
        (key,) = worker.engine.unfinished()
        beside = await crew.send()
        await crew.reaches(beside, 3)
        await worker.engine.abort([key])
        for id in (lost, beside):
            assert (await crew.ended(id))["reason"] == "stop"
    assert await crew.text(lost) == await crew.text(beside) == TEXT
    assert await crew.kinds(lost) == ["queued", "running", "moved:lost", "end"]
    assert await crew.kinds(beside) == ["queued", "running", "end"]


async def test_claims_that_the_worker_never_heard_of_are_given_back(crew: PoolWorkers):
    """The reply to a claim was lost for good: the worker registers anew, and everything goes on."""
    crew.settings = crew.settings.model_copy(update={"worker_slots": 1})
    async with crew.worker(slow()) as worker:
        first = await crew.send()
        await crew.reaches(first, 3)
        stranded = await crew.send()
        offer = ClaimOffer(FINGERPRINT, 1, 100_000, 100_000)
        (claim,) = (await crew.queue.claim(worker.name, 10_000, offer)).claims
        assert claim.id == stranded
        for id in (first, stranded):
            assert (await crew.ended(id))["reason"] == "stop"
        assert await crew.queue.claimed(worker.name) == set()
    assert await crew.text(first) == await crew.text(stranded) == TEXT
    assert (TENANT, stranded) not in await crew.queue.claimed(worker.name)
