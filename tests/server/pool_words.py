"""In place of Redis and SQL: a pool, its log and the tables of conversations, for tests of the recorder."""

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import msgspec

from billing.usage import ENDED_FIELD, UsageEvent
from core.configuration.settings import Settings
from engine.api import Entry, EntryKind, RequestStatus
from server.conversations.recorder import PoolRecorders, Recorder
from server.conversations.store import RecordedAnswer
from server.conversations.tables import Message
from tests.billing.events import an_event

END = {
    "reason": "stop",
    "usage": {"input": 1},
    "timing": {"total_ms": 2},
    "cost": {"nano": 3, "currency": "usd"},
    "h": "",
}


def view(status: RequestStatus = RequestStatus.ENDED, dest: str = "", epoch: int = 4, head: int = 7) -> Any:
    """How a request stands."""
    return SimpleNamespace(
        status=status, ended=status is RequestStatus.ENDED, dest=dest, epoch=epoch, head=head
    )


def entry(**changes: Any) -> Entry:
    """The last of a log."""
    return Entry(7, EntryKind.END, v=msgspec.json.encode(END | changes))


def event(request: str, conversation: str = "c1") -> UsageEvent:
    """What a worker says of a request's end."""
    owner = msgspec.structs.replace(an_event().owner, conversation=conversation)
    return an_event(request, owner=owner)


def fields(of: UsageEvent) -> dict[bytes, bytes]:
    """As it is in the stream."""
    return {ENDED_FIELD.encode(): msgspec.msgpack.encode(of)}


class World:
    """A pool and a database, and what was asked of them."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.new: Any = []
        self.newest: list[Any] = []
        self.views: dict[tuple[str, str], Any] = {}
        self.tail: list[Entry] = [entry()]
        self.text: str | Exception = "hi"
        self.before: list[Entry] = []
        self.flagged: list[Entry] = []
        self.problem = ""
        self.admitted_to: str | None = None
        self.row: Message | None = None
        self.known = True
        self.rows = True
        self.erased = False
        self.error: Exception | None = None
        self.group_error: Exception | None = None
        self.broken: dict[str, Exception] = {}
        self.did: list[tuple[Any, ...]] = []
        self.answers: list[RecordedAnswer] = []
        self.db = "db"

    # Redis

    async def xgroup_create(self, stream: str, group: str, *, id: str, mkstream: bool) -> None:
        self.did.append(("group", stream, group, id, mkstream))
        if self.group_error is not None:
            raise self.group_error

    async def xautoclaim(self, stream: str, group: str, who: str, idle_ms: int, *, count: int) -> Any:
        self.did.append(("take", stream, group, who, idle_ms, count))
        return [b"0-0", self.taken, []]

    async def xreadgroup(self, group: str, who: str, streams: Any, *, count: int, block: int) -> Any:
        self.did.append(("read", group, who, streams, count, block))
        return self.new

    async def xrevrange(self, stream: str, *, count: int) -> Any:
        self.did.append(("newest", stream, count))
        return self.newest

    async def xack(self, stream: str, group: str, id: bytes) -> None:
        self.did.append(("ack", stream, group, id))

    # The admissions

    def admissions_of(self, _: Settings) -> "World":
        return self

    def strange(self, pool: str, event: UsageEvent) -> str:
        assert pool == event.pool
        return self.problem

    async def directory(self, tenant: str, request: str) -> Any:
        self.did.append(("directory", tenant, request))
        return self.admitted_to and SimpleNamespace(pool=self.admitted_to)

    # The tables

    async def record(self, tenant: str, request: str, answer: RecordedAnswer) -> bool:
        self.did.append(("record", tenant, request))
        self.answers.append(answer)
        return self.known

    async def has_rows(self, tenant: str, request: str) -> bool:
        self.did.append(("rows", tenant, request))
        return self.rows

    async def is_erased(self, db: object, tenant: str, user: str) -> bool:
        assert (db, tenant, user) == ("db", "t1", "u1")
        return self.erased

    async def answer_row(self, tenant: str, request: str) -> tuple[Message, None] | None:
        assert (tenant, request) == ("t1", "r1")
        return None if self.row is None else (self.row, None)

    async def running(self, tenant: str, conversation: str) -> Message | None:
        assert (tenant, conversation) == ("t1", "c1")
        return self.row

    def recorder(self) -> Recorder:
        """Of its pool."""
        world: Any = self
        return Recorder(world, "default", Settings(log_keep_seconds=99), world, "gw")

    def recorders(self, *pools: str) -> PoolRecorders:
        """Of `default` and these."""
        world: Any = self
        found = PoolRecorders(world, Settings(), world, "gw")
        for pool in pools:
            found.keep(pool)
        return found

    def asked(self, *kinds: str) -> list[tuple[Any, ...]]:
        """What was done of these kinds."""
        return [each for each in self.did if each[0] in kinds]


class Queue:
    """As engine's, of one pool."""

    def __init__(self, world: Any, pool: str, _: Settings) -> None:
        self.pool, self._world = pool, world

    async def view(self, tenant: str, request: str) -> Any:
        assert tenant == "t1"
        self._world.did.append(("view", self.pool, request))
        if self._world.error is not None:
            raise self._world.error
        return self._world.views.get((self.pool, request))

    async def expire_log(self, tenant: str, request: str, seconds: int) -> None:
        if self.pool in self._world.broken:
            raise self._world.broken[self.pool]
        self._world.did.append(("expire", self.pool, tenant, request, seconds))


class PoolWordsLog:
    """As engine's reader."""

    def __init__(self, world: Any, pool: str) -> None:
        assert pool
        self._world = world

    async def read(self, tenant: str, request: str, after: int, entries_max: int) -> list[Entry]:
        self._world.did.append(("tail", tenant, request, after, entries_max))
        return self._world.tail

    async def pages_through(self, tenant: str, request: str, head: int) -> AsyncGenerator[list[Entry]]:
        self._world.did.append(("text", tenant, request, head))
        if isinstance(self._world.text, Exception):
            raise self._world.text
        for entry in self._world.before:
            yield [entry]
        yield [Entry(6, EntryKind.TEXT, x=self._world.text), *self._world.flagged]


def row(created_ms: int = 0) -> Message:
    """An answer that runs."""
    return Message(
        tenant_id="t1", id="m", conversation_id="c1", position=2, role="assistant", content="",
        request_id="r1", status="running", epoch=5, head=6, created_ms=created_ms,
    )  # fmt: skip
