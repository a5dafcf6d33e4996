"""Stores an admitted send's turn and puts its request in line. A failure here releases its admission."""

from dataclasses import replace

import msgspec
from opentelemetry import trace
from opentelemetry.propagate import inject

from billing.api import Admitted, LeastRemaining, Principal, Quota, Remaining, UsageOwner
from core.errors import Refusal, Refused
from core.runtime.failpoints import Failpoint, hit_failpoint
from core.signing.signed_text import Keyring
from engine.api import STRANGER, Enqueue, RequestInput, input_encoder, seal_request
from server import instruments
from server.access.authorization import cache_salt, owner_of
from server.conversations.store import ConversationStore, Turn
from server.pools.gateway_pools import GatewayPools
from server.protocol.codes import ErrorCode, of_queue
from server.protocol.context_use import ContextUse, TurnFacts
from server.protocol.messages import Left, QuotaLeft
from server.reading.sources import LiveSource, Source, log_lost
from server.reading.subscriptions import RequestName, Subscriptions
from server.requests import parse
from server.requests.cancel import CancelHandler
from server.requests.prepare import PreparedSend
from server.requests.stored_policies import StoredPolicies
from server.session.events import ReadableRequest, SendAccepted


class StaleRoute(Refused):
    """Refusal of a pool that lets the tenant in no more: its requests go to another one by now."""


class SendEnqueuer:
    """Enqueues the sends of one gateway's connections. `keyring` seals requests for their workers."""

    def __init__(
        self,
        keyring: Keyring,
        quota: Quota,
        pools: GatewayPools,
        conversations: ConversationStore,
        subscriptions: Subscriptions,
        cancels: CancelHandler,
    ) -> None:
        self._keyring = keyring
        self._quota = quota
        self._pools = pools
        self._conversations = conversations
        self._subscriptions = subscriptions
        self._cancels = cancels
        self._policies = StoredPolicies()

    async def enqueue(
        self, principal: Principal, prepared: PreparedSend, admitted: Admitted
    ) -> tuple[SendAccepted, Source] | None:
        """Enqueue it, with a source that reads its log; None where the pool knew it, or it was migrated
        meanwhile: read what another preparation made of it. Raises Refused."""
        send, tenant = prepared.send, principal.tenant
        await self._subscriptions.announce(prepared.pool)
        if not await self._subscriptions.follow(admitted.pool):
            await self._quota.release(tenant, send.id)
            raise Refused(log_lost())
        try:
            replaced = await self._store(principal, prepared)
        except Exception:
            await self._quota.release(tenant, send.id)
            raise
        name = RequestName(admitted.pool, tenant, send.id)
        source = LiveSource(self._subscriptions, self._pools.logs, name)
        try:
            queue = self._pools.queues[admitted.pool]
            await self._policies.store(queue, prepared.policy.in_pool)
            hit_failpoint(Failpoint.GATEWAY_AFTER_ADMIT)
            placed = await queue.enqueue(self._item(principal, prepared, admitted))
            hit_failpoint(Failpoint.GATEWAY_AFTER_ENQUEUE)
            if isinstance(placed, Refusal):
                await self._undo(prepared, tenant, replaced)
                if placed.code == STRANGER:
                    raise StaleRoute(of_queue(replace(placed, code=ErrorCode.OVERLOADED)))
                raise Refused(of_queue(placed))
            if admitted.cancelled and not placed.dest:
                await self._cancels.cancel_placed(admitted.pool, tenant, send.id, send.body_hash)
            if not placed.created:
                source.close()
                return None
        except BaseException:
            source.close()
            raise
        source.seen(placed.epoch)
        instruments.PROMPT_TOKENS.record(len(prepared.prompt))
        reading = ReadableRequest(
            send.id, placed.epoch, 0, placed.head, placed.status.value, facts=_facts(prepared)
        )
        place, quota = (placed.position, placed.wait_ms), quota_of(admitted.standing)
        return SendAccepted(
            reading, False, prepared.priority.value, *place, quota, prepared.vetted.sent
        ), source

    async def _undo(self, prepared: PreparedSend, tenant: str, replaced: str | None) -> None:
        """Release an admission whose enqueue failed, and give its conversation the system prompt that it
        replaced."""
        hit_failpoint(Failpoint.GATEWAY_BEFORE_RELEASE)
        await self._quota.release(tenant, prepared.send.id)
        if prepared.send.conversation is not None:
            await self._conversations.abandon(tenant, prepared.send.id, replaced)

    async def _store(self, principal: Principal, prepared: PreparedSend) -> str | None:
        """Write the turn's rows. Returns the system prompt that it replaces, None where it replaces none."""
        send, vetted = prepared.send, prepared.vetted
        if send.conversation is None:
            return None
        going = prepared.going_on.id if prepared.going_on else ""
        text = vetted.messages[-1]["content"] if vetted.messages else ""
        facts = (send.conversation, send.id, text, prepared.record.name, prepared.accepted_ms)
        who = (principal.owner_key, prepared.user)
        turn = Turn(
            *facts,
            *who,
            flags=vetted.flags,
            system=vetted.system,
            context=prepared.context,
            max_tokens=prepared.sampling.max_tokens,
            continues=going,
        )
        return await self._conversations.open_turn(principal.tenant, owner_of(principal), turn)

    def _item(self, principal: Principal, prepared: PreparedSend, admitted: Admitted) -> Enqueue:
        send, tenant = prepared.send, principal.tenant
        carrier: dict[str, str] = {}
        inject(carrier, trace.set_span_in_context(trace.get_current_span()))
        request = RequestInput(
            prompt=b"".join(id.to_bytes(4, "little") for id in prepared.prompt),
            sampling=prepared.sampling,
            owner=UsageOwner(
                project=principal.project,
                key=principal.key,
                user=prepared.user,
                conversation=send.conversation or "",
                metadata=msgspec.json.encode(parse.labels(send.metadata)),
            ),
            prices=admitted.prices,
            model=prepared.record.name,
            fingerprint=admitted.fingerprint,
            accepted_ms=prepared.accepted_ms,
            deadline_ms=prepared.deadline_ms,
            trace=carrier.get("traceparent", ""),
            salt=cache_salt(principal, prepared.user),
            priority=prepared.priority,
            policy=prepared.policy.hash,
            seam=prepared.going_on.seam if prepared.going_on else None,
            prompt_verdicts=tuple((*of, count) for of, count in sorted(prepared.vetted.counts.items())),
        )
        return Enqueue(
            tenant=tenant,
            id=send.id,
            body_hash=send.body_hash,
            input=input_encoder.encode(seal_request(request, tenant, send.id, self._keyring)),
            fingerprint=admitted.fingerprint,
            prompt_tokens=len(prepared.prompt),
            max_tokens=prepared.sampling.max_tokens,
            deadline_ms=prepared.deadline_ms,
            accepted_ms=prepared.accepted_ms,
            granted=admitted.granted,
            model=prepared.record.name,
            priority=prepared.priority,
            gateway=self._pools.gateway,
            cancelled=admitted.cancelled,
            no_reader_ms=parse.no_reader_ms(send.options),
            shaped=prepared.sampling.response_format is not None,
            policy=prepared.policy.in_pool,
            told=_facts(prepared).packed(),
        )


def _facts(prepared: PreparedSend) -> TurnFacts:
    """What is pinned of the turn, for `accepted`."""
    context = prepared.context
    used = None if context is None else ContextUse(context.kept, context.dropped, context.room)
    return TurnFacts(prepared.sampling.max_tokens, used)


def quota_of(standing: LeastRemaining) -> QuotaLeft:
    """The limits with the least left, for `accepted`."""
    return QuotaLeft(_left(standing.requests), _left(standing.tokens), _left(standing.budget))


def _left(found: Remaining | None) -> Left | None:
    return None if found is None else Left(found.limit, found.remaining, found.resets_at_ms)
