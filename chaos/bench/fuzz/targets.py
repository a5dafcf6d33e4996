"""A gateway and a console in this process, with a tenant, and what came of fuzzing them."""

import asyncio
import gc
import io
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import structlog
from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute

from admin.console import Console
from billing.api import PLATFORM, create_key, create_project, create_tenant, ensure_owner, make_person_code
from chaos.bench.fuzz.holds import Holds
from chaos.bench.fuzz.inputs import Header, Input, Inputs, Route
from chaos.bench.fuzz.line import FuzzTransport, Served, status
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs
from core.redis.client import RedisClient
from core.sql.database import Database
from core.tasks import cancel_tasks
from core.web.http import UpgradeGate, configured
from server.connection.gateway_connections import GatewayConnections
from server.connection.upgrade_limits import UpgradeLimits
from server.context import make_context
from server.http.app import SecurityHeaders, routes
from server.http.health import Health
from server.main import limited_application, serving_options

MADE_AT_ONCE = 200
WARM_INPUTS = 5
LEAVING_SECONDS = 0.01
UNREADY = "/readyz"  # 503 is its answer
# All calls are one caller's here, where each comes from another address.
CALLERS_LIMITS = (
    "calls_per_caller_per_second",
    "asks_per_caller_per_second",
    "connections_per_key_max",
    "connections_per_user_max",
    "signins_per_caller_per_minute",
    "sessions_per_key_max",
    "sessions_per_user_max",
    "usage_reads_per_tenant_per_minute",
)
# We sign in from one address.
ADDRESS_LIMITS = ("signins_per_address_per_minute", "failed_signins_per_address_per_minute")
STATIC = ("/web/client/client.js", "/web/{id}")
SOCKET = Route("GET", "/v1/ws", socket=True)


@dataclass
class FuzzTarget:
    """One process' application, its routes, and what lets a caller in there. `secrets`: what no log line may
    hold."""

    served: Served
    routes: list[Route]
    sign_in: Callable[[], Awaitable[list[Header]]]
    secrets: list[str] = field(default_factory=list[str])

    async def proofs(self) -> list[Header]:
        """Fresh ones: an input may have signed the last ones out."""
        proofs = await self.sign_in()
        self.secrets += [re.split("[ =]", value.decode(), maxsplit=1)[1] for _, value in proofs]
        return proofs


@dataclass
class FuzzFindings:
    """What is wrong, with the inputs that show it."""

    inputs: int = 0
    broken: list[str] = field(default_factory=list[str])
    unanswered: int = 0
    statuses: dict[int, int] = field(default_factory=dict[int, int])


async def fuzz(
    target: FuzzTarget, route: Route, seed: str, count: int, holds: Holds, found: FuzzFindings
) -> None:
    """So many inputs for one route."""
    inputs = Inputs(seed, route, await target.proofs())
    for begin in range(0, count, MADE_AT_ONCE):
        # In a thread: neither making them nor collecting garbage is what holds a gateway's loop.
        await asyncio.to_thread(gc.collect)
        for sent in await asyncio.to_thread(inputs.some, min(MADE_AT_ONCE, count - begin)):
            holds.now = sent.shown
            line = await target.served.ask(sent.pieces, sent.peer, sent.whole)
            _judge(route, sent, line, found)
    holds.now = ""


def _judge(route: Route, sent: Input, line: FuzzTransport, found: FuzzFindings) -> None:
    found.inputs += 1
    code = status(line)
    found.statuses[code] = found.statuses.get(code, 0) + 1
    if code == 0:
        found.unanswered += 1
    elif code >= 500 and not (code == 503 and route.path == UNREADY):
        found.broken.append(f"{code}: {sent.shown}: {b''.join(sent.pieces)[:2000]!r}")


async def warm(target: FuzzTarget, seed: str) -> None:
    """What is imported or compiled at a first call is no stranger's doing."""
    for route in target.routes:
        await fuzz(target, route, f"{seed} warm", WARM_INPUTS, Holds(), FuzzFindings())


@asynccontextmanager
async def opened(
    process: str, settings: Settings, db: Database, redis: RedisClient
) -> AsyncGenerator[FuzzTarget]:
    """One of the processes that strangers reach."""
    if process == "console":
        yield await _console(settings, db, redis)
        return
    async with _gateway(settings, db, redis) as target:
        yield target


@asynccontextmanager
async def _gateway(settings: Settings, db: Database, redis: RedisClient) -> AsyncGenerator[FuzzTarget]:
    """A gateway with one tenant, its key and a browser that signed in."""
    settings = settings.model_copy(update=dict.fromkeys([*CALLERS_LIMITS, *ADDRESS_LIMITS], 10**9))
    context = make_context(settings, "gw-fuzz", db, redis)
    connections, health = GatewayConnections(context), Health(context)
    await connections.subscriptions.start()
    gate = UpgradeLimits(settings, context.rates, connections.registry.unidentified)
    served = Served(
        configured(limited_application(context, connections, health), gate, **serving_options(settings))
    )
    key = await _key(db, "gateway")

    async def sign_in() -> list[Header]:
        cookie = await _signed_in(served, b"/v1/login", [], b'{"key":"%s"}' % key.encode())
        return [(b"authorization", b"Bearer " + key.encode()), (b"cookie", cookie)]

    hearing = asyncio.create_task(connections.subscriptions.run())
    try:
        yield FuzzTarget(served, [*_swept(routes(context, health)), SOCKET], sign_in)
        while connections.registry.busy:  # noqa: ASYNC110  (the last connections leave)
            await asyncio.sleep(LEAVING_SECONDS)
    finally:
        await cancel_tasks([hearing])


async def _console(settings: Settings, db: Database, redis: RedisClient) -> FuzzTarget:
    """A console with an operator who signed in, and a key that reads a tenant's usage."""
    settings = settings.model_copy(update=dict.fromkeys([*CALLERS_LIMITS, *ADDRESS_LIMITS], 10**9))
    made = Console(settings, redis, db)
    served = Served(configured(SecurityHeaders(made.app(), settings.tls), UpgradeGate(settings), ws="none"))
    key = await _key(db, "console", scopes=["usage:read:tenant"])

    async def sign_in() -> list[Header]:
        owner = await ensure_owner(db, "fuzz")
        assert owner is not None, "others own the installation"
        code = make_person_code(settings.keyring, owner.person.id, PLATFORM, now_ms())
        body = b'{"by":"link","code":"%s"}' % code.encode()
        cookie = await _signed_in(served, b"/api/sign-in", [], body)
        return [(b"authorization", b"Bearer " + key.encode()), (b"cookie", cookie)]

    return FuzzTarget(served, _swept(made.routes()), sign_in)


async def _key(db: Database, process: str, scopes: Sequence[str] = ("chat",)) -> str:
    """Of a tenant of the process's own: one run opens both on one database."""
    tenant = await create_tenant(db, process)
    project = await create_project(db, tenant.tenant_id, "web")
    _, key = await create_key(db, tenant.tenant_id, project.id, scopes=scopes)
    return key


def _swept(served: Sequence[BaseRoute]) -> list[Route]:
    swept = [
        Route(method, route.path)
        for route in served
        if isinstance(route, HttpRoute)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]
    return swept + [Route("GET", path) for path in STATIC]


async def _signed_in(
    served: Served, path: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"host: 127.0.0.1:8080", b"origin: http://127.0.0.1:8080"]
    lines += [name + b": " + value for name, value in headers]
    lines += [b"content-length: %d" % len(body), b"connection: close"]
    line = await served.ask([b"\r\n".join(lines) + b"\r\n\r\n" + body], "127.0.0.1", whole=True)
    head = bytes(line.written).partition(b"\r\n\r\n")[0]
    cookies = [each for each in head.split(b"\r\n") if each.lower().startswith(b"set-cookie:")]
    assert cookies, f"nobody could sign in: {head!r}"
    return cookies[0].partition(b":")[2].partition(b";")[0].strip()


class BoundedLog(io.TextIOBase):
    """A log that keeps only what matters: how long its longest line is, and whether it holds a secret."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = secrets
        self.longest = ""
        self.lines = 0
        self.told: list[str] = []
        self.at_error: list[str] = []

    def write(self, text: str, /) -> int:
        """See TextIOBase."""
        for line in text.splitlines():
            self.lines += 1
            if len(line.encode(errors="replace")) > len(self.longest.encode(errors="replace")):
                self.longest = line
            if '"level": "error"' in line:
                self.at_error.append(line)
            self.told += [line for secret in self._secrets if secret in line]
        return len(text)


@contextmanager
def heard_logs(settings: Settings, secrets: Sequence[str]) -> Generator[list[BoundedLog]]:
    """While the block runs, logs go here in both formats and nowhere else."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    found: list[tuple[logging.Handler, BoundedLog]] = []
    for format in ("json", "console"):
        configure_logs(settings.model_copy(update={"log_format": format}), "fuzz")
        (handler,) = root.handlers
        assert isinstance(handler, logging.StreamHandler)
        log = BoundedLog(secrets)
        handler.setStream(log)
        found.append((handler, log))
    root.handlers[:] = [handler for handler, _ in found]
    try:
        yield [log for _, log in found]
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
