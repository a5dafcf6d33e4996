"""A move of many requests as it would be: how many go, which stay and why, and what room the other pool has.

Pure: the facts of both pools in, the preview out. It judges as the migrator does, request by request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from engine.lifecycle.migration import MigrationRefusalReason, misfit, sizes_of
from engine.queue.types import WorkerView
from engine.request import RequestStatus

STAYING_SHOWN_MAX = 100
STRANGER = MigrationRefusalReason.STRANGER.value


class MigrationOutcome(msgspec.Struct, frozen=True):
    """Result for one request. `reason`: why it stayed, empty where it moved; `message`: the same in words."""

    id: str
    tenant: str
    source: str
    to: str
    moved: bool
    reason: str = ""
    message: str = ""


class MigrationPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a move would do now. None: no worker there has said it."""

    streams: Annotated[int, Meta(description="Running answers that would move, each with a short pause.")]
    streams_of: Annotated[int, Meta(description="All running answers.")]
    waiting: Annotated[int, Meta(description="Others that would move; they keep their age.")]
    waiting_of: Annotated[int, Meta(description="All others.")]
    stay: Annotated[list[MigrationOutcome], Meta(description="Those that would stay: the first 100.")]
    stay_total: int
    slots: Annotated[int | None, Meta(description="Of workers there that take requests.")]
    free: Annotated[int | None, Meta(description="Of these, those that are free.")]
    without_slot: Annotated[int, Meta(description="Running answers that would wait there for a slot.")]
    waiting_there: Annotated[int, Meta(description="Requests that wait there already.")]
    kv: Annotated[float | None, Meta(description="Part of the KV memory there that is in use, 0 to 1.")]
    kv_after: Annotated[float | None, Meta(description="The same after the move; 1 is full.")]
    recomputed_tokens: Annotated[int, Meta(description="Computed again there, and not billed.")]
    price: Annotated[str, Meta(description="What the move does to the price.")] = ""


@dataclass(frozen=True)
class MovingRequest:
    """An open request. `computed`: its prompt and what it has said, in tokens; `need`: KV tokens that it
    takes at most, 0 where nobody knows."""

    tenant: str
    id: str
    status: str
    fingerprint: str
    computed: int
    need: int

    @property
    def runs(self) -> bool:
        """True of an answer that is being given."""
        return self.status == RequestStatus.RUNNING


@dataclass(frozen=True)
class SourceFacts:
    """The pool to move from, and its requests that are meant."""

    pool: str
    requests: Sequence[MovingRequest]


@dataclass(frozen=True)
class DestinationFacts:
    """The pool to move to. `known`: it is one of the installation's; `draining`: workers that take nothing
    new; `waiting`: requests that wait there; `admitted`: the tenants that it takes, None: all."""

    pool: str
    known: bool
    workers: Sequence[WorkerView] = ()
    draining: frozenset[str] = frozenset()
    waiting: int = 0
    admitted: frozenset[str] | None = None


def previewed(source: SourceFacts, dest: DestinationFacts, price: str = "") -> MigrationPreview:
    """What the move would do. Pure."""
    sizes = sizes_of(dest.workers)
    refusals = [(each, _refusal(each, source.pool, dest, sizes)) for each in source.requests]
    stay = [outcome for _, outcome in refusals if outcome is not None]
    moving = [each for each, outcome in refusals if outcome is None]
    streams = [each for each in moving if each.runs]
    running = sum(each.runs for each in source.requests)
    room = _Room.of(dest, {each.fingerprint for each in source.requests})
    used = sum(each.computed for each in streams)
    return MigrationPreview(
        streams=len(streams),
        streams_of=running,
        waiting=len(moving) - len(streams),
        waiting_of=len(source.requests) - running,
        stay=stay[:STAYING_SHOWN_MAX],
        stay_total=len(stay),
        slots=room.slots,
        free=room.free,
        without_slot=0 if room.free is None else max(0, len(streams) - room.free),
        waiting_there=dest.waiting,
        kv=room.kv,
        kv_after=room.kv_with(used),
        recomputed_tokens=used,
        price=price,
    )


def _refusal(
    request: MovingRequest, source: str, dest: DestinationFacts, sizes: Mapping[str, int]
) -> MigrationOutcome | None:
    def stays(reason: str, message: str) -> MigrationOutcome:
        return MigrationOutcome(request.id, request.tenant, source, dest.pool, False, reason, message)

    if not dest.known:
        return stays("unknown_pool", f"there is no pool {dest.pool}")
    if dest.pool == source:
        return stays("same_pool", f"it is in pool {dest.pool}")
    if dest.admitted is not None and request.tenant not in dest.admitted:
        return stays(STRANGER, f"pool {dest.pool} is another tenant's and does not let it in")
    refused = misfit(dest.pool, sizes, request.fingerprint, request.need)
    return None if refused is None else stays(refused.reason.value, str(refused))


@dataclass(frozen=True)
class _Room:
    """What workers of the same fingerprints that take requests have. None: nobody said it."""

    slots: int | None
    free: int | None
    kv_tokens: int
    kv_used: float

    @classmethod
    def of(cls, dest: DestinationFacts, fingerprints: set[str]) -> "_Room":
        able = [each for each in dest.workers if each.alive and each.worker not in dest.draining]
        if fingerprints:
            able = [each for each in able if each.fingerprint in fingerprints]
        said = [(slots, each.claims) for each in able if (slots := each.count("slots")) is not None]
        sized = [(each.count("kv_tokens") or 0, each.number("kv_usage") or 0.0) for each in able]
        return cls(
            sum(slots for slots, _ in said) if said else None,
            sum(max(0, slots - held) for slots, held in said) if said else None,
            sum(tokens for tokens, _ in sized),
            sum(tokens * used for tokens, used in sized),
        )

    @property
    def kv(self) -> float | None:
        return self.kv_with(0)

    def kv_with(self, tokens: int) -> float | None:
        """Part of the KV memory that is in use with so many tokens more."""
        return min(1.0, (self.kv_used + tokens) / self.kv_tokens) if self.kv_tokens else None
