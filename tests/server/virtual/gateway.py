"""A gateway without sockets, Redis and database: its connections, subscriptions and routes are the real
ones, its stores are in memory, and its time is its loop's."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import msgspec

from billing.api import KEY_REVOKED, ControlNews
from core.configuration.settings import Settings
from core.tasks import cancel_tasks
from engine.api import Hint, ModelRecord
from server import main
from server.access.rates import CallRates
from server.connection.gateway_connections import GatewayConnections
from server.connection.websocket import WIRE, SocketListener
from server.context import GatewayContext
from server.http.health import Health
from server.models.catalogue import ServedModel
from server.protocol.flags import flags_after
from tests.engine.builders import FINGERPRINT
from tests.server.virtual.conversations import MemoryConversations
from tests.server.virtual.held import Held
from tests.server.virtual.pool import MemoryPool
from tests.server.virtual.redis import MemoryRedis
from tests.server.virtual.stores import (
    MemoryCatalogue,
    MemoryKeys,
    MemoryPolicies,
    MemoryPrompts,
    MemoryQuota,
    MemoryUsers,
    MemoryVetting,
    Nothing,
)

CONTEXT = 2048
POOL = "virtual"
LOST = 1006


class VirtualSocket:
    """Both ends of one socket: what websocket.py gives a connection, and what a client hears of it."""

    full = False
    unsent = 0

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str | bytes | int] = asyncio.Queue()
        self.closed: int | None = None
        self._listener: SocketListener | None = None
        self._unread: list[str | bytes] = []
        self._held = False

    # The gateway's end

    def write(self, payload: bytes, text: bool) -> None:
        """See server.connection.websocket.Wire."""
        if self.closed is None:
            self.heard.put_nowait(payload.decode() if text else payload)

    def hold(self) -> None:
        """See server.connection.websocket.Wire."""
        self._held = True

    def release(self) -> None:
        """See server.connection.websocket.Wire."""
        self._held = False
        asyncio.get_running_loop().call_soon(self._read_on)

    def close(self, code: int, reason: str = "") -> None:
        """See server.connection.websocket.Wire."""
        if self.closed is None:
            self.closed = int(code)
            self.heard.put_nowait(self.closed)

    def abort(self, code: int) -> None:
        """See server.connection.websocket.Wire."""
        self.close(code)

    def hand_over(self, listener: SocketListener) -> None:
        """See server.connection.websocket.Wire."""
        self._listener = listener
        self._read_on()

    def _read_on(self) -> None:
        while self._unread and not self._held and self.closed is None and self._listener is not None:
            self._listener.received(self._unread.pop(0))

    # The client's end

    def say(self, frame: str | bytes) -> None:
        """A frame arrives."""
        self._unread.append(frame)
        asyncio.get_running_loop().call_soon(self._read_on)

    def leave(self, code: int | None) -> None:
        """The client closes with a code, or loses its socket. What it said before arrives first."""
        self._read_on()
        if self.closed is None:
            self.closed = LOST if code is None else code
            self.heard.put_nowait(self.closed)
        if self._listener is not None:
            self._listener.lost(code)


class UpgradeRefused(Exception):  # noqa: N818  (what a test may want)
    """The HTTP status of an upgrade that was refused."""

    def __init__(self, status: int) -> None:
        self.status = status


class _Hints:
    """News of the pool."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Hint] = asyncio.Queue()

    def tell(self, hint: Hint) -> None:
        """Something was appended."""
        self._waiting.put_nowait(hint)

    async def follow(self, _pool: str) -> None:
        """All news come here."""

    async def __aiter__(self) -> AsyncGenerator[Hint]:
        while True:
            yield await self._waiting.get()

    async def close(self) -> None:
        """Listen no more."""


@dataclass
class VirtualGateway:
    """One, running."""

    settings: Settings
    redis: MemoryRedis
    keys: MemoryKeys
    quota: MemoryQuota
    conversations: MemoryConversations
    policies: MemoryPolicies
    pool: MemoryPool
    connections: GatewayConnections
    health: Health
    app: Any
    draining: "asyncio.Task[None] | None" = None
    _upgrades: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    async def connect(
        self, offered: Sequence[str] = ("parley.v1.json",), headers: Mapping[str, str] | None = None
    ) -> tuple[VirtualSocket, str]:
        """A socket that has said nothing yet, and its subprotocol. Raises UpgradeRefused."""
        wire, chosen = VirtualSocket(), asyncio.Future[str]()
        given = {"host": "gateway", **{name.lower(): value for name, value in (headers or {}).items()}}
        scope = {
            "type": "websocket",
            "path": "/v1/ws",
            "scheme": "ws",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "subprotocols": list(offered),
            "extensions": {WIRE: wire, "websocket.http.response": {}},
        }

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "websocket.accept":
                chosen.set_result(message["subprotocol"])
            elif message["type"] == "websocket.http.response.start":
                chosen.set_exception(UpgradeRefused(message["status"]))

        await self.app(scope, receive, send)
        return wire, await chosen

    async def http(self, method: str, path: str, **asked: Any) -> httpx.Response:
        """One HTTP request."""
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.request(method, path, **asked)

    async def revoke(self, tenant: str, key: str) -> None:
        """End a key, and tell."""
        self.keys.gone.add(key)
        news = ControlNews(kind=KEY_REVOKED, tenant=tenant, key=key)
        await self.redis.publish("", msgspec.json.encode(news))

    def drain(self) -> None:
        """It is told to stop."""
        self.health.draining = True
        seconds = self.settings.drain_seconds_max
        self.draining = asyncio.create_task(self.connections.drain(seconds))


@asynccontextmanager
async def virtual_gateway(settings: Settings, model: Path) -> AsyncGenerator[VirtualGateway]:
    """A gateway that runs until the block ends. `model`: a folder with a tokenizer and a template."""
    redis, quota, conversations, hints = MemoryRedis(), MemoryQuota(), MemoryConversations(), _Hints()

    def settled(found: Held) -> None:
        asked = found.asked
        quota.settle(asked.tenant, asked.id)
        end = msgspec.json.decode(found.entries[-1].v)
        flags = msgspec.to_builtins(flags_after(found.entries))
        conversations.record(asked.tenant, asked.id, found.said, flags, found.head, end)

    policies = MemoryPolicies()
    pool = MemoryPool(POOL, settings.park_seconds_max, settled, hints.tell)
    record = ModelRecord("tiny", "1", FINGERPRINT, model, CONTEXT)
    keys, nothing = MemoryKeys(redis, settings), Nothing()
    by_pool = {"gateway": "g1", "queues": {POOL: pool}, "logs": {POOL: pool}, "recorders": nothing}
    parts = {
        "settings": settings,
        "rates": CallRates(settings),
        "db": None,
        "redis": redis,
        "auth": keys,
        "quota": quota,
        "limits": nothing,
        "closed_users": nothing,
        "users": MemoryUsers(),
        "used_sessions": nothing,
        "policies": policies,
        "vetting": MemoryVetting(),
        "prompts": MemoryPrompts(model, settings.prompt_characters_max),
        "catalogue": MemoryCatalogue(ServedModel(record, POOL)),
        "shapes": nothing,
        "conversations": conversations,
        "pools": SimpleNamespace(**by_pool, is_ordered=lambda *_: False, serve=lambda _: None),
        "journals": nothing,
        "terms": nothing,
        "refusals": nothing,
    }
    context = cast(GatewayContext, SimpleNamespace(**parts))
    connections, health = GatewayConnections(context), Health(context)
    subscriptions = connections.subscriptions
    subscriptions._hints = cast(Any, hints)  # pyright: ignore[reportPrivateUsage]  (no other way in)
    await subscriptions.start()
    app = main.limited_application(context, connections, health)
    tasks = [asyncio.create_task(subscriptions.run()), asyncio.create_task(connections.run())]
    gateway = VirtualGateway(
        settings, redis, keys, quota, conversations, policies, pool, connections, health, app
    )
    try:
        yield gateway
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        await cancel_tasks([*tasks, *([gateway.draining] if gateway.draining else [])])
        await cancel_tasks(connections.registry.work.running | subscriptions.work)
        await pool.close()
