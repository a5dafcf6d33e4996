"""Writes ended answers into their conversations: consumer group `recorder` on the pools' ended streams.

Every gateway runs one. Idempotent: an answer is written to its running row once, and only then may its log
expire.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from redis.exceptions import ResponseError

from billing.api import Bindings, Quota, admissions_of, is_erased
from billing.usage import ENDED_FIELD, ENDED_GROUP_RECORDER, UsageEvent, ended_stream, read_event
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from core.redis.members import made_anew
from core.redis.pools import HOPS_MAX, ByPool
from core.redis.redis_errors import is_refusing_everybody
from core.redis.unreadable import Unreadable, read
from core.runtime.failed_rounds import is_store_down, logged_failures, store_errors
from engine.api import (
    DamagedLogError,
    EntryKind,
    LogReader,
    PoolQueue,
    ReaderView,
    RequestStatus,
    visible_text,
)
from server.conversations.store import ConversationStore, RecordedAnswer
from server.conversations.tables import Message
from server.protocol.flags import EndSafety, LoggedFlag, flags_after, within

READ_COUNT = 50
BLOCK_MS = 1000
TAKE_OVER_IDLE_MS = 30_000
RETRY_SECONDS = 1.0
LOST_AFTER_MS = 60_000
TAIL_ENTRIES = 1
NEWEST_EVENTS = 200
NUMBER_MAX = 1 << 31
WITHHELD = "internal"  # the code of an answer whose text is not stored

log = logger(__name__)


@dataclass(frozen=True)
class EndedEntry:
    """One unacknowledged event of the stream; None where it cannot be decoded: the biller holds that one."""

    stream_id: bytes
    event: UsageEvent | None


@dataclass(frozen=True)
class RequestLocation:
    """Where a request was found, and whether it has ended there."""

    pool: str
    ended: bool


class _Cost(msgspec.Struct):
    nano: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _End(msgspec.Struct):
    """The stored part of a log's last entry."""

    reason: str
    usage: dict[str, int]
    timing: dict[str, int]
    cost: _Cost
    code: str | None = None
    safety: EndSafety | None = None


_end = msgspec.json.Decoder(_End)


class Recorder:
    """Records the ended requests of one pool."""

    def __init__(
        self,
        redis: RedisClient,
        pool: str,
        settings: Settings,
        conversations: ConversationStore,
        gateway: str,
    ) -> None:
        self._redis = redis
        self._queue = PoolQueue(redis, pool, settings)
        self._reader = LogReader(redis, pool)
        self._stream = ended_stream(pool)
        self._settings = settings
        self._conversations = conversations
        self._gateway = gateway
        self._admissions = admissions_of(settings)
        self._quota = Quota(redis, settings, bindings=Bindings(settings.keyring, settings.installation))

    async def run(self) -> None:
        """Record for ever; a failure is logged and tried again, because the event stays unacknowledged."""
        while True:
            with logged_failures(log, "recorder.run_failed", pool=self._queue.pool):
                await self._record_all()
            await asyncio.sleep(RETRY_SECONDS)

    async def _record_all(self) -> None:
        try:
            await self._make_group()
            while True:
                await self._step()
        except store_errors() as error:
            log.warning("recorder.run_failed", error=type(error).__name__)

    async def view(self, tenant: str, request: str) -> ReaderView | None:
        """The request as this pool knows it."""
        return await self._queue.view(tenant, request)

    @property
    def pool(self) -> str:
        """Name of its pool."""
        return self._queue.pool

    async def forget(self, tenant: str, request: str) -> None:
        """Delete this pool's log and record of a request that has ended."""
        await self._queue.expire_log(tenant, request, 0)

    async def refuse_late_enqueue(self, tenant: str, requests: Sequence[str]) -> set[str]:
        """Of these requests, those that this pool does not know: from now on it does not take them."""
        return set(await self._queue.refuse_late_enqueue(tenant, requests))

    async def _make_group(self) -> None:
        try:
            await made_anew(self._redis, self._stream, self._create_group)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def _create_group(self) -> bool:
        return await self._redis.xgroup_create(self._stream, ENDED_GROUP_RECORDER, id="0", mkstream=True)

    async def _step(self) -> None:
        for ended in await self._taken_over() + await self._new():
            if ended.event is not None:
                await self._record_if_readable(ended.event)
            await self._redis.xack(self._stream, ENDED_GROUP_RECORDER, ended.stream_id)

    async def _new(self) -> list[EndedEntry]:
        reply = await self._redis.xreadgroup(
            ENDED_GROUP_RECORDER, self._gateway, {self._stream: ">"}, count=READ_COUNT, block=BLOCK_MS
        )
        return [ended for _, items in _streams(reply) for ended in self._events(items)]

    async def _taken_over(self) -> list[EndedEntry]:
        """Events that a dead gateway had read and not recorded."""
        reply = await self._redis.xautoclaim(
            self._stream, ENDED_GROUP_RECORDER, self._gateway, TAKE_OVER_IDLE_MS, count=READ_COUNT
        )
        return self._events(reply[1])

    def _events(self, items: list[tuple[bytes, dict[bytes, bytes]]]) -> list[EndedEntry]:
        events: list[EndedEntry] = []
        for stream_id, fields in items:
            event = _event_of(fields)
            if isinstance(event, Unreadable):
                log.error("recorder.event_unreadable", stream_id=stream_id.decode(), why=event.why)
                event = None  # an event left unacknowledged would stop the stream's trimming
            events.append(EndedEntry(stream_id, event))
        return events

    async def _record_if_readable(self, event: UsageEvent) -> None:
        """Record an event. A worker may have written anything: one that fails holds up no other."""
        try:
            await self._record_event(event)
        except Exception as error:
            if is_store_down(error):
                raise
            log.error(
                "recorder.record_failed", tenant=event.tenant, id=event.request, error=error_summary(error)
            )

    async def catch_up(self, tenant: str, request: str, view: ReaderView) -> None:
        """Record an ended request ahead of its turn. Does nothing where its event is not among the newest."""
        items = await self._redis.xrevrange(self._stream, count=NEWEST_EVENTS)
        for _, fields in items:
            event = _event_of(fields)
            if isinstance(event, Unreadable) or (event.tenant, event.request) != (tenant, request):
                continue  # logged when its turn comes
            if self._is_own(event):
                await self._record(tenant, request, view)
                return
            if await self._withhold(tenant, request, view):
                return

    async def _record_event(self, event: UsageEvent) -> None:
        view = await self._queue.view(event.tenant, event.request)
        if view is None:
            return
        if not self._is_own(event):
            recorded = await self._withhold(event.tenant, event.request, view)
        else:
            stored = bool(event.owner.conversation)
            recorded = stored and await self._record(event.tenant, event.request, view)
        is_kept = recorded or await self._may_be_read(event)
        keep_seconds = self._settings.log_keep_seconds if is_kept else 0
        await self._queue.expire_log(event.tenant, event.request, keep_seconds)

    async def _may_be_read(self, event: UsageEvent) -> bool:
        """False where its messages were deleted while it ran, or whoever asked, outside of conversations, was
        erased."""
        if event.owner.conversation:
            return await self._conversations.has_rows(event.tenant, event.request)
        return not await is_erased(self._conversations.db, event.tenant, event.owner.user)

    def _is_own(self, event: UsageEvent) -> bool:
        """True for a request of this pool that a gateway admitted; no other event is recorded."""
        if problem := self._admissions.strange(self._queue.pool, event):
            log.error("recorder.record_failed", tenant=event.tenant, id=event.request, problem=problem)
        return not problem

    async def _withhold(self, tenant: str, request: str, view: ReaderView) -> bool:
        """End the stored answer, without its text, of a request that has ended here, and whose event is of
        another admission: a worker changed what it was admitted under. False: by its sealed admission it is
        none of this pool, or nothing was written."""
        admitted = await self._quota.directory(tenant, request)
        if not view.ended or admitted is None or admitted.pool != self._queue.pool:
            return False
        found = await self._conversations.answer_row(tenant, request)
        answer = _lost(found[0], WITHHELD) if found else None
        return answer is not None and await self._conversations.record(tenant, request, answer)

    async def _record(self, tenant: str, request: str, view: ReaderView) -> bool:
        """Write the answer of a request that has ended into its conversation, once. False: nothing was
        written."""
        try:
            answer = await self._answer(tenant, request, view.epoch, view.head)
        except (DamagedLogError, ValueError) as error:
            log.error("recorder.log_unreadable", tenant=tenant, id=request, error=type(error).__name__)
            found = await self._conversations.answer_row(tenant, request)
            answer = _lost(found[0]) if found else None
        return answer is not None and await self._conversations.record(tenant, request, answer)

    async def _answer(self, tenant: str, request: str, epoch: int, head: int) -> RecordedAnswer | None:
        """The answer in a log, None where the log does not end at `head`."""
        tail = await self._reader.read(tenant, request, head - 1, TAIL_ENTRIES)
        if not tail or tail[0].k is not EntryKind.END:
            return None
        end = read("end", _end.decode, tail[0].v)
        if isinstance(end, Unreadable):
            raise DamagedLogError(str(end))
        text, flags = "", list[LoggedFlag]()
        async for entries in self._reader.pages_through(tenant, request, head):
            text, flags = visible_text(entries, text), flags_after(entries, flags)
        if "\0" in f"{text}{end.reason}{end.code}" or not (0 <= epoch < NUMBER_MAX and head < NUMBER_MAX):
            raise ValueError("no database holds this")
        return RecordedAnswer(
            text=text,
            reason=end.reason,
            code=end.code or "",
            usage=end.usage,
            timing=end.timing,
            cost_nano=end.cost.nano,
            epoch=epoch,
            head=head,
            ended_ms=now_ms(),
            flags=within(flags, len(text)),
            safety=end.safety,
        )


class PoolRecorders(ByPool[Recorder]):
    """The recorders of all pools, and operations that need to find a request's pool."""

    def __init__(
        self, redis: RedisClient, settings: Settings, conversations: ConversationStore, gateway: str
    ) -> None:
        super().__init__(lambda pool: Recorder(redis, pool, settings, conversations, gateway), settings.pool)
        self._conversations = conversations
        self._settings = settings

    async def catch_up(self, tenant: str, conversation: str) -> None:
        """Record a conversation's answer whose request has ended, so that the next turn can be opened."""
        row = await self._conversations.running(tenant, conversation)
        if row is None:
            return
        found = await self._find(tenant, row.request_id)
        if found is not None and found[1].ended:
            await found[0].catch_up(tenant, row.request_id, found[1])
        elif found is None and row.created_ms < now_ms() - LOST_AFTER_MS:
            await self._conversations.record(tenant, row.request_id, _lost(row))

    async def give_up(self, tenant: str, request: str) -> bool:
        """End the stored answer of a request that no pool knows any more. False: it has no running one."""
        found = await self._conversations.answer_row(tenant, request)
        if found is None or await self._find(tenant, request) is not None:
            return False
        return await self._conversations.record(tenant, request, _lost(found[0]))

    @property
    def known_ms(self) -> int:
        """The longest time in ms for which a pool may know a request, from its beginning."""
        return self._settings.deadline_bulk_ms + self._settings.unrecorded_log_keep_seconds * 1000

    @property
    def runs_ms(self) -> int:
        """The longest time in ms for which a request may run, from its beginning."""
        return self._settings.deadline_bulk_ms + LOST_AFTER_MS

    async def find(self, tenant: str, request: str) -> RequestLocation | None:
        """Where a request is; None where no pool knows it."""
        found = await self._find(tenant, request)
        return None if found is None else RequestLocation(found[0].pool, found[1].ended)

    async def refuse_late_enqueue(self, tenant: str, requests: Sequence[str]) -> set[str]:
        """Of these requests, those that no pool knows: from now on none takes them."""
        refused = set(requests)
        for recorder in self.values():
            if refused:
                refused &= await recorder.refuse_late_enqueue(tenant, sorted(refused))
        return refused

    async def forget(self, tenant: str, request: str) -> None:
        """Have every pool delete what it holds of a request that has ended. A pool that fails does not keep
        the others from it; its exception is raised at the end."""
        broken: Exception | None = None
        for recorder in self.values():
            try:
                await recorder.forget(tenant, request)
            except ResponseError as error:
                if is_refusing_everybody(error):
                    raise
                broken = error
        if broken is not None:
            raise broken

    async def _find(self, tenant: str, request: str) -> tuple[Recorder, ReaderView] | None:
        """The recorder of the pool that has a request, and the request's view."""
        for recorder in self.values():
            view = await recorder.view(tenant, request)
            for _ in range(HOPS_MAX):
                if view is None or view.status is not RequestStatus.MOVED:
                    break
                recorder = self[view.dest]
                view = await recorder.view(tenant, request)
            if view is not None:
                return recorder, view
        return None


def _streams(reply: Any) -> list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]:
    """Entries by stream: redis-py returns a list of streams in RESP2 and a map of them in RESP3."""
    if isinstance(reply, dict):
        return [(name, [item for part in parts for item in part]) for name, parts in reply.items()]
    return list(reply or [])


def _event_of(fields: dict[bytes, bytes] | None) -> UsageEvent | Unreadable:
    """The event in an entry's fields. `fields` None: the entry was deleted meanwhile."""
    return read_event((fields or {}).get(ENDED_FIELD.encode(), b""))


def _lost(row: Message, code: str = "log_lost") -> RecordedAnswer:
    """The stored end of a request that Redis never got, does not know any more, or tells wrong things of."""
    usage = {"input": 0, "cached_input": 0, "output": 0, "total": 0}
    timing = {"queue_ms": 0, "ttft_ms": 0, "total_ms": 0}
    return RecordedAnswer("", "error", code, usage, timing, 0, row.epoch, row.head, now_ms())
