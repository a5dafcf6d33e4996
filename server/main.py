"""`parley gateway`: the WebSocket and HTTP edge of the platform. Holds sockets and cursors, nothing else."""

import asyncio
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

from core.configuration.settings import Settings
from core.network.addresses import address_of
from core.observability.telemetry import logger
from core.redis.figure_minutes import FigureWriter
from core.redis.scripts import keep_scripts
from core.runtime import service
from core.runtime.spared_collections import spare_collections
from core.sql.database import require_schema
from core.sql.store_errors import redis_failure
from core.sql.stores import open_stores
from core.tasks import cancel_tasks
from core.web import http
from core.web.metrics import GATEWAY_PLACE, serving_metrics_async
from server.access.authentication import ORIGIN_PROBLEM, origin_allowed
from server.access.key_origins import page_origins
from server.connection.effect_handlers import Caller
from server.connection.gateway_connections import GatewayConnections
from server.connection.registry import ConnectionRegistry
from server.connection.turned_away import turn_away
from server.connection.upgrade_limits import UpgradeLimits
from server.connection.websocket import WIRE, ParleyWebSocketProtocol, SocketWriter
from server.context import GatewayContext, make_context
from server.conversations.purge import Purge
from server.http.app import SecurityHeaders, routes
from server.http.call_limit import LimitedCalls
from server.http.cross_origin import CrossOriginReplies
from server.http.guard import guarded
from server.http.health import Health, missing_words
from server.http.person import PersonHeader
from server.pool_services import PoolServices
from server.protocol.codec import Subprotocol, choose_subprotocol
from server.reading.subscriptions import Subscriptions

log = logger(__name__)

WORK_SECONDS_MAX = 0.5  # for work that is pending when all connections have gone or were cut


@click.command()
def command() -> None:
    """Run a gateway: the WebSocket, the HTTP routes and the chat page.

    Listens on PARLEY_HOST and PARLEY_PORT. Any number of gateways may run; each serves any session.
    """
    settings = Settings()
    spare_collections()
    service.run(settings, "gateway", serve)


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Serve until `stop`, then tell every client to go on elsewhere, and end."""
    settings.require_edge()
    _ = settings.proxies  # an unreadable setting fails here, at the start
    http.raise_file_limit()
    with closing(http.listen(settings.host, settings.port, "PARLEY_PORT")) as listener:
        async with open_stores(settings) as (db, redis):
            await require_schema(db)
            context = make_context(settings, _gateway_name(settings), db, redis)
            connections = GatewayConnections(context)
            try:
                await _start(connections.subscriptions, settings)
                await _serve(context, connections, listener, stop)
            finally:
                await connections.subscriptions.close()


async def _start(subscriptions: Subscriptions, settings: Settings) -> None:
    try:
        await subscriptions.start()
    except (RedisError, OSError) as error:
        raise redis_failure(error, settings) from error


async def _serve(
    context: GatewayContext, connections: GatewayConnections, listener: http.Listener, stop: asyncio.Event
) -> None:
    settings, registry, health = context.settings, connections.registry, Health(context)
    app = limited_application(context, connections, health)
    gate = UpgradeLimits(settings, context.rates, registry.unidentified)
    lacks = partial(missing_words, health, asyncio.get_running_loop())
    metrics = serving_metrics_async(settings, GATEWAY_PLACE, lacks)
    # From here to the `try` below, which ends these tasks, nothing raises.
    upkeep = [keep_scripts(context.redis), Purge(context.db, context.pools.recorders, settings).run()]
    figures = FigureWriter(context.redis, settings)
    upkeep += [context.refusals.run(), figures.run()]
    loops = [connections.subscriptions.run(), connections.run(), context.terms.run()]
    tasks = [asyncio.create_task(work) for work in (*loops, PoolServices(context).run(), *upkeep)]
    closed = asyncio.Event()
    serving = asyncio.create_task(http.serve(app, listener, closed, gate, **serving_options(settings)))
    stopping = asyncio.create_task(stop.wait())
    try:
        log.info("gateway.serving", gateway=context.pools.gateway, host=settings.host, port=settings.port)
        async with metrics:
            await asyncio.wait([serving, stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            health.draining = True
            await connections.drain(settings.drain_seconds_max)
        if registry.busy:
            log.warning("gateway.connections_cut", left=registry.connections_open())
    finally:
        closed.set()
        try:
            await serving
        finally:
            await cancel_tasks([stopping, *tasks])
            await _end_work(registry, connections.subscriptions)
            await context.refusals.flush()
            await figures.flush()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


async def _end_work(registry: ConnectionRegistry, subscriptions: Subscriptions) -> None:
    """Wait for pending work, then cancel it: after Redis and the database are closed it would open them
    again, and leave them open."""
    if registry.work:
        await asyncio.wait(registry.work.running, timeout=WORK_SECONDS_MAX)
    if subscriptions.work:  # the last thing that a connection does is to report its end
        await asyncio.wait(subscriptions.work, timeout=WORK_SECONDS_MAX)
    await cancel_tasks(registry.work.running | subscriptions.work)


def limited_application(context: GatewayContext, connections: GatewayConnections, health: Health) -> ASGIApp:
    """The application behind its limits, as strangers meet it."""
    named = PersonHeader(application(context, connections, health))
    readable = CrossOriginReplies(LimitedCalls(named, context.rates), context.settings)
    return SecurityHeaders(readable, context.settings.tls)


def serving_options(settings: Settings) -> dict[str, Any]:
    """uvicorn's options for a gateway."""
    return {
        "ws": partial(ParleyWebSocketProtocol, settings.frames_per_connection_per_second),
        "ws_max_size": settings.frame_bytes_max,
        "ws_ping_interval": None,
        "ws_per_message_deflate": settings.deflate,
        "timeout_graceful_shutdown": 2,
    }


def application(context: GatewayContext, connections: GatewayConnections, health: Health) -> ASGIApp:
    """The gateway's ASGI application, without the security headers."""

    async def websocket(socket: WebSocket) -> None:
        subprotocol = choose_subprotocol(socket.scope["subprotocols"])
        problem = _upgrade_problem(socket, connections, subprotocol)
        if problem is not None or subprotocol is None:
            status, text = problem or (400, "")
            await socket.send_denial_response(PlainTextResponse(text + "\n", status))
            return
        await socket.accept(subprotocol)
        writer: SocketWriter = socket.scope["extensions"][WIRE]
        if not origin_allowed(socket, connections.settings):
            unidentified, address = connections.registry.unidentified, address_of(socket.scope)
            turn_away(writer, unidentified, address, socket.headers["origin"], ORIGIN_PROBLEM)
            return
        scheme, _, token = socket.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        caller = Caller(address_of(socket.scope), bearer, page_origins(socket))
        connection = connections.accept(writer, subprotocol, caller)
        connection.start()
        writer.hand_over(connection)

    return guarded([WebSocketRoute("/v1/ws", websocket), *routes(context, health)])


def _upgrade_problem(
    socket: WebSocket, connections: GatewayConnections, subprotocol: Subprotocol | None
) -> tuple[int, str] | None:
    if subprotocol is None:
        return 400, f"offer one of the subprotocols {', '.join(Subprotocol)}"
    if connections.registry.draining:
        return 503, "this gateway is stopping: connect again"
    return None


def _gateway_name(settings: Settings) -> str:
    return f"{settings.node}-{os.getpid()}-{secrets.token_hex(4)}"
