"""Secrets and prompts in what is raised, in arguments and in locals of all calls that led there: no sink of a
gateway, a console, a biller, a reaper or a worker shows them."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from redis.asyncio.client import PubSub
from redis.exceptions import ResponseError
from sqlalchemy.exc import OperationalError
from websockets.exceptions import InvalidStatus

from admin.console import Console
from billing.alerts.outbox import OutboxSender
from billing.posting.biller import Biller
from billing.quota.client import Quota
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.observability import error_facts
from core.observability.telemetry import tracer
from core.redis.shared_connection import MultiplexedConnection
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import PoolQueue
from engine.backends.base import Generation, GenerationRefusedError
from engine.lifecycle.reaper import Reaper
from engine.node.supervisor import Supervisor
from server import main
from server.connection import gateway_connections
from server.connection.gateway_connections import GatewayConnections
from server.connection.handshake import Handshake
from server.context import make_context
from server.conversations.purge import Purge
from server.pool_services import PoolServices
from server.reading.sources import RequestReaders
from server.requests.cancel import CancelHandler
from server.requests.submit import SendHandler
from server.session.machine import Session
from tests.engine.workers import PoolWorkers, saying
from tests.security.sinks import CANARY, Sinks, spans
from tests.server.conftest import gateway as gateway
from tests.server.site import Site
from tests.support.patience import pause, wait_until
from tests.support.redis import Redis

LOOP_SECONDS = 0.05


def raising(*_: Any, **__: Any) -> Any:
    """Fails as the worst library would."""
    prompt = f"{CANARY} in a local"
    raise ValueError(prompt) from KeyError(CANARY)


async def raising_later(*_: Any, **__: Any) -> Any:
    """The same, awaited."""
    raising(CANARY)


def hushed(sinks: Sinks) -> None:
    """One line at least, with the error's type, and no value anywhere."""
    assert sinks.lines, "nothing was logged"
    assert CANARY not in sinks.everything


async def test_what_an_upgrade_raises_is_answered_typed(
    gateway: Site, sinks: Sinks, monkeypatch: pytest.MonkeyPatch
):
    """500 `internal` before the socket is open."""
    monkeypatch.setattr(main, "_upgrade_problem", raising)
    with pytest.raises(InvalidStatus) as refused:
        async with gateway.open(Authorization=f"Bearer {CANARY}"):
            pass
    assert refused.value.response.status_code == 500
    assert b'"internal"' in (refused.value.response.body or b"")
    assert CANARY.encode() not in (refused.value.response.body or b"")
    hushed(sinks)


async def test_what_an_open_upgrade_raises_closes_it(
    gateway: Site, sinks: Sinks, monkeypatch: pytest.MonkeyPatch
):
    """4015 between its acceptance and its session: the client may come again."""
    monkeypatch.setattr(gateway_connections, "Connection", raising)
    async with gateway.open() as peer:
        assert await peer.closed() == 4015
        assert peer.socket.close_reason == ""
    hushed(sinks)


USE_CASES: dict[str, tuple[type, str]] = {
    "turn": (SendHandler, "take"),
    "open": (Handshake, "open"),
    "attach": (RequestReaders, "open"),
    "cancel": (CancelHandler, "cancel"),
}


@pytest.mark.parametrize("operation", USE_CASES)
async def test_what_a_frame_raises_is_answered_typed(
    operation: str, gateway: Site, sinks: Sinks, monkeypatch: pytest.MonkeyPatch
):
    """`error internal` for the request, and the connection lives; of a hello it closes."""
    monkeypatch.setattr(*USE_CASES[operation], raising_later)
    async with gateway.open() as peer:
        await peer.tell("hello", v=1, token=gateway.key)
        if operation != "open":
            assert (await peer.hear())["t"] == "welcome"
            id = await peer.send(CANARY) if operation == "turn" else "01890000-0000-7000-8000-000000000000"
            if operation != "turn":
                await peer.tell(operation, id=id, **({"o": 0, "epoch": 1} if operation == "attach" else {}))
        error = await peer.hear("error")
        assert error["code"] == "internal"
        assert CANARY not in str(error)
    hushed(sinks)


async def test_what_a_session_raises_closes_it(gateway: Site, sinks: Sinks, monkeypatch: pytest.MonkeyPatch):
    """4015: the client comes again and goes on."""
    async with gateway.welcomed() as peer:
        monkeypatch.setattr(Session, "handle", raising)
        await peer.tell("ping", ts=1)
        assert await peer.closed() == 4015
    hushed(sinks)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on Redis and SQL answer with errors that quote what they must not."""

    async def of_redis(*_: Any, **__: Any) -> Any:
        raise ResponseError(f"WRONGTYPE {CANARY}")

    def of_sql(*_: Any, **__: Any) -> Any:
        raise OperationalError(f"SELECT '{CANARY}'", {"key": CANARY}, sqlite3.OperationalError(CANARY))

    def break_all() -> None:
        for owner, name in (
            (Redis, "execute_command"),
            (PubSub, "execute_command"),
            (PubSub, "get_message"),
            (MultiplexedConnection, "call"),
            (MultiplexedConnection, "calls"),
        ):
            monkeypatch.setattr(owner, name, of_redis)
        monkeypatch.setattr(Database, "session", of_sql)

    return break_all


async def _for_a_while(loops: list[Awaitable[Any]]) -> None:
    """As their processes run them: what ends a loop is told as what ends a process is."""
    tasks = [asyncio.ensure_future(loop) for loop in loops]
    await pause()
    ended = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    await cancel_tasks(tasks)
    for error in ended:
        assert error is None or CANARY not in str(error_facts.error_facts(error))


async def test_a_gateways_loops_say_nothing(
    settings: Settings, sqlite: Database, redis: Redis, sinks: Sinks, broken: Callable[[], None]
):
    """Readers, connections, terms, pools and recorders, while Redis and SQL quote what they were asked."""
    edge = make_context(settings, "gw-test", sqlite, redis)
    connections = GatewayConnections(edge)
    await connections.subscriptions.start()
    broken()
    recorder = edge.pools.recorders[settings.pool]
    gateways = [connections.subscriptions.run(), connections.run(), PoolServices(edge).run()]
    await _for_a_while([*gateways, edge.terms.run(), recorder.run()])
    hushed(sinks)


async def test_billers_and_reapers_loops_say_nothing(
    settings: Settings, sqlite: Database, redis: Redis, sinks: Sinks, broken: Callable[[], None]
):
    """The same of those that follow streams and pools."""
    queue, quota = PoolQueue(redis, settings.pool, settings), Quota(redis, settings, sqlite)
    biller, reaper = Biller(sqlite, redis, settings, [settings.pool]), Reaper(queue, quota, 10)
    broken()
    await _for_a_while([biller.run(asyncio.Event()), reaper.run(), reaper.sweep()])
    hushed(sinks)


@pytest.mark.parametrize("loop", ["supervisor", "outbox", "purge"])
async def test_other_loops_say_nothing(
    loop: str,
    settings: Settings,
    sqlite: Database,
    redis: Redis,
    sinks: Sinks,
    broken: Callable[[], None],
):
    """A supervisor's, the outbox', and that of who takes deleted conversations away."""
    edge = make_context(settings, "gw-test", sqlite, redis)
    works: dict[str, list[Awaitable[Any]]] = {
        "supervisor": [*Supervisor(settings, redis, 0).loops()] if loop == "supervisor" else [],
        "outbox": [OutboxSender(sqlite, settings).run(asyncio.Event())] if loop == "outbox" else [],
        "purge": [Purge(sqlite, edge.pools.recorders, settings).run()] if loop == "purge" else [],
    }
    broken()
    await _for_a_while(works[loop])
    hushed(sinks)


def test_a_span_keeps_an_errors_type_only(sinks: Sinks):
    """Neither its words nor its traceback are an event of the span, or its status."""
    with pytest.raises(ValueError), tracer("test").span("work"):  # noqa: PT011
        raising(CANARY)
    (span,) = spans.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert (list(span.events), span.status.description) == ([], None)
    assert CANARY not in sinks.everything


class Refusing(ScriptedEngine):
    """Takes no generation, and says why in the prompt's own words."""

    async def submit(self, generation: Generation) -> None:
        """See Engine."""
        try:
            raising(generation.prompt)
        except ValueError as error:
            raise GenerationRefusedError(CANARY) from error


async def test_an_engines_refusal_says_nothing(settings: Settings, redis: Redis, sinks: Sinks):
    """INV-15: An engine's error has the prompt in it: the log has its type and its place."""
    crew = PoolWorkers(redis, settings)
    async with crew.worker(Refusing(saying("hi"))):
        await crew.send()
        await wait_until(lambda: any("worker.generation_refused" in line for line in sinks.lines))
    hushed(sinks)
    (line,) = [line for line in sinks.lines if "worker.generation_refused" in line]
    assert "GenerationRefusedError" in line
    assert "ValueError" in line


async def test_the_consoles_routes_say_nothing_where_all_is_down(
    settings: Settings, sqlite: Database, redis: Redis, sinks: Sinks, broken: Callable[[], None]
):
    """Neither to the caller nor to the log."""
    app = Console(settings, redis, sqlite).app()
    broken()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://console.localhost"
    ) as client:
        for path in ("/api/status", "/api/books", "/api/noisy", "/api/reconciliation"):
            reply = await client.get(path, headers={"cookie": f"parley_operator={CANARY}"})
            assert reply.status_code in (401, 503)
            assert CANARY not in reply.text
    assert CANARY not in sinks.everything
