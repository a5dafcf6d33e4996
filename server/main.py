"""`parley gateway`: the WebSocket and HTTP edge of the platform. Holds sockets and cursors, nothing else."""

import asyncio
import gc
import os
import secrets
from contextlib import closing
from functools import partial
from typing import Any

import click
from redis.exceptions import RedisError
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from billing.api import DIRECTORY_SEALED_SINCE, unsealed_until_ms
from core import http, service
from core.addresses import address_of
from core.clock import now_ms
from core.database import require_schema
from core.ids import uuid7
from core.metrics import GATEWAY_PLACE, serving_metrics_async
from core.scripts import keep_scripts
from core.settings import Settings
from core.store_errors import redis_failure
from core.stores import open_stores
from core.tasks import cancel_tasks
from core.telemetry import logger
from server.access.authentication import origin_allowed
from server.connection.connection import Connection
from server.connection.effect_handlers import Caller
from server.connection.registry import ConnectionRegistry
from server.connection.upgrade_limits import UpgradeLimits
from server.connection.websocket import WIRE, ParleyWebSocketProtocol, SocketWriter
from server.context import GatewayContext, make_context
from server.conversations.purge import Purge
from server.http.app import SecurityHeaders, routes
from server.http.call_limit import LimitedCalls
from server.http.guard import guarded
from server.http.health import Health, missing_words
from server.pool_services import PoolServices
from server.protocol.codec import Subprotocol, choose_subprotocol
from server.reading.subscriptions import Subscriptions

log = logger(__name__)

WORK_SECONDS_MAX = 0.5  # for what is not done when all connections have gone or were cut


@click.command()
def command() -> None:
    """Run a gateway: the WebSocket, the HTTP routes and the chat page.

    Listens on PARLEY_HOST and PARLEY_PORT. Any number of gateways may run; each serves any session.
    """
    settings = Settings()
    _spare_collections()
    service.run(settings, "gateway", serve)


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Serve until `stop`, then tell every client to go on elsewhere, and end."""
    settings.require_edge()
    _ = settings.proxies  # what cannot be read is told now
    http.raise_file_limit()
    with closing(http.listen(settings.host, settings.port, "PARLEY_PORT")) as listener:
        async with open_stores(settings) as (db, redis):
            await require_schema(db)
            until = await unsealed_until_ms(db, settings, DIRECTORY_SEALED_SINCE)
            edge = make_context(settings, _gateway_name(settings), db, redis, until)
            hub = Subscriptions(edge.redis, edge.settings, edge.pools, edge.catalogue)
            try:
                await _start(hub, settings)
                await _serve(edge, hub, listener, stop)
            finally:
                await hub.close()


async def _start(hub: Subscriptions, settings: Settings) -> None:
    try:
        await hub.start()
    except (RedisError, OSError) as error:
        raise redis_failure(error, settings) from error


async def _serve(
    edge: GatewayContext, hub: Subscriptions, listener: http.Listener, stop: asyncio.Event
) -> None:
    door, health = ConnectionRegistry(edge, hub), Health(edge)
    app, entrance = (
        limited_application(edge, door, health),
        UpgradeLimits(edge.settings, edge.rates, door.hellos),
    )
    lacks = partial(missing_words, health, asyncio.get_running_loop())
    metrics = serving_metrics_async(edge.settings, GATEWAY_PLACE, lacks)
    # From here on nothing fails before the `try` below, which ends these.
    upkeep = [keep_scripts(edge.redis), Purge(edge.db, edge.pools.recorders, edge.settings).run()]
    upkeep.append(edge.refusals.run())
    background = [hub.run(), door.run(), edge.terms.run(), PoolServices(edge).run(), *upkeep]
    tasks = [asyncio.create_task(work) for work in background]
    closed = asyncio.Event()
    serving = asyncio.create_task(
        http.serve(app, listener, closed, entrance, **serving_options(edge.settings))
    )
    stopping = asyncio.create_task(stop.wait())
    try:
        log.info(
            "gateway serves", gateway=edge.pools.gateway, host=edge.settings.host, port=edge.settings.port
        )
        async with metrics:
            await asyncio.wait([serving, stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            health.draining = True
            await door.drain(edge.settings.drain_seconds_max)
        if door.busy:
            log.warning("connections cut", left=door.connections_open())
    finally:
        closed.set()
        try:
            await serving
        finally:
            await cancel_tasks([stopping, *tasks])
            await _end_work(door, hub)
            await edge.refusals.flush()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


async def _end_work(door: ConnectionRegistry, hub: Subscriptions) -> None:
    """What went on after Redis and the database are closed would open them again, and leave them open."""
    if door.work:
        await asyncio.wait(door.work, timeout=WORK_SECONDS_MAX)
    if hub.work:  # the last that a connection does is to tell of its end
        await asyncio.wait(hub.work, timeout=WORK_SECONDS_MAX)
    await cancel_tasks(door.work | hub.work)


def limited_application(edge: GatewayContext, door: ConnectionRegistry, health: Health) -> ASGIApp:
    """What strangers meet: the application behind its limits."""
    limited = LimitedCalls(application(edge, door, health), edge.rates)
    return SecurityHeaders(limited, edge.settings.tls)


def serving_options(settings: Settings) -> dict[str, Any]:
    """uvicorn's, for a gateway."""
    return {
        "ws": partial(ParleyWebSocketProtocol, settings.frames_per_connection_per_second),
        "ws_max_size": settings.frame_bytes_max,
        "ws_ping_interval": None,
        "ws_per_message_deflate": settings.deflate,
        "timeout_graceful_shutdown": 2,
    }


def _spare_collections() -> None:
    """Thousands of idle sessions are live objects that a full collection walks for nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def application(edge: GatewayContext, door: ConnectionRegistry, health: Health) -> ASGIApp:
    """The gateway's ASGI application, without the security headers."""

    async def websocket(socket: WebSocket) -> None:
        subprotocol = choose_subprotocol(socket.scope["subprotocols"])
        problem = _upgrade_problem(socket, door, subprotocol)
        if problem is not None or subprotocol is None:
            status, text = problem or (400, "")
            await socket.send_denial_response(PlainTextResponse(text + "\n", status))
            return
        await socket.accept(subprotocol)
        wire: SocketWriter = socket.scope["extensions"][WIRE]
        scheme, _, token = socket.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        caller = Caller(address_of(socket.scope), bearer)
        connection = Connection(door, wire, subprotocol, caller, uuid7(now_ms()))
        connection.start()
        wire.hand_over(connection)

    return guarded([WebSocketRoute("/v1/ws", websocket), *routes(edge, health)])


def _upgrade_problem(
    socket: WebSocket, door: ConnectionRegistry, subprotocol: Subprotocol | None
) -> tuple[int, str] | None:
    if subprotocol is None:
        return 400, f"offer one of the subprotocols {', '.join(Subprotocol)}"
    if not origin_allowed(socket, door.edge.settings):
        return 403, "this Origin is not allowed (PARLEY_PUBLIC_ORIGINS)"
    if door.draining:
        return 503, "this gateway is stopping: connect again"
    return None


def _gateway_name(settings: Settings) -> str:
    return f"{settings.node}-{os.getpid()}-{secrets.token_hex(4)}"
