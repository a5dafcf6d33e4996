"""Builds the script calls of the queue's operations. Pure."""

from collections.abc import Sequence

from core.configuration.settings import Settings
from engine.queue import script_calls as calls
from engine.queue.request_log import pack_entry
from engine.queue.types import Append, ClaimOffer, Enqueue
from engine.request import Control

ENDED_UNREAD_MAX = 1_000_000


def enqueue_call(e: Enqueue, s: Settings) -> calls.EnqueueCall:
    """Arguments for a request's enqueue."""
    return calls.EnqueueCall(
        tenant=e.tenant,
        id=e.id,
        body_hash=e.body_hash,
        priority=e.priority.value,
        fingerprint=e.fingerprint,
        prompt_tokens=e.prompt_tokens,
        max_tokens=e.max_tokens,
        deadline_ms=e.deadline_ms,
        accepted_ms=e.accepted_ms,
        granted=min(e.granted, e.max_tokens),
        model=e.model,
        gateway=e.gateway or None,
        no_reader_ms=e.no_reader_ms,
        control=int(Control.CANCEL) if e.cancelled else 0,
        shaped=e.shaped,
        policy=e.policy.hash if e.policy else None,
        told=e.told,
        requests_max=s.queue_requests_max,
        tenant_requests_max=s.queue_requests_per_tenant_max,
        memory_fraction_max=s.maxmemory_fraction_max,
        readers_max=s.readers_per_request_max,
        gateway_lease_ms=s.gateway_lease_ms,
        ended_unread_max=ENDED_UNREAD_MAX,
        no_worker_ms=s.no_worker_seconds_max * 1000,
        input=e.input,
    )


def claim_call(worker: str, number: int, nonce: str, offer: ClaimOffer, s: Settings) -> calls.ClaimCall:
    """Arguments for a worker's `number`th claim."""
    return calls.ClaimCall(
        worker=worker,
        number=number,
        nonce=nonce,
        fingerprint=offer.fingerprint,
        slots=offer.slots,
        kv_tokens=offer.kv_tokens,
        prefill_tokens=offer.prefill_tokens,
        picks_max=s.claim_picks_max,
        deaths_max=s.deaths_max,
        prompt_weight=s.fair_prompt_weight,
        delta_tokens=s.fair_delta_tokens,
        age_standard_ms=s.age_standard_ms,
        age_bulk_ms=s.age_bulk_ms,
        lowest=offer.lowest.value,
    )


def append_call(items: Sequence[Append], s: Settings) -> calls.AppendCall:
    """Arguments for one flush."""
    return calls.AppendCall(
        log_keep_seconds=s.unrecorded_log_keep_seconds,
        prompt_weight=s.fair_prompt_weight,
        output_weight=s.fair_output_weight,
        items=[_append_item(item) for item in items],
        parts=[part for item in items for part in (item.tokens, item.end or b"")],
    )


def rewrite_call(position: int, item: Append, s: Settings) -> calls.RewriteCall:
    """Arguments for a retraction from `position` on."""
    return calls.RewriteCall(
        log_keep_seconds=s.unrecorded_log_keep_seconds,
        prompt_weight=s.fair_prompt_weight,
        output_weight=s.fair_output_weight,
        position=position,
        item=_append_item(item),
        tokens=item.tokens,
        event=item.end or b"",
    )


def _append_item(item: Append) -> calls.AppendItem:
    return calls.AppendItem(
        tenant=item.tenant,
        id=item.id,
        ck=item.ck,
        n0=item.n0,
        o0=item.o0,
        raw=item.raw,
        visible=item.visible,
        input_cached=item.input_cached,
        entries=[pack_entry(entry) for entry in item.entries],
    )
