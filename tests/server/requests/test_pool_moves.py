"""Requests that move to another pool under their readers: a real gateway, two pools of scripted workers."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from billing.usage import ENDED_FIELD, UsageEvent, decode, ended_stream
from chaos.injected.scripted import ScriptedEngine
from engine.api import Control, MigratedTo, Migrator
from parley_client import Client
from tests.engine.workers import PoolWorkers
from tests.server.site import Site, saying
from tests.support.patience import patience, wait_until
from tests.system.wire import wired

TEXT = "Elbe, Oder and Neiße: 川 🌊. " * 6
OTHER = "other"


@dataclass
class Pools:
    """The gateway's own pool and another one, each with a worker that says TEXT."""

    site: Site
    crew: PoolWorkers
    mover: Migrator
    engines: list[ScriptedEngine]

    async def move(self, id: str, back: bool = False) -> None:
        """Move a request to the other pool, or back."""
        names = (self.site.settings.pool, OTHER)
        source, dest = reversed(names) if back else names
        assert await self.mover.migrate(source, self.site.tenant, id, dest) == MigratedTo(dest)

    async def says(self, id: str, tokens: int) -> None:
        """Until that many tokens of an answer are logged in the gateway's own pool."""

        async def enough() -> bool:
            return len(await self.site.crew.queue.tokens(self.site.tenant, id)) >= 4 * tokens

        await wait_until(enough)

    async def events(self, pool: str) -> list[UsageEvent]:
        """What a pool would have billed."""
        redis: Any = self.site.redis
        return [decode(fields[ENDED_FIELD.encode()]) for _, fields in await redis.xrange(ended_stream(pool))]


@asynccontextmanager
async def two_pools(site: Site, step_seconds: float = 0.01) -> AsyncGenerator[Pools]:
    """Both pools at work."""
    crew = PoolWorkers(site.redis, site.settings, OTHER, as_worker=True)
    engines = [ScriptedEngine(saying(TEXT), step_seconds=step_seconds) for _ in range(2)]
    async with AsyncExitStack() as stack:
        for each, engine in zip((site.crew, crew), engines, strict=True):
            await stack.enter_async_context(each.worker(engine))
        yield Pools(site, crew, Migrator(site.redis, site.settings, site.settings.keyring), engines)


async def test_an_answer_goes_on_in_another_pool_under_its_reader(gateway: Site):
    """No gap, nothing twice, the hash is the text's, its reader is told `moved`, one pool bills it, once."""
    async with two_pools(gateway) as pools, wired(gateway.url, gateway.key) as wire:
        reading = await wire.send("Name three rivers.")
        while len(reading.text) < 40:
            await wire.hear()
        await pools.move(reading.id)
        shown = len(reading.text)
        await wire.finish(reading)
        assert shown < len(TEXT)
        assert reading.text == TEXT
        assert reading.kinds.count("moved") == 1
        assert reading.end is not None
        assert reading.end["h"] == hashlib.sha256(TEXT.encode()).hexdigest()
        assert reading.end["usage"]["output"] == len(TEXT.encode()) + 1
        assert await pools.events("default") == []
        (event,) = await pools.events(OTHER)
        assert (event.request, event.pool, event.claims) == (reading.id, OTHER, 2)
        assert event.cost_nano == reading.end["cost"]["nano"]
        await wait_until(lambda: not pools.engines[0].unfinished())


async def test_there_and_back_and_there_again(gateway: Site):
    """Every move is a pause; the text stays one."""
    async with two_pools(gateway) as pools, wired(gateway.url, gateway.key) as wire:
        reading = await wire.send("Name three rivers.")
        for back in (False, True, False):
            shown = len(reading.text)
            while len(reading.text) < shown + 20:
                await wire.hear()
            await pools.move(reading.id, back)
        await wire.finish(reading)
    assert reading.text == TEXT
    assert reading.kinds.count("moved") == 3
    assert [len(await pools.events(pool)) for pool in ("default", OTHER)] == [0, 1]


async def test_many_readers_of_many_answers_follow(gateway: Site):
    """16 answers, some read by two connections, all moved while they are read."""
    async with two_pools(gateway) as pools, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(gateway.url, gateway.key, backoff_seconds=0.1))
            for _ in range(2)
        ]
        answers = [await clients[at % 2].send(f"{at}") for at in range(16)]
        again = [await clients[1 - at % 2].attach(answers[at].id) for at in range(4)]
        reading = [asyncio.create_task(answer.end()) for answer in [*answers, *again]]
        await asyncio.gather(*(pools.says(answer.id, 10) for answer in answers))
        await asyncio.gather(*(pools.move(answer.id) for answer in answers))
        async with patience():
            ends = await asyncio.gather(*reading)
        assert {answer.text for answer in [*answers, *again]} == {TEXT}
        assert {end.reason for end in ends} == {"stop"}
        assert sum(client.counters.verified for client in clients) == 20
        assert {client.counters.mismatched for client in clients} == {0}
        billed = Counter(event.request for event in await pools.events(OTHER))
        assert billed == dict.fromkeys((answer.id for answer in answers), 1)


async def test_what_a_client_asks_for_finds_the_other_pool(gateway: Site):
    """After a move: the same send, another connection's attach and cancel, each through the directory."""
    async with two_pools(gateway) as pools, gateway.welcomed() as peer, gateway.welcomed() as other:
        id = await peer.send("hi")
        await peer.hear("delta")
        await pools.move(id)
        await other.send("hi", id=id)
        accepted = await other.hear("accepted")
        assert (accepted["id"], accepted["dup"]) == (id, True)
        async with gateway.welcomed() as third:
            await third.tell("attach", id=id, o=0)
            assert (await third.hear("attached"))["from"] == 1
            await third.tell("cancel", id=id)
            assert (await third.hear("cancel_ok"))["state"] in ("queued", "running")
            for each in (peer, other, third):
                assert (await each.hear("end"))["reason"] == "cancelled"
        (event,) = await pools.events(OTHER)
        assert event.reason == "cancelled"


async def test_a_move_that_hangs_is_a_pause(gateway: Site, monkeypatch: pytest.MonkeyPatch):
    """Its mover died after the first step: the gateway's reaper finishes, and a cancel meanwhile counts."""
    async with two_pools(gateway) as pools, wired(gateway.url, gateway.key) as wire:
        readings = [await wire.send("Name three rivers.") for _ in range(2)]
        while min(len(reading.text) for reading in readings) < 20:
            await wire.hear()
        with monkeypatch.context() as patch:
            patch.setattr(Migrator, "_finish", _dies)
            for reading in readings:
                with pytest.raises(ConnectionError):
                    await pools.move(reading.id)
        await gateway.crew.queue.control(gateway.tenant, readings[1].id, Control.CANCEL)
        for reading in readings:
            await wire.finish(reading)
    reasons = [reading.end["reason"] for reading in readings if reading.end]
    assert reasons == ["stop", "cancelled"]
    assert readings[0].text == TEXT
    assert TEXT.startswith(readings[1].text)


async def _dies(*_: object) -> bool:
    raise ConnectionError


async def test_a_conversation_goes_on_after_its_answer_moved(gateway: Site):
    """The answer is recorded from the pool that ended it, and the next turn remembers it."""
    async with two_pools(gateway) as pools, wired(gateway.url, gateway.key) as wire:
        conversation = "0197f3c2-7c00-7000-8000-000000000001"
        first = await wire.send("One.", conversation=conversation)
        while not first.text:
            await wire.hear()
        await pools.move(first.id)
        await wire.finish(first)
        second = await wire.finish(await wire.send("Two.", conversation=conversation))
    assert first.end is not None
    assert second.end is not None
    assert second.end["usage"]["input"] > first.end["usage"]["total"]
