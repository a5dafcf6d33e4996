"""Arguments of the scripts on a tenant's hash slot keys. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from billing.quota import script_calls as calls
from billing.quota.bindings import Bindings, Record, record_of
from billing.quota.redis_keys import posted_key, rq_key, tag
from billing.quota.script_replies import packed
from billing.quota.types import Admission
from billing.usage import UsageEvent

UNLIMITED_TOKENS = 1 << 30
CONCURRENCY_GRACE_MS = 60_000
SETTLED_KEEP_MS = 15 * 60_000
AMOUNT_MAX = 1 << 53  # the largest integer that Lua counts exactly


def admit_call(a: Admission, attempt: str, bindings: Bindings | None) -> calls.AdmitCall:
    """Arguments for a new request, sealed where `bindings` are given. `attempt`: the same in all tries of one
    sending."""
    record = record_of(a)
    call = calls.AdmitCall(
        now_ms=a.now_ms,
        attempt=attempt,
        id=a.id,
        body_hash=a.body_hash,
        pool=a.pool,
        fingerprint=a.fingerprint,
        project=a.project,
        key=a.owner_key,
        used_key=a.key or a.owner_key,
        user=a.user,
        model=a.model,
        input_tokens=a.input_tokens,
        chunk_tokens=a.chunk_tokens,
        unlimited_tokens=UNLIMITED_TOKENS,
        deadline_ms=a.deadline_ms,
        grace_ms=CONCURRENCY_GRACE_MS,
        owner=record[b"owner"],
        prices=record[b"prices"],
        limits=packed(a.limits, a.prices),
        seal=_seal(a, record, bindings),
    )
    if a.next_prices is not None:
        then = record_of(replace(a, prices=a.next_prices))
        call.next_from_ms, call.next_prices = a.next_from_ms, then[b"prices"]
        call.next_limits, call.next_seal = packed(a.limits, a.next_prices), _seal(a, then, bindings)
    return call


def _seal(a: Admission, record: Record, bindings: Bindings | None) -> bytes:
    return bindings.seal(a.tenant, a.id, record) if bindings else b""


def settlement(
    event: UsageEvent, line_seq: int | None, now_ms: int, owner_key: str | None = None
) -> tuple[Sequence[str], calls.SettleCall] | ValueError:
    """Keys and call of a settlement, or a ValueError where an amount is out of range. `owner_key`: of the
    chain of the key that was used; None: that is the first of it."""
    tokens_in = event.input_uncached + event.input_cached
    tokens_out = event.output_text + event.output_reasoning
    if not all(0 <= amount < AMOUNT_MAX for amount in (event.cost_nano, tokens_in, tokens_out)):
        return ValueError("an amount is out of range")
    tenant, owner = event.tenant, event.owner
    keys = [rq_key(tenant, event.request), posted_key(tenant), tag(tenant) + "windows"]
    return keys, calls.SettleCall(
        now_ms=now_ms,
        id=event.request,
        cost_nano=event.cost_nano,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        keep_ms=SETTLED_KEEP_MS,
        line_seq=line_seq,
        accepted_ms=event.accepted_ms,
        project=quote(owner.project, safe=""),
        key=quote(owner.key if owner_key is None else owner_key, safe=""),
        user=quote(owner.user, safe=""),
        model=quote(event.model, safe=""),
    )
