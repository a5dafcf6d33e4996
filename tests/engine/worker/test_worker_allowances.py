"""A worker whose grants do not come: what its readers and the others see, on a real queue."""

from collections.abc import Awaitable

import msgspec
import pytest
from redis.exceptions import ConnectionError, ResponseError

from billing.api import AllowanceExtension, Quota
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from engine.api import Enqueued
from engine.worker import core
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis

TEXT = "Zażółć 日本語 naïve. " * 12
GRANTED = 9


class TenantKeysStub:
    """The tenant's slot: away, broken or there."""

    def __init__(self) -> None:
        self.error: Exception | None = ConnectionError("away")
        self.asked = 0

    async def extend(self, to_tokens: int) -> AllowanceExtension:
        """As Quota has it."""
        self.asked += 1
        if self.error is not None:
            raise self.error
        return AllowanceExtension(to_tokens)


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch) -> TenantKeysStub:
    """A slot that is away; who waits for it for 0.3 s makes room."""
    slot = TenantKeysStub()
    monkeypatch.setattr(core, "WAIT_MS_MAX", 300)

    def extend(quota: Quota, tenant: str, id: str, to_tokens: int) -> Awaitable[AllowanceExtension]:
        return slot.extend(to_tokens)

    monkeypatch.setattr(Quota, "extend", extend)
    return slot


@pytest.fixture
def crew(redis: Redis, settings: Settings) -> PoolWorkers:
    """Workers with one slot each."""
    return PoolWorkers(redis, settings.model_copy(update={"worker_slots": 1}), as_worker=True)


async def send(crew: PoolWorkers, granted: int) -> str:
    """A request of which so many tokens are granted."""
    asked = crew.request_of(max_tokens=1000)
    placed = await crew.queue.enqueue(msgspec.structs.replace(asked, granted=granted))
    assert isinstance(placed, Enqueued)
    return asked.id


def fast() -> ScriptedEngine:
    """Says the text at once."""
    return ScriptedEngine(saying(TEXT), step_seconds=0)


async def test_an_unreachable_slot_parks_the_answer_and_the_others_go_on(
    crew: PoolWorkers, slot: TenantKeysStub
):
    """At the last granted token it waits, then gives up its place; when the slot is back, so is the answer,
    whole."""
    async with crew.worker(fast()):
        id = await send(crew, GRANTED)
        await wait_until(lambda: crew.is_parked(id))
        assert len(await crew.queue.tokens("t1", id)) // 4 == GRANTED
        other = await send(crew, 1000)
        assert (await crew.ended(other))["reason"] == "stop"
        slot.error = None
        end = await crew.ended(id)
    assert (end["reason"], await crew.text(id)) == ("stop", TEXT)
    assert end["usage"]["output"] == len(TEXT.encode()) + 1
    assert await crew.kinds(id) == ["queued", "running", "parked", "resumed", "end"]
    assert slot.asked < 100


async def test_a_worker_that_dies_over_it_loses_nothing(crew: PoolWorkers, slot: TenantKeysStub):
    """The next one begins at the last granted token."""
    async with crew.worker(fast()):
        id = await send(crew, GRANTED)
        await crew.reaches(id, GRANTED)
    await crew.lose("w0")
    slot.error = None
    async with crew.worker(fast()):
        end = await crew.ended(id)
    assert (end["reason"], await crew.text(id)) == ("stop", TEXT)


async def test_a_slot_that_cannot_be_read_ends_the_answer(crew: PoolWorkers, slot: TenantKeysStub):
    """What is left of its budget will never be known: it ends at its last granted token."""
    slot.error = ResponseError("WRONGTYPE")
    async with crew.worker(fast()):
        id = await send(crew, GRANTED)
        end = await crew.ended(id)
    assert (end["reason"], end["usage"]["output"]) == ("budget", GRANTED)
    assert await crew.text(id) == TEXT.encode()[:GRANTED].decode(errors="ignore")
