"""A whole gateway on a free port, over real SQLite and Valkey, with a scripted worker when a test wants one.

The model is a tiny folder: bytes for tokens and a ChatML-like template. Real models are the system tests'
part.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr
from tokenizers import AddedToken
from tokenizers.pre_tokenizers import ByteLevel
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from billing.api import create_key, create_project, create_tenant
from billing.pools import fill_pool
from chaos.injected.scripted import NextToken, ScriptedEngine
from core.access.processes import GATEWAY
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from engine.api import EntryKind, ModelRecord
from engine.models.registry import save
from server.main import serve
from tests.engine.builders import FINGERPRINT
from tests.engine.tokens import EOS, byte_tokenizer, ids_of
from tests.engine.workers import PoolWorkers
from tests.support.patience import patience, wait_until
from tests.support.ports import free_ports
from tests.support.redis import Redis
from tests.support.users import assert_nothing_refused, make_user, url_of

CONTEXT = 2048
TEMPLATE = (
    "{% for message in messages %}<s>{{ message.role }}\n{{ message.content }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
ANSWERS_BEGIN = ids_of("assistant\n")


def tiny_model(folder: Path) -> Path:
    """A model folder that prompts can be made from."""
    folder.mkdir()
    tokenizer = byte_tokenizer()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def saying(text: str) -> NextToken:
    """Answers every prompt with this text, then end-of-sequence."""
    script = [*ids_of(text), EOS]

    def next_token(context: Sequence[int]) -> int:
        said = answer_begins(context)
        return script[min(len(context) - said, len(script) - 1)]

    return next_token


def answer_begins(context: Sequence[int]) -> int:
    """Where the last answer of a prompt begins."""
    length = len(ANSWERS_BEGIN)
    ends = (at + length for at in range(len(context) - length, -1, -1))
    return next(end for end in ends if list(context[end - length : end]) == ANSWERS_BEGIN)


@dataclass
class Site:
    """A running gateway with one tenant."""

    settings: Settings
    database: Database
    redis: Redis
    tenant: str
    project: str
    key_id: str
    key: str
    crew: PoolWorkers
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return f"http://127.0.0.1:{self.settings.port}"

    async def another_key(self, **facts: Any) -> str:
        """A further key of the tenant."""
        return (await create_key(self.database, self.tenant, self.project, **facts))[1]

    async def foreign_key(self) -> str:
        """A key of another tenant."""
        tenant = await create_tenant(self.database, f"other {uuid7(now_ms())}")
        project = await create_project(self.database, tenant.tenant_id, "web")
        return (await create_key(self.database, tenant.tenant_id, project.id))[1]

    async def crew_ended(self, id: str) -> None:
        """Until the request's end is in its log."""
        log = self.crew.log

        async def ended() -> bool:
            entries = await log.read(self.tenant, id, 0, 10_000)
            return bool(entries) and entries[-1].k is EntryKind.END

        await wait_until(ended)

    @asynccontextmanager
    async def open(self, subprotocol: str = "parley.v1.json", **headers: str) -> AsyncGenerator["RawPeer"]:
        """A socket that has said nothing yet."""
        address = self.url.replace("http", "ws") + "/v1/ws"
        async with connect(
            address, subprotocols=[Subprotocol(subprotocol)], additional_headers=headers, max_size=None
        ) as peer:
            yield RawPeer(peer)

    @asynccontextmanager
    async def welcomed(self, key: str | None = None, **hello: Any) -> AsyncGenerator["RawPeer"]:
        """A socket whose hello was accepted."""
        async with self.open() as peer:
            await peer.tell("hello", v=1, token=key or self.key, **hello)
            peer.welcome = await peer.hear()
            assert peer.welcome["t"] == "welcome", peer.welcome
            yield peer

    @asynccontextmanager
    async def answering(self, text: str, step_seconds: float = 0.0) -> AsyncGenerator[ScriptedEngine]:
        """A worker that answers everything with this text."""
        engine = ScriptedEngine(saying(text), step_seconds=step_seconds)
        async with self.crew.worker(engine):
            yield engine


@dataclass
class RawPeer:
    """A client that does nothing by itself: no acks, no pongs."""

    socket: ClientConnection
    welcome: dict[str, Any] = field(default_factory=dict[str, Any])
    passed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def tell(self, kind: str, **fields: Any) -> None:
        """Send one message."""
        await self.socket.send(json.dumps({"t": kind, **fields}))

    async def hear(self, kind: str | None = None, **fields: Any) -> dict[str, Any]:
        """The next message; or the first of one type that has these fields, while others are kept."""

        def wanted(frame: dict[str, Any]) -> bool:
            return kind in (None, frame["t"]) and fields.items() <= frame.items()

        kept = next((frame for frame in self.passed if wanted(frame)), None) if kind else None
        if kept is not None:
            self.passed.remove(kept)
            return kept
        while True:
            async with patience():
                frame: dict[str, Any] = json.loads(await self.socket.recv())
            if wanted(frame):
                return frame
            self.passed.append(frame)

    async def send(self, content: Any = "hello", **fields: Any) -> str:
        """Send one turn; its id."""
        id = fields.pop("id", None) or uuid7(now_ms())
        await self.tell("send", id=id, content=content, **fields)
        return id

    async def closed(self) -> int | None:
        """The close code, once the server has closed; messages before it are passed over."""
        try:
            async with patience():
                while True:
                    await self.socket.recv()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    async def quiet(self) -> None:
        """Nothing else was on its way: the server's pong is the next message."""
        await self.tell("ping", ts=1)
        frame = await self.hear()
        assert frame == {"t": "pong", "ts": 1}, frame


@asynccontextmanager
async def running_site(
    settings: Settings, database: Database, redis: Redis, **changed: Any
) -> AsyncGenerator[Site]:
    """A gateway that serves until the block ends; `changed` settings differ from the tests' usual ones."""
    [port] = free_ports(1)
    # Without a URL the database is the file `parley.db` in the home, which the fixture made.
    settings = settings.model_copy(
        update={"port": port, "model": "tiny", "drain_seconds_max": 1.0, **changed}
    )
    folder = tiny_model(settings.home / "tiny")
    await save(database, ModelRecord("tiny", "1", FINGERPRINT, folder, CONTEXT), {}, now_ms())
    await fill_pool(database, settings.pool, "tiny", "1", 1)
    tenant = await create_tenant(database, "acme")
    project = await create_project(database, tenant.tenant_id, "web")
    row, secret = await create_key(database, tenant.tenant_id, project.id)
    crew = PoolWorkers(redis, settings, as_worker=True)
    site = Site(settings, database, redis, tenant.tenant_id, project.id, row.id, secret, crew)
    user = await make_user(redis, GATEWAY)
    own = settings.model_copy(update={"redis_url": SecretStr(url_of(settings.redis_endpoint, user))})
    serving = asyncio.create_task(serve(own, site.stop))
    try:
        await wait_until(lambda: _answers(site, serving))
        yield site
    finally:
        site.stop.set()
        await serving
        await assert_nothing_refused(redis, user)


async def _answers(site: Site, serving: "asyncio.Task[None]") -> bool:
    assert not serving.done(), serving.exception()
    async with httpx.AsyncClient(verify=False) as client:  # loading certificates takes long
        try:
            return (await client.get(f"{site.url}/healthz")).status_code == 200
        except httpx.TransportError:
            return False
