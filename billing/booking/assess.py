"""Sorts the events of an `ended` stream into rows to post and quarantine with a reason. Pure.

Everything that would make a row unstorable is found here, so that one bad event never holds up the others.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar, cast

import msgspec

from billing.booking.admissions import Admissions
from billing.booking.event_bounds import beyond_bounds
from billing.ledger.proofs import words_proof
from billing.ledger.rows import UsageEventRow
from billing.prices.rating import PricedQuantity, counts_of, rate
from billing.tables.tenants import UsageQuarantine
from billing.usage import UsageEvent, UsageOwner, phases_within, read_event
from core.names import storable_name
from core.redis.unreadable import Unreadable, read

INTEGER_MAX = 1 << 53  # what Redis scripts count exactly, and far below BIGINT
SMALL_INTEGER_MAX = 1 << 31
METADATA_DEPTH_MAX = 32
EVENT_BYTES_MAX = 1 << 20  # many times the largest event within a gateway's limits
KEPT_BYTES = 1_000  # of a larger event

Key = tuple[str, str]  # tenant, request


class Quarantined(StrEnum):
    """Reasons not to post an event."""

    UNDECODABLE = "undecodable"
    UNSTORABLE = "unstorable"
    UNPRICED = "unpriced"
    COST_MISMATCH = "cost_mismatch"
    CONFLICTING = "conflicting"
    UNADMITTED = "unadmitted"


@dataclass(frozen=True)
class Assessed:
    """An event that can be posted: its bytes, its row, and its priced lines. `mended` names the texts that a
    database cannot hold as they came, and that the row holds in another form."""

    data: bytes
    row: UsageEventRow
    lines: Sequence[PricedQuantity]
    mended: Sequence[str] = ()

    @property
    def key(self) -> Key:
        """The row's primary key."""
        return self.row.tenant_id, self.row.request_id


@dataclass
class AssessedBatch:
    """A batch of events, assessed. `settlements`: every readable event, with the cost that counts.
    `line_seqs`: the last line of usage of each posted request, by key; `revived`: as in BookedBatch
    (billing/booking/write.py)."""

    good: list[Assessed] = field(default_factory=list[Assessed])
    held: list[UsageQuarantine] = field(default_factory=list[UsageQuarantine])
    settlements: list[UsageEvent] = field(default_factory=list[UsageEvent])
    line_seqs: dict[Key, int] = field(default_factory=dict[Key, int])
    revived: set[str] = field(default_factory=set[str])


def assess(
    pool: str, deliveries: Iterable[bytes], now_ms: int, admissions: Admissions | None = None
) -> AssessedBatch:
    """Decode, compare with the admission, rate again with the pinned prices, and sort into events to post and
    to hold. `admissions` None: a person decided that the events were admitted."""
    batch = AssessedBatch()
    first: dict[Key, Assessed] = {}
    for data in deliveries:
        found = _assess_one(pool, data, now_ms, batch, admissions)
        if found is None:
            continue
        earlier = first.setdefault(found.key, found)
        if earlier is found:
            batch.good.append(found)
        elif earlier.data != data:
            batch.held.append(_conflicting(pool, found, now_ms))
    return batch


def conflicts(
    pool: str, good: Iterable[Assessed], posted_sha256: Mapping[Key, str], now_ms: int
) -> list[UsageQuarantine]:
    """Quarantine the events that differ from the posted event of their request, given the hashes of posted
    events."""
    return [
        _conflicting(pool, each, now_ms)
        for each in good
        if posted_sha256.get(each.key, each.row.event_sha256) != each.row.event_sha256
    ]


def decode_event(data: bytes) -> UsageEvent | None:
    """Decode an event; None where it cannot be read."""
    event = read_event(data)
    return None if isinstance(event, Unreadable) else event


def unstorable(pool: str, data: bytes, why: str, now_ms: int) -> UsageQuarantine:
    """The quarantine row of an event that the database refused although no check found a fault in it."""
    return _held(pool, data, now_ms, Quarantined.UNSTORABLE, why, decode_event(data))


def _assess_one(
    pool: str, data: bytes, now_ms: int, batch: AssessedBatch, admissions: Admissions | None
) -> Assessed | None:
    if len(data) > EVENT_BYTES_MAX:  # no gateway admits that, and listing held events would read all of it
        detail = f"it has {len(data)} bytes, of which the first {KEPT_BYTES} are kept"
        batch.held.append(_held(pool, data, now_ms, Quarantined.UNDECODABLE, detail))
        return None
    event = read_event(data)
    if isinstance(event, Unreadable):
        batch.held.append(_held(pool, data, now_ms, Quarantined.UNDECODABLE, str(event)))
        return None
    problem = _unstorable(event)
    if problem:
        batch.held.append(_held(pool, data, now_ms, Quarantined.UNSTORABLE, problem, event))
        return None
    if admissions is not None and (problem := admissions.problem(pool, event, now_ms)):
        # Not settled either: an event without a valid admission must not end anybody's request.
        batch.held.append(_held(pool, data, now_ms, Quarantined.UNADMITTED, problem, event))
        return None
    if not event.prices.book and counts_of(event).requests:
        detail = f"nobody knows the prices of {event.model}"
        batch.held.append(_held(pool, data, now_ms, Quarantined.UNPRICED, detail, event))
        batch.settlements.append(msgspec.structs.replace(event, cost_nano=0))
        return None
    lines, cost_nano = rate(counts_of(event), event.prices)
    if cost_nano != event.cost_nano:
        detail = f"the event says {event.cost_nano} nano, its prices say {cost_nano}"
        batch.held.append(_held(pool, data, now_ms, Quarantined.COST_MISMATCH, detail, event))
        batch.settlements.append(msgspec.structs.replace(event, cost_nano=0))
        return None
    batch.settlements.append(event)
    fit, changed = repaired_event(event)
    return Assessed(data, _row(fit, data, now_ms), lines, changed)


def repaired_event(event: UsageEvent) -> tuple[UsageEvent, list[str]]:
    """The event with every text in a form that a row can hold, and the names of those that were changed.

    What a client chooses is never a reason not to bill."""
    owner, of_owner = _mended(event.owner)
    fit, of_event = _mended(event)
    return msgspec.structs.replace(fit, owner=owner), of_event + of_owner


Texts = TypeVar("Texts", UsageEvent, UsageOwner)


def _mended(struct: Texts) -> tuple[Texts, list[str]]:
    found = {name: getattr(struct, name) for name in struct.__struct_fields__}
    changes = {
        name: fit
        for name, value in found.items()
        if isinstance(value, str) and (fit := storable_name(value)) != value
    }
    return (msgspec.structs.replace(struct, **changes) if changes else struct), sorted(changes)


def _unstorable(event: UsageEvent) -> str:
    """Name the fact of an event that no row can hold; empty where all fit. Of texts, only those count that a
    request and its prices are found by, and that no client chooses."""
    for struct in (event, event.owner, event.prices):
        for name in struct.__struct_fields__:
            value = getattr(struct, name)
            if isinstance(value, int) and not 0 <= value < INTEGER_MAX:
                return f"{name} is out of range"
    prices = event.prices
    for name, text in (
        ("tenant", event.tenant),
        ("request", event.request),
        ("book", prices.book),
        ("currency", prices.currency),
    ):
        if storable_name(text) != text:
            return f"{name} holds what no database can, or is too long"
    if max(event.claims, event.prices.version) >= SMALL_INTEGER_MAX:
        return "claims or the price version is out of range"
    return beyond_bounds(event)


def _row(event: UsageEvent, data: bytes, now_ms: int) -> UsageEventRow:
    labels = _metadata(event.owner.metadata)
    return UsageEventRow(
        tenant_id=event.tenant,
        request_id=event.request,
        pool=event.pool,
        model=event.model,
        fingerprint=event.fingerprint,
        project_id=event.owner.project,
        key_id=event.owner.key,
        user_id=event.owner.user,
        conversation_id=event.owner.conversation,
        accepted_ms=event.accepted_ms,
        claimed_ms=_within(event, event.claimed_ms),
        first_token_ms=_within(event, event.first_token_ms),
        ended_ms=event.ended_ms,
        reason=event.reason,
        code=event.code,
        input_uncached=event.input_uncached,
        input_cached=event.input_cached,
        output_text=event.output_text,
        output_reasoning=event.output_reasoning,
        price_book_id=event.prices.book,
        price_version=event.prices.version,
        currency=event.prices.currency,
        cost_nano=event.cost_nano,
        claims=event.claims,
        recomputed_tokens=event.recomputed_tokens,
        request_metadata=labels,
        event_sha256=hashlib.sha256(data).hexdigest(),
        posted_ms=now_ms,
        words_proof=words_proof(event.owner.user, labels),
        policy_sha256=event.policy,
        priority_class=event.priority,
        trace_id=event.trace_id,
        safety_verdicts={name: dict(sorted(event.verdicts[name].items())) for name in sorted(event.verdicts)},
        phases=phases_within(event.phases, event.ended_ms - event.accepted_ms),
    )


def _within(event: UsageEvent, at_ms: int) -> int:
    """Clamp a moment of a request to between its acceptance and its end. 0 (it never came) stays 0."""
    return min(max(at_ms, event.accepted_ms), max(event.ended_ms, event.accepted_ms)) if at_ms else 0


def _metadata(data: bytes) -> dict[str, Any]:
    """Decode the client's labels. They decide nothing, so labels that cannot be read or kept are dropped."""
    found = read("labels", lambda text: msgspec.json.decode(text, type=dict[str, Any]), data)
    return {} if isinstance(found, Unreadable) or _depth(found) > METADATA_DEPTH_MAX else found


def _depth(value: object) -> int:
    """Nesting depth of lists and objects, counted to just above METADATA_DEPTH_MAX."""
    level: list[object] = [value]
    for depth in range(METADATA_DEPTH_MAX + 1):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += cast(dict[str, object], each).values()
            elif isinstance(each, list):
                inner += cast(list[object], each)
        if not inner:
            return depth
        level = inner
    return METADATA_DEPTH_MAX + 1


def _conflicting(pool: str, found: Assessed, now_ms: int) -> UsageQuarantine:
    detail = "another event of this request was posted"
    return _held(pool, found.data, now_ms, Quarantined.CONFLICTING, detail, decode_event(found.data))


def _held(
    pool: str, data: bytes, now_ms: int, reason: Quarantined, detail: str, event: UsageEvent | None = None
) -> UsageQuarantine:
    return UsageQuarantine(
        event_sha256=hashlib.sha256(data).hexdigest(),
        tenant_id=storable_name(event.tenant) if event else "",
        request_id=storable_name(event.request) if event else "",
        pool=pool,
        reason=reason.value,
        detail=detail.replace("\x00", ""),
        event=data if len(data) <= EVENT_BYTES_MAX else data[:KEPT_BYTES],
        created_ms=now_ms,
    )
