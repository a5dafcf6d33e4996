"""What a chaos run collects: what clients asked and saw, what was done to the platform, what it kept, and
what the oracle found wrong. Pure.

Times are seconds of this process's monotonic clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from billing.api import Comparison, UsageEvent
from engine.api import Entry


class WrongKind(StrEnum):
    """What can be wrong with a request. `lost`: it did not come to its end whole; `doubled`: its text or its
    log says something twice or something else."""

    LOST = "lost"
    DOUBLED = "doubled"
    UNBILLED = "unbilled"
    DOUBLE_BILLED = "double-billed"
    LEFT = "left behind"
    LEAKED = "leaked"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `request` is empty where it is about the whole run."""

    what: WrongKind
    request: str
    detail: str


class WorkloadRequest(msgspec.Struct, frozen=True):
    """One request as a client sends it. `number` counts from 0 within a round. `poison`: it kills each worker
    that runs it, and is to end for that."""

    number: int
    content: str
    max_tokens: int
    stop: tuple[str, ...] = ()
    poison: bool = False


@dataclass(frozen=True)
class Seam:
    """A place where another worker took over: when the client heard of it, and its next text after that.

    `next_text_at` is None where the answer ended without more text."""

    moved_at: float
    why: str
    next_text_at: float | None


@dataclass(frozen=True)
class Answered:
    """What one client saw of one request. `problem`: why it never ended or was refused, empty otherwise.

    `frames`: all text that came, also what was replaced later. `silence`: the longest time between two pieces
    of its text, in seconds."""

    tenant: str
    question: WorkloadRequest
    id: str
    sent_at: float
    accepted_at: float | None = None
    first_text_at: float | None = None
    ended_at: float | None = None
    text: str = ""
    frames: str = ""
    reason: str = ""
    code: str = ""
    verified: bool = False
    input: int = 0
    output: int = 0
    cached: int = 0
    cost_nano: int = 0
    epoch: int = 1
    seams: tuple[Seam, ...] = ()
    silence: float = 0.0
    problem: str = ""
    refused: bool = False


@dataclass(frozen=True)
class DoneFault:
    """One fault that was done. `victim`: a worker, a connection; `held`: the request ids it worked on.

    `warm`: another worker was ready and had slots free for all of them."""

    at: float
    kind: str
    victim: str
    held: frozenset[str] = frozenset()
    warm: bool = False


@dataclass(frozen=True)
class Outage:
    """A Redis that was killed: of what it was told since `lost_from` nothing is left, and it answered again
    from `back_at` on. `at` is when it died."""

    lost_from: float
    at: float
    back_at: float


@dataclass(frozen=True)
class Posted:
    """One row of billed usage."""

    tenant: str
    request: str
    reason: str
    input: int
    output: int
    cost_nano: int


@dataclass
class Observations:
    """All of one round. `logs`: the entries of each request's log by id; `events`: usage events as the pool
    published them, and `events_added` how many those were by the pool's own count;
    `leftovers`: what the queue still held when everything had ended;
    `compared`: what the product's own reconciliation says, where books differ or cannot be compared;
    `counters`: what the clients counted; `secrets`: answers have some in them, and `leaks` names where a part
    of one was found, `searched` how many of each kind were looked through;
    `memory_mib`: the most that a gateway held, where that was looked at."""

    seed: int
    answers: list[Answered] = field(default_factory=list[Answered])
    strikes: list[DoneFault] = field(default_factory=list[DoneFault])
    logs: dict[str, Sequence[Entry]] = field(default_factory=dict[str, Sequence[Entry]])
    events: list[UsageEvent] = field(default_factory=list[UsageEvent])
    events_added: int = 0
    outages: list[Outage] = field(default_factory=list[Outage])
    posted: list[Posted] = field(default_factory=list[Posted])
    quarantined: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    settled: Mapping[str, "TenantSums"] = field(default_factory=dict[str, "TenantSums"])
    leftovers: list[str] = field(default_factory=list[str])
    secrets: bool = False
    leaks: list[str] = field(default_factory=list[str])
    searched: Mapping[str, int] = field(default_factory=dict[str, int])
    compared: list[Comparison] = field(default_factory=list[Comparison])
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    memory_mib: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class TenantSums:
    """What a tenant's slot has counted: ended requests and their tokens and cost."""

    requests: int
    input: int
    output: int
    cost_nano: int
