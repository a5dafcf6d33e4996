"""Cancels a request in whichever pool it is, where the caller may."""

import asyncio

from billing.api import AdmissionState, Canceller, Principal, Quota
from core.errors import Refused
from core.ids import uuid7_ms
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.pools import HOPS_MAX
from engine.api import (
    Control,
    DamagedRecordError,
    EndReason,
    MigratedTo,
    PoolQueue,
    RequestStatus,
    end_unclaimed,
)
from server import instruments
from server.access.authorization import CANCEL_SCOPE, cancel_refusal, owner_of, owns
from server.conversations.store import ConversationStore
from server.pools.gateway_pools import GatewayPools
from server.protocol.codes import ErrorCode, refusal
from server.requests.parse import bad_request

CANCEL_TRIES = 20
CANCEL_RETRY_SECONDS = 0.05

repeated = RepeatedWarning(logger(__name__))


class CancelHandler:
    """Cancels requests for all connections of a gateway."""

    def __init__(self, quota: Quota, pools: GatewayPools, conversations: ConversationStore) -> None:
        self._quota = quota
        self._pools = pools
        self._conversations = conversations

    async def cancel(self, principal: Principal, id: str) -> str:
        """Cancel a request. Returns its state before. Raises Refused (cancel_denied) for another owner's."""
        if uuid7_ms(id) is None:
            raise bad_request("id: no request can have this id, which is not a UUIDv7")
        state = await self._cancel(principal, id)
        instruments.CANCELS.add(1, {"state": state})
        return state

    async def cancel_placed(self, pool: str, tenant: str, id: str, body_hash: str) -> RequestStatus | None:
        """Cancel it in its pool, or in the one that an order moved it to. Returns the state it was in; None
        where no pool knows it, or knows another request under its id."""
        for _ in range(HOPS_MAX):
            queue = self._pools.queues[pool]
            status = await queue.control(tenant, id, Control.CANCEL, body_hash)
            if isinstance(status, MigratedTo):
                if not self._pools.is_ordered(pool, tenant, id, status.order):
                    return None
                pool = status.pool
                continue
            if status in (RequestStatus.QUEUED, RequestStatus.PARKED):
                await self._end(queue, tenant, id)
            return status
        return None

    async def _end(self, queue: PoolQueue, tenant: str, id: str) -> None:
        """End it here. One whose record is damaged stays marked, which nobody claims."""
        try:
            await end_unclaimed(queue, self._quota, tenant, id, EndReason.CANCELLED)
        except DamagedRecordError as error:
            repeated.warning("cancel.end_failed", tenant=tenant, id=id, error=error_summary(error))

    async def _cancel(self, principal: Principal, id: str) -> str:
        found = await self._quota.mark_cancel(principal.tenant, id, _canceller(principal))
        if found is None:
            stored = await self._conversations.answer_row(principal.tenant, id)
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
        for _ in range(CANCEL_TRIES):  # its gateway may be between admitting and enqueuing it
            status = await self.cancel_placed(found.pool, principal.tenant, id, found.body_hash)
            if status is not None:
                return "running" if status in (RequestStatus.MOVING, RequestStatus.MOVED) else status.value
            await asyncio.sleep(CANCEL_RETRY_SECONDS)
        return "pending"


def _canceller(principal: Principal) -> Canceller:
    """The owner of sends that a cancel may stop before they arrive (the rule of access.owns)."""
    return Canceller() if CANCEL_SCOPE in principal.scopes else Canceller(*owner_of(principal))
