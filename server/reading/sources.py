"""Sources of a request's text for a reader, and the offset to begin at: its live log, or its stored answer.

The gateway holds cursors, not queues: a source is asked for the entries after an offset.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from billing.api import Principal, Quota
from core.errors import Refusal, Refused
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.redis.pools import HOPS_MAX
from engine.api import (
    DamagedLogError,
    Entry,
    EntryKind,
    LogReader,
    PriorityClass,
    ReaderView,
    RequestStatus,
    text_hash,
)
from server.access.authorization import owns, read_refusal
from server.conversations.store import ConversationStore
from server.conversations.tables import Message, MessageStatus
from server.pools.gateway_pools import GatewayPools
from server.protocol.codes import ErrorCode, refusal
from server.protocol.context_use import ContextUse, TurnFacts, turn_facts
from server.protocol.flags import EndSafety
from server.protocol.messages import Cost, EndPayload, EndUsage, Timing
from server.reading.subscriptions import FollowedRequest, LogListener, RequestName, Subscriptions
from server.session.events import ReadableRequest
from server.session.limits import DELTA_BYTES_MAX

CURRENCY = "usd"

log = logger(__name__)


class Source(Protocol):
    """One reader's view of one request."""

    async def read(self, after: int, entries_max: int, bytes_max: int) -> list[Entry]:
        """The entries after an offset, within limits; at least one where there is any."""
        ...

    def listen(self, listener: LogListener) -> None:
        """Pass news to the listener, and soon those that came between opening and now."""
        ...

    def report(self, stuck: bool) -> None:
        """Report whether this reader is stuck."""
        ...

    def close(self) -> None:
        """End the reading."""
        ...


class LiveSource:
    """A log in Redis, in the pool that its request is in. `logs` are by pool."""

    def __init__(
        self, subscriptions: Subscriptions, logs: Mapping[str, LogReader], name: RequestName
    ) -> None:
        self._subscriptions = subscriptions
        self._logs = logs
        self._epoch: int | None = None
        self._joined: FollowedRequest = subscriptions.join(name, self)

    @property
    def _followed(self) -> FollowedRequest:
        while self._joined.successor is not None:
            self._joined = self._joined.successor
        return self._joined

    @property
    def _name(self) -> RequestName:
        return self._followed.name

    async def read(self, after: int, entries_max: int, bytes_max: int) -> list[Entry]:
        """See Source. Raises Refused (log_lost) where an entry is damaged."""
        name = self._name
        try:
            reader = self._logs[name.pool]
            return await reader.read(name.tenant, name.id, after, entries_max, bytes_max, self._epoch)
        except DamagedLogError as error:
            log.error("reading.log_unreadable", tenant=name.tenant, id=name.id, error=error_summary(error))
            problem = "the platform lost a part of this answer"
            raise Refused(refusal(ErrorCode.LOG_LOST, problem)) from error

    def listen(self, listener: LogListener) -> None:
        """See Source."""
        self._followed.listeners[self] = listener
        loop, followed = asyncio.get_running_loop(), self._followed
        loop.call_soon(listener.news, [], followed.head)
        if self._epoch is not None and self._epoch != followed.epoch:
            loop.call_soon(listener.broken)  # replaced between opening and now

    def seen(self, epoch: int) -> None:
        """Note that the pool knows the request, in this epoch."""
        self._epoch = epoch
        self._followed.seen(epoch)

    def report(self, stuck: bool) -> None:
        """See Source."""
        self._subscriptions.report(self._name, self, stuck)

    def close(self) -> None:
        """See Source."""
        self._subscriptions.leave(self._name, self)


class StoredSource:
    """A stored answer as the last entries of the log it came from: text in pieces, then the end."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    async def read(self, after: int, entries_max: int, bytes_max: int) -> list[Entry]:
        """See Source. The window checks sizes again; a piece is at most one message."""
        del bytes_max
        return [entry for entry in self._entries if entry.o > after][:entries_max]

    def listen(self, listener: LogListener) -> None:
        """See Source: a stored answer never grows."""

    def report(self, stuck: bool) -> None:
        """See Source: nothing waits for readers of a stored answer."""

    def close(self) -> None:
        """See Source."""


@dataclass(frozen=True)
class OpenedRequest:
    """A request that may be read, and its source. `priority` is the class it runs in."""

    reading: ReadableRequest
    source: Source
    priority: PriorityClass = PriorityClass.INTERACTIVE


class RequestReaders:
    """Opens requests for reading."""

    def __init__(
        self,
        quota: Quota,
        pools: GatewayPools,
        conversations: ConversationStore,
        subscriptions: Subscriptions,
    ) -> None:
        self._quota = quota
        self._pools = pools
        self._conversations = conversations
        self._subscriptions = subscriptions

    async def open(self, principal: Principal, id: str, epoch: int | None, o: int) -> OpenedRequest:
        """A request for a reader who applied `o` of that epoch. Raises Refused: forbidden, not_resumable."""
        found = await self._quota.directory(principal.tenant, id)
        if found is not None:
            refused = read_refusal(principal, found)
            if refused is not None:
                raise Refused(refused)
            name = RequestName(found.pool, principal.tenant, id)
            opening = await self.open_log(name, found.body_hash, epoch, o)
            if opening is not None:
                return opening
        return await self._stored(principal, id)

    async def reopen(self, principal: Principal, id: str, epoch: int, o: int) -> OpenedRequest:
        """A request that was being read, its log not what it was. Raises Refused: log_lost, forbidden."""
        try:
            return await self.open(principal, id, epoch, o)
        except Refused as refused:
            if refused.refusal.code != ErrorCode.NOT_RESUMABLE:
                raise
        if await self._pools.recorders.give_up(principal.tenant, id):
            return await self.open(principal, id, epoch, o)
        # Its admission may be older than what is lost, and would count as an open request until its deadline.
        await self._quota.release(principal.tenant, id)
        raise Refused(log_lost())

    async def open_log(
        self, name: RequestName, body_hash: str, epoch: int | None, o: int, hops: int = 0
    ) -> OpenedRequest | None:
        """Open an existing log, in whichever pool its request is. None where it is gone, or of another send:
        a client that reused the id for something else, after its directory record was deleted, does not read
        it."""
        if hops > HOPS_MAX or not await self._subscriptions.follow(name.pool):
            return None
        source = LiveSource(self._subscriptions, self._pools.logs, name)
        try:
            queue = self._pools.queues[name.pool]
            view = await queue.reader(name.tenant, name.id, self._pools.gateway, "reading")
        except BaseException:
            source.close()
            raise
        if view is not None and view.status is RequestStatus.MOVED:
            source.close()
            if not self._pools.is_ordered(*name, view.order):
                return None
            return await self.open_log(name._replace(pool=view.dest), body_hash, epoch, o, hops + 1)
        if view is None or view.first != 1 or view.body_hash != body_hash:
            source.close()
            return None
        source.seen(view.epoch)
        return OpenedRequest(reading_of(name.id, view, epoch, o), source, view.priority)

    async def _stored(self, principal: Principal, id: str) -> OpenedRequest:
        found = await self._conversations.answer_row(principal.tenant, id)
        if found is None:
            raise Refused(not_resumable())
        row, owner = found
        if not owns(principal, *owner) and "requests:read" not in principal.scopes:
            raise Refused(refusal(ErrorCode.FORBIDDEN, "this request is another's"))
        if row.status != MessageStatus.ENDED:
            raise Refused(not_resumable())
        return stored_opening(id, row)


def reading_of(id: str, view: ReaderView, epoch: int | None, o: int) -> ReadableRequest:
    """The begin of a reading: after `o`, or at the start where the client has text that this log has not."""
    known = (epoch is None or epoch == view.epoch) and o <= view.head
    state = "running" if view.status in ("moving", "moved") else view.status.value
    facts = turn_facts(view.told)
    return ReadableRequest(id, view.epoch, o if known else 0, view.head, state, None if known else "", facts)


def stored_opening(id: str, row: Message) -> OpenedRequest:
    """A stored answer: a snap with its first piece, then the rest, its flags and the end as the log's last
    offsets."""
    pieces, flags = pieces_of(row.content), row.flags or []
    head = max(row.head, len(pieces) + len(flags) + 1)
    base = head - len(pieces) - len(flags)
    entries: list[Entry] = []
    position = len(pieces[0])
    tokens = int((row.usage or {}).get("output", 0))
    for at, piece in enumerate(pieces[1:], start=base + 1):
        entries.append(Entry(o=at, k=EntryKind.TEXT, x=piece, p=position, i=tokens))
        position += len(piece)
    for at, flag in enumerate(flags, start=base + len(pieces)):
        entries.append(Entry(o=at, k=EntryKind.FLAGGED, i=tokens, v=msgspec.json.encode(flag)))
    entries.append(Entry(o=head, k=EntryKind.END, v=_stored_end(row)))
    reading = ReadableRequest(id, row.epoch, base, head, "ended", pieces[0], _facts(row))
    return OpenedRequest(reading, StoredSource(entries))


def _facts(row: Message) -> TurnFacts:
    pinned = row.context
    if pinned is None:
        return TurnFacts()
    return TurnFacts(pinned.get("max_tokens"), msgspec.convert(pinned, ContextUse))


def pieces_of(text: str) -> list[str]:
    """The text in pieces of at most one message each; one empty piece for an empty text."""
    pieces: list[str] = []
    rest = text.encode()
    while rest:
        cut = rest[:DELTA_BYTES_MAX].decode(errors="ignore")
        pieces.append(cut)
        rest = rest[len(cut.encode()) :]
    return pieces or [""]


def log_lost() -> Refusal:
    """The refusal for a request whose log is gone before its answer was stored."""
    return refusal(ErrorCode.LOG_LOST, "the platform lost this request: send it again with a new id")


def not_resumable() -> Refusal:
    """The refusal for an unknown request."""
    problem = "nobody knows this request: send it again with a new id"
    return refusal(ErrorCode.NOT_RESUMABLE, problem)


def _stored_end(row: Message) -> bytes:
    usage, timing = row.usage or {}, row.timing or {}
    payload = EndPayload(
        reason=row.reason,
        usage=EndUsage(*(int(usage.get(name, 0)) for name in EndUsage.__struct_fields__)),
        cost=Cost(row.cost_nano, CURRENCY),
        timing=Timing(*(int(timing.get(name, 0)) for name in Timing.__struct_fields__)),
        h=text_hash(row.content),
        code=row.code or None,
        safety=msgspec.convert(row.safety, EndSafety | None),
    )
    return msgspec.json.encode(payload)
