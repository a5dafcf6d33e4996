"""What a chaos run collects: what clients asked and saw, what was done to the platform, what it kept. Pure.

Times are seconds of this process's monotonic clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from billing.api import UsageEvent
from engine.api import Entry


class Question(msgspec.Struct, frozen=True):
    """One request as a client sends it. `number` counts from 0 within a round."""

    number: int
    content: str
    max_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seam:
    """A place where another worker took over: when the client heard of it, and its next text after that.

    `next_text_at` is None where the answer ended without more text."""

    moved_at: float
    why: str
    next_text_at: float | None


@dataclass(frozen=True)
class Answered:
    """What one client saw of one request. `problem`: why it never ended or was refused, empty otherwise."""

    tenant: str
    question: Question
    id: str
    sent_at: float
    first_text_at: float | None = None
    ended_at: float | None = None
    text: str = ""
    reason: str = ""
    code: str = ""
    verified: bool = False
    input: int = 0
    output: int = 0
    cost_nano: int = 0
    seams: tuple[Seam, ...] = ()
    problem: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Strike:
    """One fault that was done. `victim`: a worker, a connection; `held`: the request ids it worked on."""

    at: float
    kind: str
    victim: str
    held: frozenset[str] = frozenset()


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
class Facts:
    """All of one round. `logs`: the entries of each request's log by id; `events`: usage events as the pool
    published them; `leftovers`: what the queue still held when everything had ended;
    `counters`: what the clients counted;
    `memory_mib`: the most that a gateway held, where that was looked at."""

    seed: int
    answers: list[Answered] = field(default_factory=list[Answered])
    strikes: list[Strike] = field(default_factory=list[Strike])
    logs: dict[str, Sequence[Entry]] = field(default_factory=dict[str, Sequence[Entry]])
    events: list[UsageEvent] = field(default_factory=list[UsageEvent])
    posted: list[Posted] = field(default_factory=list[Posted])
    quarantined: list[str] = field(default_factory=list[str])
    settled: Mapping[str, "Sums"] = field(default_factory=dict[str, "Sums"])
    leftovers: list[str] = field(default_factory=list[str])
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    memory_mib: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Sums:
    """What a tenant's slot has counted: ended requests and their tokens and cost."""

    requests: int
    input: int
    output: int
    cost_nano: int
