"""A server of parley.v1 whose every frame the test writes by hand, reached over a wire that the test can cut.

It serves the real chat page under the gateway's own headers, so that page and clients meet what a healthy
gateway rarely shows: cuts in mid-delta, repeats, gaps, snaps, a drain.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from core.clock import now_ms
from server.http.app import SecurityHeaders
from server.http.person import HEADER
from server.http.web_files import BUILT, page, web_routes
from tests.support.patience import START_SECONDS, patience, wait_until

Frame = dict[str, Any]
PRICES = {"currency": "usd", "input_nano": 50_000_000, "output_nano": 100_000_000, "request_nano": 0}
BLANK = '<!doctype html><title>blank</title><link rel="icon" href="data:,">'
MODELS = [
    {"name": "smollm2", "version": "1", "default": True, "max_model_len": 8192, "prices": PRICES},
    {"name": "smollm2-large", "version": "1", "default": False, "max_model_len": 8192, "prices": PRICES},
]


class Socket:
    """One accepted WebSocket, played by the test. `heard`: what was not taken yet; `log`: all of it."""

    def __init__(self, socket: WebSocket, encoding: str = "json") -> None:
        self._socket = socket
        self.encoding = encoding
        self.heard: list[Frame] = []
        self.log: list[Frame] = []
        self.code: int | None = None
        self.closed = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def path(self) -> str:
        """What the client asked for, with its query."""
        url = self._socket.url
        return f"{url.path}?{url.query}" if url.query else url.path

    async def read(self) -> None:
        """Collect what the client sends until it is gone."""
        try:
            while True:
                self.log.append(await self._receive())
                self.heard.append(self.log[-1])
                self._changed.set()
        except WebSocketDisconnect as gone:
            self.code = gone.code
        finally:
            self.closed.set()
            self._changed.set()

    async def _receive(self) -> Frame:
        if self.encoding == "msgpack":
            return msgspec.msgpack.decode(await self._socket.receive_bytes())
        return json.loads(await self._socket.receive_text())

    async def tell(self, t: str, **fields: Any) -> None:
        """Send one frame."""
        frame = {"t": t, **fields}
        if self.encoding == "msgpack":
            await self._socket.send_bytes(msgspec.msgpack.encode(frame))
        else:
            await self._socket.send_text(json.dumps(frame))

    async def hear(self, t: str) -> Frame:
        """Take the next frame of this type; others stay to be taken."""
        async with patience():
            while True:
                found = next((frame for frame in self.heard if frame["t"] == t), None)
                if found is not None:
                    self.heard.remove(found)
                    return found
                assert not self.closed.is_set(), f"closed {self.code}; no {t} among {self.heard}"
                self._changed.clear()
                await self._changed.wait()

    async def welcome(self, **fields: Any) -> Frame:
        """Take `hello`, answer `welcome`, return the hello."""
        hello = await self.hear("hello")
        await self.tell("welcome", **(welcome_fields() | fields))
        return hello

    async def accept(self, g: int = 1, **fields: Any) -> str:
        """Take `send`, answer `accepted`, return the request's id."""
        send = await self.hear("send")
        await self.tell("accepted", id=send["id"], g=g, **(accepted_fields() | fields))
        return send["id"]

    async def delta(self, text: str, a: int, b: int | None = None, p: int = 0, g: int = 1) -> None:
        """One delta for the offsets a..b."""
        await self.tell("delta", g=g, a=a, b=b or a, p=p, x=text, i=b or a)

    async def end(self, text: str, o: int, g: int = 1, **fields: Any) -> None:
        """The end of a request whose final text is `text`."""
        await self.tell("end", g=g, o=o, **(end_fields(text) | fields))

    async def close(self, code: int, reason: str = "") -> None:
        """Close with a code."""
        await self._socket.close(code, reason)


def welcome_fields() -> Frame:
    """A welcome to a new session."""
    return {
        "session": "s",
        "connection": "c",
        "resume_token": "resume-1",
        "resume_expires_at": now_ms() + 900_000,
        "heartbeat": {"interval_ms": 25_000, "timeout_ms": 10_000},
        "limits": {
            "events": 256,
            "bytes": 32768,
            "frame": 262144,
            "requests": 16,
            "connection_bytes": 131072,
        },
        "resumed": "none",
        "requests": [],
        "now": now_ms(),
    }


def accepted_fields() -> Frame:
    """A first acceptance."""
    place = {"position": 0, "wait_ms": 0}
    return {"epoch": 1, "dup": False, "priority": "interactive", "queue": place, "quota": {}}


def end_fields(text: str) -> Frame:
    """An ordinary end."""
    return {
        "reason": "stop",
        "usage": {"input": 37, "cached_input": 0, "output": 12, "total": 49},
        "cost": {"nano": 6100, "currency": "usd"},
        "timing": {"queue_ms": 2, "ttft_ms": 41, "total_ms": 212},
        "h": sha256(text.encode()).hexdigest(),
    }


@dataclass(frozen=True)
class UpgradeRefusal:
    """How the next WebSocket is refused."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Peer:
    """The server. `port` is the one that can be cut; `refusals` meet the next WebSockets, one each."""

    port: int = 0
    sockets: "asyncio.Queue[Socket]" = field(default_factory=lambda: asyncio.Queue[Socket]())
    conversations: list[Frame] = field(default_factory=list[Frame])
    messages: dict[str, list[Frame]] = field(default_factory=dict[str, list[Frame]])
    signed_in: bool = True
    user: str = "u"
    revoked: bool = False
    away: bool = False
    sessions: list[Frame] = field(default_factory=list[Frame])
    signins_after_ms: int = 0
    tickets: int = 0
    logins: list[Frame] = field(default_factory=list[Frame])
    refusals: list[UpgradeRefusal] = field(default_factory=lambda: list[UpgradeRefusal]())
    _wires: set[asyncio.Transport] = field(default_factory=set[asyncio.Transport])

    @property
    def person(self) -> str:
        """The id of who is signed in."""
        return f"person-{self.user}"

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}"

    async def socket(self) -> Socket:
        """The next WebSocket that a client opens."""
        async with patience(START_SECONDS):
            return await self.sockets.get()

    def cut(self) -> None:
        """Cut all TCP connections at once, without goodbye."""
        for transport in list(self._wires):
            transport.abort()

    async def _play(self, socket: WebSocket) -> None:
        if self.refusals:
            refusal = self.refusals.pop(0)
            await socket.send_denial_response(
                PlainTextResponse(refusal.body, refusal.status, headers=refusal.headers)
            )
            return
        offered = socket.headers["sec-websocket-protocol"]
        await socket.accept(offered)
        played = Socket(socket, offered.removeprefix("parley.v1."))
        self.sockets.put_nowait(played)
        await played.read()

    async def _login(self, request: Request) -> Response:
        if self.signins_after_ms:
            error = {
                "code": "rate_limited",
                "message": "too many",
                "retry": True,
                "after_ms": self.signins_after_ms,
            }
            return JSONResponse({"error": error}, 429)
        body = await request.json()
        self.logins.append(body)
        self.signed_in = self.signed_in or body in ({"code": "c0de"}, {"key": "pk_good"})
        if not self.signed_in:
            return _unauthorized("this key does not work; ask for a new one")
        return await self._me(request)

    async def _me(self, _request: Request) -> Response:
        if self.revoked:
            return _unauthorized("you were signed out: your key was revoked")
        if not self.signed_in:
            return JSONResponse(dict.fromkeys(("tenant", "project", "user", "person")))
        return JSONResponse({"tenant": "t", "project": "p", "user": self.user, "person": self.person})

    async def _logout(self, _request: Request) -> Response:
        self.signed_in = False
        return JSONResponse({})

    async def _sessions(self, _request: Request) -> Response:
        return JSONResponse({"sessions": self.sessions})

    async def _end_session(self, request: Request) -> Response:
        if self.away:
            return JSONResponse({"error": {"code": "internal", "message": "something went wrong"}}, 503)
        self.sessions = [each for each in self.sessions if each["id"] != request.path_params["id"]]
        return JSONResponse({})

    async def _ticket(self, _request: Request) -> Response:
        if self.revoked or not self.signed_in:
            return _unauthorized("sign in")
        self.tickets += 1
        return JSONResponse({"ticket": f"ticket-{self.tickets}", "expires_at": now_ms() + 60_000})

    async def _list(self, _request: Request) -> Response:
        return JSONResponse({"conversations": self.conversations, "cursor": None})

    async def _messages(self, request: Request) -> Response:
        found = self.messages.get(request.path_params["id"])
        if found is None:
            return JSONResponse({"error": {"code": "unknown_conversation", "message": "none"}}, 404)
        return JSONResponse({"messages": found, "cursor": None})

    async def _delete(self, request: Request) -> Response:
        self.conversations = [each for each in self.conversations if each["id"] != request.path_params["id"]]
        return JSONResponse({})

    def app(self, modules: Sequence[Path] = ()) -> Starlette:
        """The routes of docs/protocol.md, "HTTP beside the socket"."""
        routes = [
            Route("/", page),
            Route("/blank", lambda _: HTMLResponse(BLANK)),
            Route("/v1/login", self._login, methods=["POST"]),
            Route("/v1/logout", self._logout, methods=["POST"]),
            Route("/v1/me", self._me),
            Route("/v1/sessions", self._sessions),
            Route("/v1/sessions/{id}", self._end_session, methods=["DELETE"]),
            Route("/v1/tickets", self._ticket, methods=["POST"]),
            Route("/v1/models", lambda _: JSONResponse({"models": MODELS})),
            Route("/v1/conversations", self._list),
            Route("/v1/conversations/{id}", self._delete, methods=["DELETE"]),
            Route("/v1/conversations/{id}/messages", self._messages),
            WebSocketRoute("/v1/ws", self._play),
            *web_routes((BUILT, *modules)),
        ]
        middleware = [Middleware(SecurityHeaders), Middleware(BaseHTTPMiddleware, dispatch=self._named)]
        return Starlette(routes=routes, middleware=middleware)

    async def _named(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        reply = await call_next(request)
        if self.signed_in and not self.revoked:
            reply.headers[HEADER] = self.person
        return reply


def _unauthorized(message: str) -> Response:
    return JSONResponse({"error": {"code": "unauthorized", "message": message}}, 401)


class _Wire(asyncio.Protocol):
    """One direction of a TCP connection through the peer's cuttable port."""

    def __init__(self, wires: set[asyncio.Transport], other: "_Wire | None", target: int) -> None:
        self._wires = wires
        self._other = other
        self._target = target
        self._early = b""
        self.transport: asyncio.Transport | None = None
        self._dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Dial the server for a client's connection."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._wires.add(transport)
        if self._other is None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        other = _Wire(self._wires, self, self._target)
        await loop.create_connection(lambda: other, "127.0.0.1", self._target)
        assert other.transport is not None
        other.transport.write(self._early)
        self._other = other

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._other is None or self._other.transport is None:
            self._early += data
        else:
            self._other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """A cut on one side is a cut on the other."""
        assert self.transport is not None
        self._wires.discard(self.transport)
        if self._other is not None and self._other.transport is not None:
            self._other.transport.abort() if exc else self._other.transport.close()


@asynccontextmanager
async def scripted_peer(*modules: Path) -> AsyncGenerator[Peer]:
    """A peer on a free port. `modules`: folders with the page's modules, for tests that import one."""
    peer = Peer()
    config = uvicorn.Config(
        peer.app(modules),
        port=0,
        log_level="error",
        ws="websockets-sansio",
        ws_ping_interval=None,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    config.load()
    serving = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    inner = server.servers[0].sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    wires = peer._wires
    front = await loop.create_server(lambda: _Wire(wires, None, inner), "127.0.0.1", 0)
    peer.port = front.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        front.close()
        peer.cut()
        server.should_exit = True
        await serving
