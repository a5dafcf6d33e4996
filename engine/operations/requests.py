"""Operations on requests: listing and showing those of a pool, explaining one, cancelling one. No text of
them is read."""

import asyncio
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.api import PLATFORM, Look, Order, Quota, RequestOwner, owners_of_requests
from core.access.processes import CONTROL, COUNTS, GATEWAY_HINTS, LINES, SETTLING, WORKER_WAKES
from core.access.processes import READERS as READER_KEYS
from core.errors import bad_request, see
from core.operations import STAFF, ListedPage, Uses, operation
from core.redis.gateway_questions import ReaderFacts, ask_gateways
from core.redis.pools import HOPS_MAX, known_pools
from engine.lifecycle.finish import end_unclaimed
from engine.operations.all_pools import requests_of_pools
from engine.operations.cancel import cancel_where_it_is
from engine.operations.explain import Explained, explain
from engine.operations.inspection import InspectedRequest, Inspection, RequestDetail
from engine.operations.pool_questions import (
    AUDIT,
    HANDLERS,
    POOL_READS,
    READERS,
    WORKER_READS,
    NameRequest,
    PoolQuestion,
    RequestId,
    Whose,
    another,
    find_request,
    known_pool,
    names_of_tenants,
    owner_named,
)
from engine.operations.worker_rows import WorkerRow
from engine.queue.client import DamagedRecordError, PoolQueue
from engine.request import EndReason, RequestStatus

SHARE_KEYS = ("P:ten:", "P:run:")
CANCEL_SECONDS_MAX = 5.0
POLL_SECONDS = 0.05
LISTED_MAX = 10_000
ENDING = (
    *LINES,
    *READER_KEYS,
    *SETTLING,
    GATEWAY_HINTS,
    WORKER_WAKES,
    "P:claims:",
    "P:bigs:",
    "P:ten:",
    "P:wake",
)


class ListRequests(PoolQuestion, frozen=True, kw_only=True):
    """Which requests of a pool, or of all."""

    all_pools: Annotated[
        bool, Meta(description="Of every pool, in one list, instead of one pool's. Not those that ended.")
    ] = False
    tenant: Annotated[str | None, Meta(description="Only this tenant's (name or id).")] = None
    status: RequestStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=LISTED_MAX)] = 100


class ListedRequest(InspectedRequest, frozen=True, kw_only=True):
    """A request of a pool, with its tenant's name, and whose it is; ids where nobody knows a name. `project`:
    its id."""

    tenant_name: str
    user: str = ""
    user_id: str = ""
    key: str = ""
    key_name: str = ""
    project: str = ""


class RequestLine(ListedPage[ListedRequest], frozen=True, kw_only=True):
    """Requests of a pool, or of all, and the time there in Unix ms."""

    now_ms: int


class ShownRequest(msgspec.Struct, frozen=True):
    """A request where it is now, its worker, the pools that it came from as far as they still know, its
    tenant's name, and who reads it, as gateways tell now. `unheard`: those that did not."""

    request: RequestDetail
    at: WorkerRow | None
    came_from: list[str]
    tenant_name: str
    readers: list[ReaderFacts] = []
    unheard: list[str] = []


class ExplainRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which request, in the books too."""

    request: RequestId
    tenant: Whose = None


class CancelState(StrEnum):
    """What became of a cancel. `told`: its worker has not ended it yet."""

    ENDED = "ended"
    HAD_ENDED = "had_ended"
    TOLD = "told"
    WOULD_END = "would_end"


class CancelledRequest(msgspec.Struct, frozen=True):
    """A request that was cancelled. `was`: its status before."""

    request: str
    tenant: str
    pool: str
    was: str
    state: CancelState


@operation(
    "requests.list",
    "GET /requests",
    may=READERS,
    audit="request.list",
    uses=Uses(reads="tenant tenant_user api_key pool", writes=AUDIT, keys=(*POOL_READS, "T:rq:")),
)
async def list_requests(look: Look, ask: ListRequests) -> RequestLine:
    """List requests of a pool that have not ended, the nearest deadline first. Members see their own."""
    _check_one_list(ask)
    queue, owner = await known_pool(look, ask.pool), await owner_named(look, ask.tenant)
    await look.watched(owner or PLATFORM, owner or ("all pools" if ask.all_pools else queue.pool))
    if ask.all_pools:
        named = sorted({queue.pool, *await known_pools(look.redis, look.settings)})
        queues = [another(queue, name) for name in named]
        found = await requests_of_pools(queues, owner, ask.status, ask.limit)
    else:
        found = await Inspection(queue).requests(owner, ask.status, ask.limit)
    names = await names_of_tenants(look, (row.tenant for row in found)) if found else {}
    owners = await owners_of_requests(look.db, look.redis, [(row.tenant, row.id) for row in found])
    rows = [_listed(row, names, owners.get((row.tenant, row.id)), look) for row in found]
    return RequestLine(rows, now_ms=await queue.now_ms())


@operation(
    "requests.show",
    "GET /requests/{request}",
    may=READERS,
    audit="request.show",
    uses=Uses(reads="tenant", writes=AUDIT, keys=(*POOL_READS, *WORKER_READS, "T:asked:", CONTROL)),
)
async def show_request(look: Look, ask: NameRequest) -> ShownRequest:
    """Show where a request is, how far it got, who reads it. One that has moved is shown where it is now."""
    owner = await owner_named(look, ask.tenant)
    queue, found = await find_request(look, ask.pool, ask.request, owner)
    await look.watched(found.row.tenant, found.row.id)
    came_from: list[str] = []
    while found.row.status == RequestStatus.MOVED and len(came_from) < HOPS_MAX:
        there = another(queue, found.moved_to)
        detail = await Inspection(there).request(found.row.tenant, found.row.id)
        if detail is None:
            break
        came_from.append(queue.pool)
        queue, found = there, detail
    worker = None
    if found.row.worker and look.who.tenant is None:
        rows = await Inspection(queue).workers()
        worker = next((row for row in rows if row.worker == found.row.worker), None)
    tenant = found.row.tenant
    names = await names_of_tenants(look, [tenant])
    told = await ask_gateways(look.redis, found.readers, tenant, request=found.row.id)
    shown = ShownRequest(found, worker, came_from, names.get(tenant, tenant), told.readers, told.unheard)
    return shown if look.who.tenant is None else _to_a_member(shown)


@operation(
    "requests.explain",
    "GET /requests/{request}/explained",
    may=STAFF | HANDLERS,
    audit="request.explain",
    uses=Uses(
        reads="tenant tenant_user project api_key usage_event usage_line usage_quarantine refusal_minute "
        "period_close price_book price_version price price_tier wallet wallet_grant wallet_use wallet_owed "
        "ledger_txn quota_policy budget",
        writes=AUDIT,
        keys=(*POOL_READS, *SHARE_KEYS, "T:rq:", "T:live", "T:posted", "T:windows", "T:conc", *COUNTS),
    ),
)
async def explain_request(look: Look, ask: ExplainRequest) -> Explained:
    """Tell all that is known of a request but what was said. That staff reads it is recorded, once in a while
    where a page reads it again and again."""
    owner = await owner_named(look, ask.tenant)
    found = await explain(look.db, look.redis, look.settings, ask.request, ask.tenant or owner)
    if look.who.tenant is None:
        record = look.watched if look.who.remote else look.recorded
        await record(found.tenant, ask.request)
    if look.who.tenant is None or found.in_pool is None:
        return found
    return msgspec.structs.replace(found, in_pool=without_machines(found.in_pool))


@operation(
    "requests.cancel",
    "POST /requests/{request}/cancel",
    may=HANDLERS,
    audit="request.cancel",
    reason=True,
    uses=Uses(
        reads="tenant",
        writes=AUDIT,
        keys=(*POOL_READS, *ENDING),
    ),
)
async def cancel_request(order: Order, ask: NameRequest) -> CancelledRequest:
    """End a request: its readers get `end` with reason `cancelled`, what was sampled is billed."""
    owner = await owner_named(order, ask.tenant)
    queue, found = await find_request(order, ask.pool, ask.request, owner)
    row = found.row

    def answer(state: CancelState) -> CancelledRequest:
        return CancelledRequest(row.id, row.tenant, queue.pool, row.status, state)

    if row.status == RequestStatus.ENDED:
        return answer(CancelState.HAD_ENDED)
    facts = {"pool": queue.pool, "status": row.status}
    redis = await order.given(row.tenant, row.id, answer(CancelState.WOULD_END), facts)
    told = PoolQueue(redis, queue.pool, order.settings)
    now, status = await cancel_where_it_is(told, row.tenant, row.id)
    if status is RequestStatus.ENDED:
        return answer(CancelState.HAD_ENDED)
    return answer(await _ended(now, row.tenant, row.id))


def _check_one_list(ask: ListRequests) -> None:
    """Raises Refused where a pool is named beside all, or what ended is meant."""
    if ask.all_pools and ask.pool is not None:
        raise bad_request("name a pool, or all of them", field="pool")
    if ask.all_pools and ask.status is RequestStatus.ENDED:
        text = "what has ended and is not billed yet is listed pool by pool"
        raise bad_request(text, field="status", see=see("requests.find"))


def without_machines(found: RequestDetail) -> RequestDetail:
    """The request as its tenant may see it: not on which machines, or which gateways read it. Pure."""
    row = msgspec.structs.replace(found.row, worker="")
    return msgspec.structs.replace(found, row=row, warm="", readers={})


def _to_a_member(shown: ShownRequest) -> ShownRequest:
    readers = [msgspec.structs.replace(each, gateway="") for each in shown.readers]
    request = without_machines(shown.request)
    return msgspec.structs.replace(shown, request=request, readers=readers, unheard=[])


def _listed(
    row: InspectedRequest, names: Mapping[str, str], owner: RequestOwner | None, look: Look
) -> ListedRequest:
    facts = msgspec.structs.asdict(row)
    if owner is not None:
        facts |= {name: getattr(owner, name) for name in ("user", "user_id", "key", "key_name", "project")}
    if look.who.tenant is not None:
        facts["worker"] = ""
    return ListedRequest(**facts, tenant_name=names.get(row.tenant, row.tenant))


async def _ended(queue: PoolQueue, tenant: str, id: str) -> CancelState:
    """Wait until a request that is told to end has ended, wherever it is moved to."""
    quota, deadline = Quota(queue.redis, queue.settings), time.monotonic() + CANCEL_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            await end_unclaimed(queue, quota, tenant, id, EndReason.CANCELLED)
        except DamagedRecordError as error:
            raise bad_request(f"{error}: it is marked cancelled, and nobody can end it") from error
        view = await queue.view(tenant, id)
        if view is None or view.ended:
            return CancelState.ENDED
        if view.status is RequestStatus.MOVED:
            queue = another(queue, view.dest)
        await asyncio.sleep(POLL_SECONDS)
    return CancelState.TOLD


OPERATIONS = (list_requests, show_request, explain_request, cancel_request)
