"""SIGTERM to a gateway with live streams: its clients are told, move, and nobody sees a gap or an error."""

import asyncio
import signal
import statistics
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.configuration.settings import Settings
from core.sql.database import Database
from server.protocol.codes import CloseCode
from tests.support.balancer import PortBalancer, running_balancer
from tests.support.gateways import Gateway, LetterEngine, RunningGateways, running_gateways
from tests.support.patience import HANG_SECONDS, PROMPT_SECONDS, LivedTime, soon, wait_until
from tests.support.redis import Redis
from tests.system.conftest import SLOTS
from tests.system.gateway_death import balanced, check_exactly_once, clients_of, finish, start
from tests.system.wire import Frame, SystemSocket, wired

DRAIN_SECONDS, LONG_DRAIN_SECONDS = 3.0, 8.0
EARLY_SECONDS = 0.2  # what a signal and a frame are under way, and clocks differ
LONG = {"max_tokens": 150, "min_tokens": 150}
LONGER = {"max_tokens": 250, "min_tokens": 250}


@pytest.fixture
async def draining(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[RunningGateways]:
    """Two gateways whose drain takes DRAIN_SECONDS at most."""
    async with fleet_that_drains(sqlite, redis, settings, DRAIN_SECONDS) as fleet:
        yield fleet


@asynccontextmanager
async def fleet_that_drains(
    sqlite: Database, redis: Redis, settings: Settings, seconds: float
) -> AsyncGenerator[RunningGateways]:
    """Two gateways whose drain takes so long at most."""
    roomy = settings.model_copy(update={"worker_slots": SLOTS})
    async with running_gateways(roomy, sqlite, redis, PARLEY_DRAIN_SECONDS_MAX=str(seconds)) as fleet:
        yield fleet


async def test_streams_move_without_a_gap(draining: RunningGateways):
    """40 answers on 8 sockets through a balancer; one of two gateways ends in order."""
    engine = LetterEngine(step_seconds=0.02)
    async with balanced(draining, engine) as balancer, AsyncExitStack() as stack:
        clients = await clients_of(stack, balancer.url, draining.site.key, 8)
        answers = await start(clients, 5, LONG)
        reading = asyncio.create_task(finish(answers))
        await wait_until(lambda: min(len(answer.text) for answer in answers) > 20)
        leaving = draining.gateways[0]
        assert balancer.carried[leaving.port] == 4
        leaving.signal(signal.SIGTERM)
        await wait_until(lambda: leaving.port not in balancer.ready)
        assert await leaving.process.wait() == 0
        await reading
        assert sum(client.counters.resent for client in clients) == 0
        await check_exactly_once(draining, engine, clients, {answer.id: answer.text for answer in answers})


async def test_a_client_that_stays_is_closed_at_the_deadline_and_resumes(draining: RunningGateways):
    """It hears go_away, reads on until close 4000, and continues elsewhere after its last offset."""
    leaving, staying = draining.gateways
    async with worker_of(draining, 0.02), wired(leaving.url, draining.site.key) as wire:
        reading = await wire.send("go on", options=LONGER)
        leaving.signal(signal.SIGTERM)
        with LivedTime() as lived:
            away, closed = await until_closed(wire, lived)
        assert away["why"] == "drain"
        left = away["in_ms"] / 1000 - DRAIN_SECONDS
        assert away["wall"] + left >= -EARLY_SECONDS
        assert away["lived"] + left <= PROMPT_SECONDS
        assert closed == CloseCode.DRAIN
        assert lived.wall_seconds >= DRAIN_SECONDS - EARLY_SECONDS
        assert lived.seconds <= DRAIN_SECONDS + PROMPT_SECONDS
        assert await leaving.process.wait() == 0
        requests = [{"id": reading.id, "epoch": 1, "o": reading.applied}]
        resume = {"token": wire.welcome["resume_token"], "requests": requests}
        async with wired(staying.url, draining.site.key, resume=resume) as again:
            assert again.welcome["resumed"] == "full"
            [found] = again.welcome["requests"]
            assert found["from"] == reading.applied + 1
            again.readings[found["g"]] = reading
            await again.finish(reading)
        assert reading.end is not None
        assert reading.end["usage"]["output"] == LONGER["max_tokens"]


async def test_clients_are_told_one_after_the_other_and_nobody_gets_in(
    sqlite: Database, redis: Redis, settings: Settings
):
    """go_away comes spread over the first half of the drain, each with the time that is left; from SIGTERM on
    /readyz and the upgrade answer 503."""
    async with (
        fleet_that_drains(sqlite, redis, settings, LONG_DRAIN_SECONDS) as draining,
        AsyncExitStack() as stack,
    ):
        leaving = draining.gateways[0]
        wires = [await stack.enter_async_context(wired(leaving.url, draining.site.key)) for _ in range(40)]
        leaving.signal(signal.SIGTERM)
        with LivedTime() as lived:
            heard = [asyncio.create_task(until_told(wire, lived)) for wire in wires]
            await wait_until(lambda: readiness_is(leaving, 503), interval=0.02)
            with pytest.raises(InvalidStatus) as refused:
                async with draining.at(leaving).open():
                    pass
            assert refused.value.response.status_code == 503
            told = await asyncio.gather(*heard)
    walls = [away["wall"] for away in told]
    assert statistics.median(away["lived"] for away in told) < LONG_DRAIN_SECONDS / 2
    assert max(walls) - min(walls) > LONG_DRAIN_SECONDS / 4
    left = [away["in_ms"] / 1000 - LONG_DRAIN_SECONDS for away in told]
    assert min(away["wall"] + at for away, at in zip(told, left, strict=True)) >= -EARLY_SECONDS
    assert statistics.median(away["lived"] + at for away, at in zip(told, left, strict=True)) < PROMPT_SECONDS


async def test_a_second_sigterm_ends_it_at_once(sqlite: Database, redis: Redis, settings: Settings):
    """No patience any more; the streams go on elsewhere all the same."""
    engine = LetterEngine(step_seconds=0.02)
    async with (
        fleet_that_drains(sqlite, redis, settings, HANG_SECONDS * 3) as draining,
        balanced(draining, engine) as balancer,
        AsyncExitStack() as stack,
    ):
        leaving = draining.gateways[0]
        stubborn = await stack.enter_async_context(wired(leaving.url, draining.site.key))
        clients = await clients_of(stack, balancer.url, draining.site.key, 4)
        answers = await start(clients, 3, LONG)
        reading = asyncio.create_task(finish(answers))
        leaving.signal(signal.SIGTERM)
        await wait_until(lambda: readiness_is(leaving, 503), interval=0.02)
        leaving.signal(signal.SIGTERM)
        await soon(leaving.process.wait())  # not until the drain's end
        await reading
        assert stubborn.welcome["t"] == "welcome"
        await check_exactly_once(draining, engine, clients, {answer.id: answer.text for answer in answers})


async def test_a_balancer_that_learns_late_costs_nothing(draining: RunningGateways):
    """It sends who moves back to the leaving gateway for a while: they stay where they are and try again."""
    engine = LetterEngine(step_seconds=0.02)
    async with draining.site.crew.worker(engine), AsyncExitStack() as stack:
        slow = running_balancer(draining.gateways, check_seconds=DRAIN_SECONDS / 4)
        balancer: PortBalancer = await stack.enter_async_context(slow)
        await wait_until(lambda: len(balancer.ready) == 2)
        clients = await clients_of(stack, balancer.url, draining.site.key, 8)
        answers = await start(clients, 2, LONG)
        reading = asyncio.create_task(finish(answers))
        leaving = draining.gateways[0]
        leaving.signal(signal.SIGTERM)
        assert await leaving.process.wait() == 0
        await reading
        await check_exactly_once(draining, engine, clients, {answer.id: answer.text for answer in answers})


@asynccontextmanager
async def worker_of(fleet: RunningGateways, step_seconds: float = 0.01) -> AsyncGenerator[LetterEngine]:
    """A worker that every gateway sees."""
    engine = LetterEngine(step_seconds)
    async with fleet.site.crew.worker(engine):
        for gateway in fleet.gateways:
            await wait_until(lambda gateway=gateway: readiness_is(gateway, 200))
        yield engine


async def readiness_is(gateway: Gateway, status: int) -> bool:
    """Whether /readyz answers so now."""
    return await gateway.readiness() == status


async def until_told(wire: SystemSocket, lived: LivedTime) -> Frame:
    """The go_away, with when it came in `lived` and `wall` seconds."""
    while True:
        frame = await wire.hear()
        if frame["t"] == "go_away":
            return frame | {"lived": lived.seconds, "wall": lived.wall_seconds}


async def until_closed(wire: SystemSocket, lived: LivedTime) -> tuple[Frame, int]:
    """The go_away with when it came, and the close code. What else comes is applied."""
    away: Frame = {}
    try:
        while True:
            frame = await wire.hear()
            if frame["t"] == "go_away":
                away = frame | {"lived": lived.seconds, "wall": lived.wall_seconds}
    except ConnectionClosed as closed:
        return away, closed.rcvd.code if closed.rcvd else 1006
