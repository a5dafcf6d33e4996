"""Takes a turn in: checked, rendered, admitted, stored, in line. And cancels one, wherever it is.

The order makes every step repeatable: a gateway that dies between two of them leaves what the same send, sent
again, completes.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
from opentelemetry import trace
from opentelemetry.propagate import inject
from redis.exceptions import RedisError

from billing.api import (
    Admission,
    AdmissionState,
    Admitted,
    Canceller,
    LeastRemaining,
    Principal,
    Remaining,
    UsageOwner,
    count_shadowed,
    find_project,
)
from core.clock import monotonic, now_ms
from core.errors import Refusal, Refused
from core.failpoints import Failpoint, reached
from core.ids import uuid7_ms
from core.telemetry import logger, tracer
from engine.api import (
    Enqueue,
    ModelRecord,
    PriorityClass,
    RequestInput,
    RequestStatus,
    Sampling,
    input_encoder,
    seal_request,
)
from server import instruments
from server.access.authorization import CANCEL_SCOPE, CHAT_SCOPE, cache_salt, cancel_refusal, owner_of, owns
from server.context import GatewayContext
from server.conversations import store
from server.models.prompts import ChatMessage
from server.protocol.codes import ErrorCode, of_queue, refusal
from server.protocol.messages import Left, QuotaLeft, Send
from server.reading.sources import LiveSource, OpenedRequest, RequestReaders, Source, log_lost
from server.reading.subscriptions import RequestName, Subscriptions
from server.requests import parse
from server.requests.cancel import cancel_placed
from server.requests.parse import ParsedSend
from server.requests.reused_ids import stored_answer_of
from server.session.events import ReadableRequest, SendAccepted

TEMPERATURE_DEFAULT = 1.0
CANCEL_TRIES = 20
CANCEL_RETRY_SECONDS = 0.05

log = logger(__name__)
spans = tracer("server")


@dataclass(frozen=True)
class PreparedSend:
    """A turn that may be admitted."""

    turn: ParsedSend
    record: ModelRecord
    prompt: list[int]
    sampling: Sampling
    priority: PriorityClass
    user: str
    accepted_ms: int
    deadline_ms: int


class SendHandler:
    """Takes and cancels turns for all connections of a gateway."""

    def __init__(self, edge: GatewayContext, hub: Subscriptions, readers: RequestReaders) -> None:
        self._edge = edge
        self._hub = hub
        self._readers = readers

    async def take(self, principal: Principal, send: Send) -> tuple[SendAccepted, Source]:
        """Take a send; the source reads its log from the start. Raises Refused, and then nothing remains."""
        began = monotonic()
        outcome, facts = "failed", dict[str, object]()
        with spans.span("gateway.send"):
            try:
                accepted, source = await self._take(principal, send, facts)
                outcome = "dup" if accepted.dup else "accepted"
                return accepted, source
            except Refused as refused:
                outcome = refused.refusal.code
                user = str(facts.pop("user", principal.user))
                self._edge.refusals.note(principal, send.id, user, refused.refusal)
                raise
            finally:
                facts.pop("user", None)
                seconds = monotonic() - began
                instruments.TURNS.add(1, {"outcome": outcome})
                instruments.ACCEPT_SECONDS.record(seconds)
                log.info(
                    "send",
                    request=send.id if uuid7_ms(send.id) else None,
                    tenant=principal.tenant,
                    key=principal.key,
                    outcome=outcome,
                    ms=round(seconds * 1000, 1),
                    **facts,
                )

    async def _take(
        self, principal: Principal, send: Send, facts: dict[str, object]
    ) -> tuple[SendAccepted, Source]:
        if CHAT_SCOPE not in principal.scopes:
            raise Refused(refusal(ErrorCode.FORBIDDEN, "this key has no scope `chat`"))
        turn = parse.parse_send(send, now_ms(), self._edge.settings)
        again = await self._again(principal, turn)
        if again is not None:
            return _repeated(again)
        prepared = await self._prepare(principal, turn, facts)
        facts |= {
            "model": prepared.record.name,
            "priority": prepared.priority.value,
            "prompt_tokens": len(prepared.prompt),
            "max_tokens": prepared.sampling.max_tokens,
        }
        await self._edge.used_sessions.note(principal)
        with spans.span("reserve"):
            admitted = await self._admit(principal, prepared)
        if admitted.state is AdmissionState.ENDED:  # another gateway took the same send, and it is over
            return _repeated(await self._readers.open(principal, turn.id, None, 0))
        with spans.span("enqueue"):
            return await self._enqueue(principal, prepared, admitted)

    async def _again(self, principal: Principal, turn: ParsedSend) -> OpenedRequest | None:
        """A send that came before; None for a new one, or where its gateway died before the queue knew."""
        known = await self._edge.quota.directory(principal.tenant, turn.id)
        if known is None:
            return await stored_answer_of(self._edge, self._readers, principal, turn.id)
        if known.body_hash != turn.body_hash or not owns(principal, known.project, known.key, known.user):
            problem = "this id was used for another send: make a new one"
            raise Refused(refusal(ErrorCode.ID_CONFLICT, problem))
        if known.state is AdmissionState.ENDED:
            return await self._readers.open(principal, turn.id, None, 0)
        name = RequestName(known.pool, principal.tenant, turn.id)
        opening = await self._readers.open_log(name, turn.body_hash, None, 0)
        if opening is None and turn.conversation is not None:
            # The rows it left would make its own conversation busy; they are written again.
            await self._edge.conversations.abandon(principal.tenant, turn.id)
        return opening

    async def _prepare(
        self, principal: Principal, turn: ParsedSend, facts: dict[str, object]
    ) -> PreparedSend:
        edge = self._edge
        record = await edge.catalogue.resolve(turn.model)
        user = await edge.users.of_turn(principal, turn.metadata, await self._project(principal, turn))
        facts["user"] = user
        if await edge.closed_users.has(principal.tenant, user):
            raise Refused(refusal(ErrorCode.FORBIDDEN, "this user is closed"))
        await edge.shapes.check(principal, record, turn.options.response_format)
        messages = await self._messages(principal, turn)
        with spans.span("validate"):
            prompt = await edge.prompts.render(principal, record.folder, messages)
        context = min(record.max_model_len, edge.settings.worker_max_model_len or record.max_model_len)
        sampling = parse.sampling(turn.options, len(prompt), context, default_temperature(record.folder))
        priority = parse.capped_priority(turn.options.priority, principal.priority_max)
        accepted_ms = await edge.pools.queues[record.pool].now_ms()  # what its deadline is held against
        deadline_ms = parse.deadline_ms(turn.options, priority, accepted_ms, edge.settings)
        return PreparedSend(turn, record, prompt, sampling, priority, user, accepted_ms, deadline_ms)

    async def _project(self, principal: Principal, turn: ParsedSend) -> str | None:
        named = turn.metadata.get("project")
        if not isinstance(named, str) or named == principal.project:
            return principal.project if named else None
        found = await find_project(self._edge.db, principal.tenant, named)
        return found.id if found else None

    async def _messages(self, principal: Principal, turn: ParsedSend) -> list[ChatMessage]:
        if turn.conversation is None:
            return list(turn.messages)
        owner = owner_of(principal)
        stored = self._edge.conversations
        try:
            history = await stored.history(principal.tenant, owner, turn.conversation)
        except Refused as refused:
            if refused.refusal.code != ErrorCode.CONVERSATION_BUSY:
                raise
            await self._edge.pools.recorders.catch_up(principal.tenant, turn.conversation)
            history = await stored.history(principal.tenant, owner, turn.conversation)
        if len(history) >= self._edge.settings.prompt_messages_max:
            raise parse.bad_request("this conversation has too many messages: start a new one")
        return [*history, *turn.messages]

    async def _admit(self, principal: Principal, prepared: PreparedSend) -> Admitted:
        turn, record, edge = prepared.turn, prepared.record, self._edge
        who = (principal.tenant, principal.project, principal.key, prepared.user)
        limits = await edge.limits.limits_for(*who, record.name, prepared.accepted_ms)
        offer = await edge.catalogue.offer(principal.tenant, record.name)
        admission = Admission(
            tenant=principal.tenant,
            id=turn.id,
            body_hash=turn.body_hash,
            owner_key=principal.owner_key,
            project=principal.project,
            user=prepared.user,
            model=record.name,
            pool=record.pool,
            fingerprint=record.fingerprint,
            input_tokens=len(prepared.prompt),
            chunk_tokens=min(edge.settings.chunk_tokens, prepared.sampling.max_tokens),
            deadline_ms=prepared.deadline_ms,
            prices=offer.now,
            limits=limits,
            key=principal.key,
            next_prices=offer.next,
            next_from_ms=offer.next_from_ms,
        )
        admitted = await edge.quota.admit(admission)
        if isinstance(admitted, Refusal):
            instruments.limit_refused(admitted)
            raise Refused(of_queue(admitted))
        if admitted.shadowed:
            await self._count_shadowed(principal.tenant, admitted.shadowed)
        return admitted

    async def _count_shadowed(self, tenant: str, refusals: Sequence[Refusal]) -> None:
        """What limits in shadow mode would have answered. It holds nothing up that goes wrong."""
        for refused in refusals:
            instruments.limit_refused(refused, shadow=True)
        try:
            await count_shadowed(self._edge.redis, tenant, refusals)
        except (RedisError, OSError) as error:
            log.warning("shadow refusals not counted", error=type(error).__name__)

    async def _enqueue(
        self, principal: Principal, prepared: PreparedSend, admitted: Admitted
    ) -> tuple[SendAccepted, Source]:
        turn, tenant = prepared.turn, principal.tenant
        await self._hub.announce(prepared.record.pool)
        if not await self._hub.follow(admitted.pool):
            await self._edge.quota.release(tenant, turn.id)
            raise Refused(log_lost())
        try:
            await self._store(principal, prepared)
        except Exception:
            await self._edge.quota.release(tenant, turn.id)
            raise
        source = LiveSource(self._hub, self._edge.pools.logs, RequestName(admitted.pool, tenant, turn.id))
        try:
            queue = self._edge.pools.queues[admitted.pool]
            reached(Failpoint.GATEWAY_AFTER_ADMIT)
            placed = await queue.enqueue(self._item(principal, prepared, admitted))
            reached(Failpoint.GATEWAY_AFTER_ENQUEUE)
            if isinstance(placed, Refusal):
                reached(Failpoint.GATEWAY_BEFORE_RELEASE)
                await self._edge.quota.release(tenant, turn.id)
                if turn.conversation is not None:
                    await self._edge.conversations.abandon(tenant, turn.id)
                raise Refused(of_queue(placed))
            if placed.dest:  # it was moved between our look at the directory and this
                source.close()
                return _repeated(await self._readers.open(principal, turn.id, None, 0))
            if admitted.cancelled:
                await cancel_placed(self._edge, admitted.pool, tenant, turn.id, turn.body_hash)
        except BaseException:
            source.close()
            raise
        source.seen(placed.epoch)
        instruments.PROMPT_TOKENS.record(len(prepared.prompt))
        reading = ReadableRequest(turn.id, placed.epoch, 0, placed.head, placed.status.value)
        dup = not placed.created
        place, quota = (placed.position, placed.wait_ms), quota_of(admitted.standing)
        accepted = SendAccepted(reading, dup, prepared.priority.value, *place, quota)
        return accepted, source

    async def _store(self, principal: Principal, prepared: PreparedSend) -> None:
        turn = prepared.turn
        if turn.conversation is None:
            return
        text = turn.messages[-1]["content"]
        row = store.Turn(turn.conversation, turn.id, text, prepared.record.name, prepared.accepted_ms)
        await self._edge.conversations.open_turn(principal.tenant, owner_of(principal), row)

    def _item(self, principal: Principal, prepared: PreparedSend, admitted: Admitted) -> Enqueue:
        turn, tenant = prepared.turn, principal.tenant
        carrier: dict[str, str] = {}
        inject(carrier, trace.set_span_in_context(trace.get_current_span()))
        request = RequestInput(
            prompt=b"".join(id.to_bytes(4, "little") for id in prepared.prompt),
            sampling=prepared.sampling,
            owner=UsageOwner(
                project=principal.project,
                key=principal.key,
                user=prepared.user,
                conversation=turn.conversation or "",
                metadata=msgspec.json.encode(parse.labels(turn.metadata)),
            ),
            prices=admitted.prices,
            model=prepared.record.name,
            fingerprint=admitted.fingerprint,
            accepted_ms=prepared.accepted_ms,
            deadline_ms=prepared.deadline_ms,
            trace=carrier.get("traceparent", ""),
            salt=cache_salt(principal, prepared.user),
        )
        return Enqueue(
            tenant=tenant,
            id=turn.id,
            body_hash=turn.body_hash,
            input=input_encoder.encode(seal_request(request, tenant, turn.id, self._edge.settings.keyring)),
            fingerprint=admitted.fingerprint,
            prompt_tokens=len(prepared.prompt),
            max_tokens=prepared.sampling.max_tokens,
            deadline_ms=prepared.deadline_ms,
            accepted_ms=prepared.accepted_ms,
            granted=admitted.granted,
            model=prepared.record.name,
            priority=prepared.priority,
            gateway=self._edge.pools.gateway,
            cancelled=admitted.cancelled,
            no_reader_ms=parse.no_reader_ms(turn.options),
            shaped=prepared.sampling.response_format is not None,
        )

    async def cancel(self, principal: Principal, id: str) -> str:
        """Cancel a request; the state it was in. Raises Refused: cancel_denied where it is another's."""
        if uuid7_ms(id) is None:
            raise parse.bad_request("id: no request can have this id, which is not a UUIDv7")
        state = await self._cancel(principal, id)
        instruments.CANCELS.add(1, {"state": state})
        return state

    async def _cancel(self, principal: Principal, id: str) -> str:
        found = await self._edge.quota.mark_cancel(principal.tenant, id, _canceller(principal))
        if found is None:
            stored = await self._edge.conversations.answer_row(principal.tenant, id)
            if stored is None:
                return "pending"
            if CANCEL_SCOPE not in principal.scopes and not owns(principal, *stored[1]):
                raise Refused(refusal(ErrorCode.CANCEL_DENIED, "this request is another's"))
            return "ended"
        refused = cancel_refusal(principal, found)
        if refused is not None:
            raise Refused(refused)
        if found.state is AdmissionState.ENDED:
            return "ended"
        for _ in range(CANCEL_TRIES):  # its gateway may be between admitting and putting it in line
            status = await cancel_placed(self._edge, found.pool, principal.tenant, id, found.body_hash)
            if status is not None:
                return "running" if status in (RequestStatus.MOVING, RequestStatus.MOVED) else status.value
            await asyncio.sleep(CANCEL_RETRY_SECONDS)
        return "pending"


def _canceller(principal: Principal) -> Canceller:
    """Whose sends a cancel that comes before them may stop (the rule of access.owns)."""
    return Canceller() if CANCEL_SCOPE in principal.scopes else Canceller(*owner_of(principal))


def quota_of(standing: LeastRemaining) -> QuotaLeft:
    """What `accepted` says of the limits with the least left."""
    return QuotaLeft(_left(standing.requests), _left(standing.tokens), _left(standing.budget))


def _left(found: Remaining | None) -> Left | None:
    return None if found is None else Left(found.limit, found.remaining, found.resets_at_ms)


@lru_cache(maxsize=64)
def default_temperature(folder: Path) -> float:
    """The temperature that a model's own generation_config.json asks for, else 1."""
    try:
        config = msgspec.json.decode((folder / "generation_config.json").read_bytes(), type=dict[str, object])
    except (OSError, msgspec.MsgspecError):
        return TEMPERATURE_DEFAULT
    value = config.get("temperature")
    return float(value) if isinstance(value, int | float) and 0 <= value <= 2 else TEMPERATURE_DEFAULT


def _repeated(opening: OpenedRequest) -> tuple[SendAccepted, Source]:
    return SendAccepted(opening.reading, True, opening.priority.value), opening.source
