"""Builds a request's end: its `end` entry and its usage event, from one set of facts. Pure, but for
`end_unclaimed`, `end_overdue_migration` and `end_claimed`.

Billing: an error bills no output, and input only where text was shown; a blocked answer bills the tokens
whose text was shown; everything else bills what was sampled. A request that never ran bills nothing.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from billing import usage
from billing.api import Counts, PinnedPrices, Quota, UsageEvent, UsageOwner, rate
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.redis.unreadable import Unreadable, read
from engine import instruments
from engine.queue.client import PoolQueue
from engine.queue.request_log import DamagedLogError, LogReader, verdicts_in, visible_text
from engine.queue.types import Append, AppendCode, Claim, UnownedRequest
from engine.request import (
    TOKEN_BYTES,
    EndReason,
    Entry,
    EntryKind,
    RequestInput,
    RequestStatus,
    Sampling,
    input_decoder,
)

OVERDUE_MS = 2_000  # reap.lua waits as long for a process that is about to end it
SAFETY_BLOCKED = "safety_blocked"
TRACEPARENT = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-.*", re.ASCII)

log = logger(__name__)

_Shown = tuple[str, Mapping[tuple[str, str], int]]


@dataclass(frozen=True)
class EndFacts:
    """Facts about a request at its end. `text` is the final visible text, `n` the sampled tokens, `covered`
    those whose text was shown; times are Unix ms, 0 where never reached. `safety`: category and scope of the
    rule that blocked it; `verdicts`: how often its policy found something, by (category, action); `phases`:
    of its life before its end."""

    tenant: str
    request: str
    pool: str
    reason: EndReason
    text: str
    prompt_tokens: int
    n: int
    covered: int
    input_cached: int
    claims: int
    claimed_ms: int
    first_token_ms: int
    ended_ms: int
    recomputed_tokens: int = 0
    code: str = ""
    safety: tuple[str, str] | None = None
    verdicts: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    phases: Sequence[usage.Phase] = ()


@dataclass(frozen=True)
class RequestEnd:
    """`payload` is the END entry's `v`, `event` what billing gets."""

    payload: bytes
    event: UsageEvent


def end_payload(facts: EndFacts, request: RequestInput) -> RequestEnd:
    """The `end` that readers get and the event that is billed, of one request. Both name the same cost."""
    counts = billable(facts)
    _, cost = rate(counts, request.prices)
    event = UsageEvent(
        tenant=facts.tenant,
        request=facts.request,
        pool=facts.pool,
        model=request.model,
        fingerprint=request.fingerprint,
        owner=request.owner,
        accepted_ms=request.accepted_ms,
        ended_ms=facts.ended_ms,
        reason=facts.reason.value,
        prices=request.prices,
        claimed_ms=facts.claimed_ms,
        first_token_ms=facts.first_token_ms,
        code=_code(facts),
        input_uncached=counts.input_uncached,
        input_cached=counts.input_cached,
        output_text=counts.output_text,
        cost_nano=cost,
        claims=facts.claims,
        recomputed_tokens=facts.recomputed_tokens,
        asked_input=len(request.prompt) // TOKEN_BYTES,
        asked_output=request.sampling.max_tokens,
        seal=request.seal,
        policy=request.policy,
        priority=request.priority.value if request.priority else "",
        trace_id=found[1] if (found := TRACEPARENT.fullmatch(request.trace)) else "",
        verdicts=usage.verdicts_of(_verdicts(facts, request)),
        phases=usage.ended_phases(facts.phases, _last(facts), facts.ended_ms - request.accepted_ms),
    )
    return RequestEnd(_payload(facts, counts, event), event)


def _last(facts: EndFacts) -> usage.PhaseKind:
    return usage.PhaseKind.BLOCKED if facts.reason is EndReason.BLOCKED else usage.PhaseKind.ENDED


def _verdicts(facts: EndFacts, request: RequestInput) -> Counter[tuple[str, str]]:
    """Those on the answer and those on its prompt."""
    found = Counter(facts.verdicts)
    for category, action, count in request.prompt_verdicts:
        found[category, usage.OF_PROMPT + action] += count
    return found


def billable(facts: EndFacts) -> Counts:
    """The quantities that this end bills."""
    match facts.reason:
        case EndReason.ERROR:
            ran, output = facts.claims > 0 and facts.covered > 0, 0
        case EndReason.BLOCKED:
            ran, output = facts.claims > 0, min(facts.covered, facts.n)
        case _:
            ran, output = facts.claims > 0, facts.n
    if not ran:
        return Counts()
    cached = min(facts.input_cached, facts.prompt_tokens)
    return Counts(input_uncached=facts.prompt_tokens - cached, input_cached=cached, output_text=output)


def _payload(facts: EndFacts, counts: Counts, event: UsageEvent) -> bytes:
    total_input = counts.input_uncached + counts.input_cached
    left_queue_ms = facts.claimed_ms or facts.ended_ms
    value: dict[str, object] = {"reason": facts.reason.value}
    if event.code:
        value["code"] = event.code
    if facts.safety is not None:
        category, scope = facts.safety
        value["safety"] = {"category": category, "scope": scope}
    value["usage"] = {
        "input": total_input,
        "cached_input": counts.input_cached,
        "output": counts.output_text,
        "total": total_input + counts.output_text,
    }
    value["cost"] = {"nano": event.cost_nano, "currency": event.prices.currency}
    value["timing"] = {
        "queue_ms": max(0, left_queue_ms - event.accepted_ms),
        "ttft_ms": max(0, facts.first_token_ms - event.accepted_ms) if facts.first_token_ms else 0,
        "total_ms": max(0, facts.ended_ms - event.accepted_ms),
    }
    value["h"] = text_hash(facts.text)
    return msgspec.json.encode(value)


def _code(facts: EndFacts) -> str:
    return facts.code or (SAFETY_BLOCKED if facts.reason is EndReason.BLOCKED else "")


def text_hash(text: str) -> str:
    """Lower-case hex sha-256 of a text's UTF-8, by which a client checks its own text."""
    return hashlib.sha256(text.encode()).hexdigest()


async def end_unclaimed(
    queue: PoolQueue, quota: Quota, tenant: str, id: str, reason: EndReason | str, code: str | None = None
) -> bool:
    """End a queued or parked request and settle it. False: a worker has it, it has ended, or its log just
    moved on; the reaper tries again where that is due."""
    found = await queue.unowned(tenant, id)
    return found is not None and await _end(queue, quota, (tenant, id), found, (reason, code))


async def end_overdue_migration(queue: PoolQueue, quota: Quota, tenant: str, id: str) -> bool:
    """End a request whose migration nobody finishes, once the deadline of its admission is over; the record's
    deadline may have been written by a worker. False: not yet over, or no longer migrating."""
    found = await queue.recorded(tenant, id)
    if found is None or found.status is not RequestStatus.MOVING:
        return False
    admitted = await quota.directory(tenant, id)
    deadline_ms = admitted.deadline_ms if admitted else found.deadline_ms
    if await queue.now_ms() <= deadline_ms + OVERDUE_MS:
        return False
    return await _end(queue, quota, (tenant, id), found, (EndReason.DEADLINE, None))


async def _end(
    queue: PoolQueue,
    quota: Quota,
    at: tuple[str, str],
    found: UnownedRequest,
    why: tuple[EndReason | str, str | None],
) -> bool:
    reason, code = why
    ending, end = await _ending(queue, quota, at, found, (EndReason(reason), code or ""))
    if await queue.finish(*at, found.head, [end], usage.encode(ending.event)) is None:
        return False
    instruments.count_end(ending.event, found.priority)
    await quota.settle(ending.event)
    return True


async def end_claimed(queue: PoolQueue, quota: Quota, worker: str, claim: Claim) -> UsageEvent | None:
    """End a claim that its worker cannot read with `error internal`: no other worker could read it either.
    None: the claim is not this worker's any more. The caller settles the event."""
    at = (claim.tenant, claim.id)
    while (found := await queue.recorded(*at)) is not None:
        ending, end = await _ending(queue, quota, at, found, (EndReason.ERROR, "internal"))
        append = Append(
            tenant=claim.tenant,
            id=claim.id,
            ck=claim.ck,
            n0=found.n,
            o0=found.head,
            raw=claim.raw,
            visible=found.visible,
            entries=[end],
            end=usage.encode(ending.event),
        )
        (answer,) = await queue.append(worker, [append])
        if answer.code is AppendCode.ENDED:
            instruments.count_end(ending.event, found.priority)
            return ending.event
        if answer.code is not AppendCode.GAP:
            return None
    return None


async def _ending(
    queue: PoolQueue, quota: Quota, at: tuple[str, str], found: UnownedRequest, why: tuple[EndReason, str]
) -> tuple[RequestEnd, Entry]:
    request = await _request_of(quota, *at, found)
    shown = await _shown(queue, *at, found.head)
    ending = end_payload(_facts(queue.pool, *at, found, shown, *why, await queue.now_ms()), request)
    return ending, Entry(o=found.head + 1, k=EntryKind.END, i=found.n, v=ending.payload)


async def _shown(queue: PoolQueue, tenant: str, id: str, head: int) -> _Shown:
    """The visible text and the verdicts on it; no text where the log is damaged, of which readers get
    `log_lost`."""
    text, verdicts = "", Counter[tuple[str, str]]()
    try:
        async for entries in LogReader(queue.redis, queue.pool).pages_through(tenant, id, head):
            text = visible_text(entries, text)
            verdicts.update(verdicts_in(entries))
    except DamagedLogError as error:
        log.error("request.log_unreadable", tenant=tenant, id=id, error=error_summary(error))
        text = ""
    return text, verdicts


async def _request_of(quota: Quota, tenant: str, id: str, found: UnownedRequest) -> RequestInput:
    """The request's input; where it cannot be read, one made of its admission's owner and prices. Without an
    admission it has no price, and the biller holds the event."""
    request = read("input", input_decoder.decode, found.input)
    if not isinstance(request, Unreadable):
        return request
    log.error("request.input_unreadable", tenant=tenant, id=id, error=request.why)
    admitted = await quota.directory(tenant, id)
    return RequestInput(
        prompt=b"",
        sampling=Sampling(max_tokens=0),
        owner=UsageOwner(admitted.project, admitted.key, admitted.user) if admitted else UsageOwner("", ""),
        prices=admitted.prices if admitted else PinnedPrices("", 0, 0, 0, 0),
        model=found.model,
        fingerprint=found.fingerprint,
        accepted_ms=found.accepted_ms,
        deadline_ms=0,
    )


def _facts(
    pool: str,
    tenant: str,
    id: str,
    found: UnownedRequest,
    shown: _Shown,
    reason: EndReason,
    code: str,
    now_ms: int,
) -> EndFacts:
    text, verdicts = shown
    return EndFacts(
        tenant=tenant,
        request=id,
        pool=pool,
        reason=reason,
        text=text,
        prompt_tokens=found.prompt_tokens,
        n=found.n,
        covered=found.covered,
        input_cached=found.input_cached,
        claims=found.claims,
        claimed_ms=found.claimed_ms,
        first_token_ms=found.first_token_ms,
        ended_ms=now_ms,
        recomputed_tokens=found.recomputed_tokens,
        code=code,
        verdicts=verdicts,
        phases=found.phases,
    )
