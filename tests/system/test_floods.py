"""Peers that flood, dribble, stall, cut and lie: a typed answer or the right close code, nothing is kept,
and the session beside them does not notice."""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import pytest

from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from core.web import http
from server.protocol.codes import CloseCode
from tests.server.conftest import gateway as gateway
from tests.server.site import Site, running_site
from tests.support.gateways import Gateway, LetterEngine, RunningGateways, running_gateways
from tests.support.patience import BEAT_SECONDS, FLOOD_SECONDS, LivedTime, patience, pause, wait_until
from tests.support.redis import Redis
from tests.support.tiers import by_form
from tests.system.beside import leaving_nothing, neighbour, no_work
from tests.system.raw import (
    PING,
    RawSocket,
    connected,
    framed,
    message,
    upgrade,
    upgraded,
)
from tests.system.wire import wired

GROWTH_MIB_MAX = 24.0
MANY = by_form(100, 300)
DROPPED = by_form(200, 1000)
SHORT = {"max_tokens": 10, "min_tokens": 10}
# The kernel takes megabytes of answers before a socket is blocked: most are long, and cheap to give.
MUCH_ANSWERED = (framed(b"x" * 125, PING) * 15 + message("ping", ts=1)) * 25


@pytest.fixture
async def quick(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A gateway with short patience, which reads as fast as it can."""
    impatient = {"hello_seconds_max": 3.0, "write_blocked_seconds_max": 1.0}
    impatient |= {"frames_per_connection_per_second": 0.0, "silent_sockets_per_address_max": 0}
    async with running_site(settings, sqlite, redis, **impatient) as site:
        yield site


@pytest.fixture
async def alone(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[RunningGateways]:
    """One gateway process, so that its memory is its own."""
    async with running_gateways(settings, sqlite, redis, 1) as fleet:
        yield fleet


async def growth_mib(gateway: Gateway, flood: Callable[[], Awaitable[object]]) -> float:
    """How much memory a flood costs beyond what its first part did."""
    await flood()
    before = gateway.memory_mib
    await flood()
    return gateway.memory_mib - before


async def test_attaches_without_end_cost_no_memory(alone: RunningGateways):
    """As many attaches as fit the time, of own and unknown ids: each answered, memory flat, nobody waits."""
    [gateway] = alone.gateways
    async with alone.site.crew.worker(LetterEngine(step_seconds=0.001)), AsyncExitStack() as stack:
        await stack.enter_async_context(neighbour(gateway.url, alone.site.key))
        wire = await stack.enter_async_context(wired(gateway.url, alone.site.key))
        own = await wire.finish(await wire.send("mine", options=SHORT))
        raw = await stack.enter_async_context(upgraded(gateway.port))
        await raw.hello(alone.site.key)

        async def flood() -> None:
            with LivedTime(FLOOD_SECONDS) as lived:
                while not lived.over:
                    await attach_many()

        async def attach_many() -> None:
            ids = [own.id if random.random() < 0.5 else uuid7(now_ms()) for _ in range(50)]
            await raw.send(b"".join(message("attach", id=id, o=0) for id in ids))
            await raw.send(message("ping", ts=1))
            while (frame := await raw.hear())["t"] != "pong":
                assert frame["t"] in ("attached", "error", "event", "delta", "end"), frame
                assert frame.get("code") in (None, "not_resumable", "rate_limited", "bad_message"), frame

        assert await growth_mib(gateway, flood) < GROWTH_MIB_MAX


@pytest.mark.parametrize("asks", ["messages", "control frames"])
async def test_answers_that_nobody_reads_cost_no_memory(alone: RunningGateways, asks: str):
    """A peer asks without end and reads nothing: it is not read from any more, then it is closed."""
    [gateway] = alone.gateways
    ask = message("ping", ts=1) if asks == "messages" else framed(b"x" * 125, PING)

    async def flood() -> None:
        async with upgraded(gateway.port, receive_bytes=32 * 1024) as raw:
            await raw.hello(alone.site.key)
            with suppress(TimeoutError, ConnectionError):
                async with patience(FLOOD_SECONDS):
                    await ask_for_ever(raw, ask * 100)

    assert await growth_mib(gateway, flood) < GROWTH_MIB_MAX


FLOODER = """
import select, socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.sendall(bytes.fromhex(sys.argv[2]))
peer.recv(65536)
ask, at = bytes.fromhex(sys.argv[3]) * 1000, 0
peer.setblocking(False)
while True:
    readable, writable, _ = select.select([peer], [peer], [])
    if readable:
        peer.recv(1 << 20)
    if writable:
        at = (at + peer.send(ask[at:])) % len(ask)
"""


@pytest.mark.parametrize(
    "ask", [message("ping", ts=1), framed(b"x" * 20, PING)], ids=["messages", "control frames"]
)
async def test_a_flood_of_frames_starves_nobody(alone: RunningGateways, ask: bytes):
    """One socket sends as fast as it can, from another process; who sits beside it waits for milliseconds."""
    [gateway] = alone.gateways
    begin = upgrade(gateway.port) + message("hello", v=1, token=alone.site.key)
    words = [str(gateway.port), begin.hex(), ask.hex()]
    flooder = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", FLOODER, *words)
    try:
        async with neighbour(gateway.url, alone.site.key):
            await pause(FLOOD_SECONDS)
    finally:
        flooder.kill()
        await flooder.wait()


async def test_a_peer_that_reads_nothing_is_closed_and_may_resume(quick: Site):
    """INV-20: After write_blocked_seconds_max its socket ends; the session goes on with the token it has."""
    async with leaving_nothing(quick), neighbour(quick.url, quick.key):
        async with upgraded(quick.settings.port, receive_bytes=32 * 1024) as raw:
            welcome = await raw.hello(quick.key)
            async with patience():
                with pytest.raises(ConnectionError):
                    await ask_for_ever(raw, MUCH_ANSWERED)
        async with quick.welcomed(resume={"token": welcome["resume_token"], "requests": []}) as again:
            assert again.welcome["resumed"] == "full"
            assert again.welcome["session"] == welcome["session"]


async def ask_for_ever(raw: RawSocket, ask: bytes) -> None:
    """Send it until the peer ends the connection."""
    while True:
        await raw.send(ask)


async def test_hellos_that_never_come_are_timed_out(quick: Site):
    """Hundreds of sockets dribble a hello, or say nothing: close 4502 each, on time."""
    hello = message("hello", v=1, token=quick.key)

    async def dribble(silent: bool) -> int | None:
        async with upgraded(quick.settings.port) as raw:
            closed = asyncio.create_task(raw.close_code())
            for at in range(len(hello) - 1):
                if silent or closed.done():
                    break
                raw.writer.write(hello[at : at + 1])
                await pause(2 * BEAT_SECONDS)
            return await closed

    async with leaving_nothing(quick), neighbour(quick.url, quick.key):
        codes = await asyncio.gather(*(dribble(n % 2 == 0) for n in range(MANY)))
    assert set(codes) == {CloseCode.HELLO_TIMEOUT}


async def test_upgrades_that_never_end_are_cut(quick: Site, monkeypatch: pytest.MonkeyPatch):
    """Hundreds of TCP connections that send nothing, half a request line or endless headers are closed."""
    starts = [b"", b"GET /v1/ws HT", upgrade(quick.settings.port)[:-2]]

    async def dribble(start: bytes) -> bool:
        async with connected(quick.settings.port) as raw:
            raw.writer.write(start)
            reading = asyncio.create_task(raw.reader.read())
            async with patience():
                while not reading.done():
                    if start:
                        raw.writer.write(b"X: y\r\n")
                    await pause(5 * BEAT_SECONDS)
            return True

    async with leaving_nothing(quick), neighbour(quick.url, quick.key):
        monkeypatch.setattr(http, "HEAD_SECONDS_MAX", 1.0)
        cut = await asyncio.gather(*(dribble(starts[n % 3]) for n in range(MANY)))
    assert all(cut)


async def test_headers_have_a_limit(gateway: Site):
    """A request of endless headers gets an answer or an end, not memory."""
    async with (
        leaving_nothing(gateway),
        neighbour(gateway.url, gateway.key),
        connected(gateway.settings.port) as raw,
    ):
        await raw.send(upgrade(gateway.settings.port)[:-2])
        async with patience():
            with pytest.raises(ConnectionError):
                await ask_for_ever(raw, b"X-Filler: " + b"y" * 10_000 + b"\r\n")


async def test_hundreds_of_sockets_come_and_go(gateway: Site):
    """Dropped before, in and after the upgrade, the hello and the welcome: nothing of them is left."""

    async def drop(stage: int) -> None:
        async with connected(gateway.settings.port) as raw:
            if stage >= 1:
                raw.writer.write(upgrade(gateway.settings.port)[: 40 if stage == 1 else None])
            if stage >= 3:
                await raw.reader.readuntil(b"\r\n\r\n")
                raw.writer.write(message("hello", v=1, token=gateway.key))
            if stage >= 4:
                assert (await raw.hear())["t"] == "welcome"
                raw.writer.write(message("send", id=uuid7(now_ms()), content="dropped", options=SHORT))
            await asyncio.sleep(0)

    async with gateway.crew.worker(LetterEngine(0.001)), leaving_nothing(gateway):
        async with neighbour(gateway.url, gateway.key):
            for _ in range(DROPPED // 50):
                await asyncio.gather(*(drop(n % 5) for n in range(50)))
        await wait_until(lambda: no_work(gateway))


async def test_a_keys_connections_count_over_all_gateways(sqlite: Database, redis: Redis, settings: Settings):
    """The sixth is refused anywhere; a resume takes its own place along; the dead give theirs back."""
    limits = {"PARLEY_CONNECTIONS_PER_KEY_MAX": "5", "PARLEY_CONNECTION_LEASE_SECONDS": "2"}
    async with running_gateways(settings, sqlite, redis, 2, **limits) as fleet, AsyncExitStack() as stack:
        one, two = fleet.gateways
        wires = [
            await stack.enter_async_context(wired(gateway.url, fleet.site.key))
            for gateway in (one, one, one, two, two)
        ]
        for gateway in (one, two):
            assert await refused_at(fleet, gateway) == ("rate_limited", CloseCode.CONNECTION_LIMIT)
        resume = {"token": wires[0].welcome["resume_token"], "requests": []}
        async with wired(two.url, fleet.site.key, resume=resume) as moved:
            assert moved.welcome["resumed"] == "full"
            assert await refused_at(fleet, two) == ("rate_limited", CloseCode.CONNECTION_LIMIT)
        async with wired(two.url, fleet.site.key):
            assert await refused_at(fleet, one) == ("rate_limited", CloseCode.CONNECTION_LIMIT)
        one.signal(signal.SIGKILL)
        await wait_until(lambda: has_room(fleet, two, 3), interval=0.3)


async def refused_at(fleet: RunningGateways, gateway: Gateway) -> tuple[str, int | None]:
    """The error and the close code that one more connection gets."""
    async with fleet.at(gateway).open() as peer:
        await peer.tell("hello", v=1, token=fleet.site.key)
        frame = await peer.hear()
        return str(frame.get("code", frame["t"])), await peer.closed() if frame["t"] == "error" else None


async def has_room(fleet: RunningGateways, gateway: Gateway, count: int) -> bool:
    """Whether so many more connections get in."""
    async with AsyncExitStack() as stack:
        for _ in range(count):
            peer = await stack.enter_async_context(fleet.at(gateway).open())
            await peer.tell("hello", v=1, token=fleet.site.key)
            if (await peer.hear())["t"] != "welcome":
                return False
    return True
