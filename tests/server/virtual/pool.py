"""A pool in memory, in virtual time: its requests, what readers and time do to them, and a worker that says
what a test wrote. What engine/queue/lua and a worker promise, as far as a client can see it."""

import asyncio
from collections.abc import Callable

import msgspec

from core.clock import now_ms
from core.errors import Refusal
from core.tasks import cancel_tasks
from engine.api import (
    Control,
    EndFacts,
    EndReason,
    Enqueue,
    Enqueued,
    Entry,
    EntryKind,
    Hint,
    MigrationOrder,
    PinnedPolicy,
    PriorityClass,
    ReaderState,
    ReaderView,
    RequestStatus,
    end_payload,
    input_decoder,
)
from engine.safety.documents import document_of
from engine.safety.filter import Filter
from engine.safety.policy import UNFILTERED, BuiltInPolicies, CompiledPolicy, compiled
from engine.worker.continuation import ids_from
from server.protocol.codes import ErrorCode, refusal
from tests.server.site import answer_begins
from tests.server.virtual.held import OVER, AnswerScript, Held

FLUSH_SECONDS = 0.01
TURN_SECONDS = 0.001
TOKENS_A_FLUSH = 64
NOWHERE = MigrationOrder("", 0, 0, b"")
POLICIES = BuiltInPolicies()


class MemoryPool:
    """The requests of one pool. `settled` is told of each that ends; `news` of what was appended."""

    def __init__(
        self,
        name: str,
        park_seconds_max: float,
        settled: Callable[[Held], None],
        news: Callable[[Hint], None],
    ) -> None:
        self.name = self.pool = name
        self.held: dict[tuple[str, str], Held] = {}
        self.script: AnswerScript | None = None
        self._park_seconds = park_seconds_max
        self._settled = settled
        self._news = news
        self._goes = asyncio.Event()
        self._goes.set()
        self._left: int | None = None
        self._working: dict[tuple[str, str], asyncio.Task[None]] = {}

    # The worker

    def work(self, script: AnswerScript) -> None:
        """A worker comes, or the one there is gets other words."""
        self.script, self._left = script, script.holds_after
        self._goes.set()
        for found in list(self.held.values()):
            self._claim(found)

    def go_on(self) -> None:
        """A held worker goes on."""
        self._goes.set()

    def lose_worker(self) -> None:
        """The worker dies; what it had goes back in line."""
        self.script = None
        for at, task in list(self._working.items()):
            task.cancel()
            found = self.held[at]
            if found.status is RequestStatus.RUNNING:
                found.status = RequestStatus.QUEUED
                self._append(found, EntryKind.MOVED, value=b'{"why":"lost"}')
        self._working.clear()

    def _claim(self, found: Held) -> None:
        if self.script is None or found.status is not RequestStatus.QUEUED:
            return
        found.status, found.claims = RequestStatus.RUNNING, found.claims + 1
        if found.claims == 1:
            found.claimed_ms = now_ms()
            asked = input_decoder.decode(found.asked.input)
            prompt = ids_from(asked.prompt)
            found.behind = len(prompt) - answer_begins(prompt)
            if asked.policy != UNFILTERED:
                found.filter = Filter(_compiled(asked.policy, found.asked.policy), seam=asked.seam)
            self._append(found, EntryKind.RUNNING)
        at = found.asked.tenant, found.asked.id
        self._working[at] = asyncio.create_task(self._run(found, self.script))

    async def _run(self, found: Held, script: AnswerScript) -> None:
        """Say the script's text from where the last worker stopped, or the answer that goes on: a byte is a
        token, a flush an entry."""
        data = script.text.encode()[found.behind :]
        each = max(1, int(FLUSH_SECONDS / script.step_seconds)) if script.step_seconds else TOKENS_A_FLUSH
        while True:
            await self._goes.wait()
            await asyncio.sleep(max(TURN_SECONDS, each * script.step_seconds))
            if self._obeyed(found):
                return
            over = self._flush(found, data, each)
            if now_ms() >= found.asked.deadline_ms:
                over = EndReason.DEADLINE
            if over is not None:
                return self.end(found, over)

    def _flush(self, found: Held, data: bytes, tokens_max: int) -> EndReason | None:
        """Say so many tokens, fewer where the worker is held; what ended it."""
        began, over = len(found.made), None
        for _ in range(tokens_max):
            if found.tokens >= len(data):
                over = EndReason.STOP
            found.tokens += 1  # the one that ends it counts
            if over is not None or found.tokens == found.asked.max_tokens or self._holds():
                break
        found.made = data[: found.tokens].decode(errors="ignore")
        if found.tokens == found.asked.max_tokens:
            over = over or EndReason.LENGTH
        self._show(found, found.made[began:], final=over is not None)
        return EndReason.BLOCKED if found.block else over

    def _show(self, found: Held, text: str, final: bool) -> None:
        """Log what the request's safety policy lets out."""
        for each in [text] if found.filter is None else found.filter.feed(text, final):
            if not isinstance(each, str):
                self._append(found, EntryKind.FLAGGED, value=msgspec.json.encode(each))
            elif each:
                found.first_token_ms = found.first_token_ms or now_ms()
                began, found.said = len(found.said), found.said + each
                self._append(found, EntryKind.TEXT, each, began)

    def _holds(self) -> bool:
        """Whether the worker stops after this token."""
        if self._left is None:
            return False
        self._left -= 1
        if self._left > 0:
            return False
        self._left = None
        self._goes.clear()
        return True

    def _obeyed(self, found: Held) -> bool:
        if Control.CANCEL in found.control:
            self.end(found, EndReason.CANCELLED)
        elif Control.PARK in found.control:
            found.control &= ~Control.PARK
            self._park(found)
        else:
            return False
        return True

    # As engine/queue/lua does

    async def now_ms(self) -> int:
        """The time that the scripts go by."""
        return now_ms()

    async def renew_gateway(self, _gateway: str) -> bool:
        """Its lease is kept."""
        return True

    async def store_policy(self, policy: PinnedPolicy) -> None:
        """It comes with each request."""

    async def enqueue(self, asked: Enqueue) -> Enqueued | Refusal:
        """Create the request, or return the one there is."""
        at = asked.tenant, asked.id
        found = self.held.get(at)
        if found is not None and found.asked.body_hash != asked.body_hash:
            return refusal(ErrorCode.ID_CONFLICT, "another body")
        created = found is None
        if found is None:
            found = self.held[at] = Held(asked, priority=asked.priority)
            loop, seconds = asyncio.get_running_loop(), (asked.deadline_ms - now_ms()) / 1000
            found.waits.add(loop.call_later(seconds, self._overdue, found))
            self._append(found, EntryKind.QUEUED)
        if asked.gateway and found.status not in OVER:
            found.readers.setdefault(asked.gateway, "reading")
        if created and asked.cancelled:
            found.control |= Control.CANCEL
        elif created:
            asyncio.get_running_loop().call_soon(self._claim, found)
        return Enqueued(created, found.status, 1, found.head, 0, 0)

    async def reader(self, tenant: str, id: str, gateway: str, state: ReaderState) -> ReaderView | None:
        """How a gateway's readers stand."""
        found = self.held.get((tenant, id))
        if found is None:
            return None
        if state == "gone":
            self._drop_reader(found, gateway)
        elif found.status not in OVER:
            found.readers[gateway] = state
            if state == "reading":
                found.given_up = False
                self._read_again(found)
        states = set(found.readers.values())
        if states == {"stuck"}:
            if not found.given_up:
                self._park_or_ask(found)
        elif state == "reading":
            self._unpark(found)
        return self._view(found)

    async def view(self, tenant: str, id: str) -> ReaderView | None:
        """The request as it stands."""
        found = self.held.get((tenant, id))
        return None if found is None else self._view(found)

    async def control(self, tenant: str, id: str, flag: Control, body_hash: str = "") -> RequestStatus | None:
        """Set a flag; one that nobody runs ends at once."""
        found = self.held.get((tenant, id))
        if found is None or (body_hash and found.asked.body_hash != body_hash):
            return None
        before = found.status
        found.control |= flag
        if before in (RequestStatus.QUEUED, RequestStatus.PARKED):
            self.end(found, EndReason.CANCELLED)
        return before

    async def unowned(self, _tenant: str, _id: str) -> None:
        """What nobody runs was ended already."""

    async def read(
        self,
        tenant: str,
        id: str,
        after: int,
        entries_max: int,
        bytes_max: int | None = None,
        epoch: int | None = None,
    ) -> list[Entry]:
        """As LogReader."""
        found = self.held.get((tenant, id))
        taken, used = list[Entry](), 0
        if found is None or epoch not in (None, 1):
            return taken
        for entry in found.entries[after : after + entries_max]:
            size = len(entry.x.encode()) if entry.k is EntryKind.TEXT else 64
            if taken and bytes_max is not None and used + size > bytes_max:
                break
            used += size
            taken.append(entry)
        return taken

    # What happens to a request

    def end(self, found: Held, reason: EndReason, code: str = "") -> None:
        """It is over."""
        if found.status in OVER:
            return
        asked = found.asked
        request, blocked = input_decoder.decode(asked.input), found.block
        facts = EndFacts(
            tenant=asked.tenant,
            request=asked.id,
            pool=self.name,
            reason=reason,
            text=found.said,
            prompt_tokens=asked.prompt_tokens,
            n=found.tokens,
            covered=found.tokens,
            input_cached=0,
            claims=found.claims,
            claimed_ms=found.claimed_ms,
            first_token_ms=found.first_token_ms,
            ended_ms=now_ms(),
            code=code or ("safety_blocked" if blocked else ""),
            safety=(blocked.category, blocked.scope) if blocked else None,
        )
        found.status = RequestStatus.ENDED
        self._append(found, EntryKind.END, value=end_payload(facts, request).payload)
        found.readers.clear()
        for wait in found.waits:
            wait.cancel()
        self._read_again(found)
        self._settled(found)

    async def close(self) -> None:
        """Nobody works any more."""
        await cancel_tasks(self._working.values())

    def retire(self, tenant: str, id: str) -> None:
        """Its log is gone, as after its retention."""
        self.held.pop((tenant, id), None)

    def _overdue(self, found: Held) -> None:
        if found.status is not RequestStatus.RUNNING:
            self.end(found, EndReason.DEADLINE)

    def _park_or_ask(self, found: Held) -> None:
        if found.status is RequestStatus.RUNNING:
            found.control |= Control.PARK
        elif found.status is RequestStatus.QUEUED:
            self._park(found)

    def _park(self, found: Held) -> None:
        found.status = RequestStatus.PARKED
        self._append(found, EntryKind.PARKED)
        loop, parkings = asyncio.get_running_loop(), self._parkings(found)
        found.waits.add(loop.call_later(self._park_seconds, self._parked_long, found, parkings))

    def _parked_long(self, found: Held, parkings: int) -> None:
        if found.status is not RequestStatus.PARKED or self._parkings(found) != parkings:
            return
        if found.asked.no_reader_ms is not None:
            self._left_alone(found)
        else:
            found.given_up = True
            found.priority = PriorityClass.BULK
            self._unpark(found)

    def _parkings(self, found: Held) -> int:
        return sum(1 for entry in found.entries if entry.k is EntryKind.PARKED)

    def _unpark(self, found: Held) -> None:
        if found.status is RequestStatus.RUNNING:
            found.control &= ~Control.PARK
        elif found.status is RequestStatus.PARKED:
            found.status = RequestStatus.QUEUED
            self._read_again(found)
            self._append(found, EntryKind.RESUMED)
            asyncio.get_running_loop().call_soon(self._claim, found)

    def _drop_reader(self, found: Held, gateway: str) -> None:
        if found.readers.pop(gateway, None) is not None and not found.readers:
            self._left_alone(found)

    def _left_alone(self, found: Held) -> None:
        wait = found.asked.no_reader_ms
        if wait is not None and found.unread is None:
            found.unread = asyncio.get_running_loop().call_later(wait / 1000, self._unread, found)

    def _read_again(self, found: Held) -> None:
        if found.unread is not None:
            found.unread.cancel()
            found.unread = None

    def _unread(self, found: Held) -> None:
        found.unread = None
        if found.status in OVER or (found.readers and found.status is not RequestStatus.PARKED):
            return
        if found.status is RequestStatus.RUNNING:
            found.control |= Control.CANCEL
        else:
            self.end(found, EndReason.SLOW_READER if found.readers else EndReason.CANCELLED)

    def _append(
        self, found: Held, kind: EntryKind, text: str = "", at: int | None = None, value: bytes = b""
    ) -> None:
        at = len(found.said) if at is None else at
        entry = Entry(found.head + 1, kind, text, at, at, found.tokens, value)
        found.entries.append(entry)
        asked = found.asked
        self._news(Hint(self.name, asked.tenant, asked.id, [entry], found.head, 1))

    def _view(self, found: Held) -> ReaderView:
        asked, ended = found.asked, found.status is RequestStatus.ENDED
        return ReaderView(
            found.status, 1, found.head, found.tokens, found.control, "", asked.deadline_ms, ended, 1, "",
            found.priority, True, asked.body_hash, NOWHERE, asked.told,
        )  # fmt: skip


def _compiled(hash: str, pinned: PinnedPolicy | None) -> CompiledPolicy:
    return POLICIES.compiled(hash) if pinned is None else compiled(document_of(pinned.document))
