"""Arguments and results of the queue's operations. Times are Unix milliseconds, tokens u32 little-endian."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec

from billing.usage import Phase
from engine.queue.migration_orders import MigrationOrder
from engine.request import Control, Entry, PriorityClass, RequestStatus

NUMBER_MAX = 1 << 53

ReleaseWhy = Literal["lost", "drain", "preempt", "pool", "park", "grant", "error"]
ReaderState = Literal["reading", "stuck", "gone"]


class PinnedPolicy(msgspec.Struct, frozen=True):
    """A safety policy as its request's workers read it in the pool: the document's bytes, and their
    SHA-256."""

    hash: str
    document: bytes


class Enqueue(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the pool. `input` is an encoded RequestInput; `granted` the output tokens admitted so
    far.

    `gateway` registers that gateway as a reader in the same call; `no_reader_ms`: end it when nobody has read
    it for so long, None: never. `cancelled`: no worker may claim it; the caller ends it, else the reaper
    does. `shaped`: its answer has a response_format, and a hung engine is blamed on it first. `policy`: has
    to stand in the pool with it; None where every worker has its policy. `told`: what its sender is told of
    it, for readers who missed that; nobody here reads it.
    """

    tenant: str
    id: str
    body_hash: str
    input: bytes
    fingerprint: str
    prompt_tokens: int
    max_tokens: int
    deadline_ms: int
    accepted_ms: int
    granted: int
    model: str
    priority: PriorityClass = PriorityClass.INTERACTIVE
    gateway: str | None = None
    no_reader_ms: int | None = None
    cancelled: bool = False
    shaped: bool = False
    policy: PinnedPolicy | None = None
    told: str = ""


class Enqueued(msgspec.Struct, frozen=True):
    """The request's state. `position`: requests before it; `wait_ms`: predicted wait. `created` False: the
    pool knew it. `dest`: the pool a moved request went to."""

    created: bool
    status: RequestStatus
    epoch: int
    head: int
    position: int
    wait_ms: int
    dest: str = ""


class MigratedTo(msgspec.Struct, frozen=True):
    """The pool that a request moved to. `order`: the order for it; None where the source is trusted."""

    pool: str
    order: MigrationOrder | None = None


class ClaimOffer(msgspec.Struct, frozen=True):
    """Room of a worker for new claims: free sequences, free KV tokens, prompt tokens it may prefill; no
    request of a class below `lowest`."""

    fingerprint: str
    slots: int
    kv_tokens: int
    prefill_tokens: int
    lowest: PriorityClass = PriorityClass.BULK


class TenantTerms(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's terms in a pool. `weight` > 0: its share against other tenants with waiting work;
    `slots_max`: running requests; `tokens_max`: KV tokens in flight, None: no cap; `highest`: the highest
    class that its requests get; `reserve_tokens`: KV tokens of the pool that others leave free for it."""

    weight: float = 1.0
    slots_max: int | None = None
    tokens_max: int | None = None
    highest: PriorityClass = PriorityClass.INTERACTIVE
    reserve_tokens: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise ValueError("a tenant's weight is above zero")


class Claim(msgspec.Struct, frozen=True):
    """A request handed to a worker. `ck` fences its appends, `cn` counts its claims; `n`, `o`: tokens and
    log head.

    `raw` and `visible`: code points of the text that are decided, and shown; `claimed_ms`: of the first
    claim; `covered`: tokens whose text was shown; `recomputed_tokens`: computed again because of earlier
    claims, this one's start included; `priority`: the class it runs in, for figures; `phases`: of its life so
    far.
    """

    tenant: str
    id: str
    ck: str
    cn: int
    epoch: int
    n: int
    o: int
    raw: int
    visible: int
    input: bytes
    tokens: bytes
    granted: int
    control: Control
    deaths: int
    claimed_ms: int
    first_token_ms: int
    input_cached: int
    recomputed_tokens: int = 0
    covered: int = 0
    priority: str = ""
    phases: Sequence[Phase] = ()


class ClaimReply(msgspec.Struct, frozen=True):
    """Reply to one claim call. `retry_ms` > 0: a waiting request did not fit; ask again after it. `victims`:
    tenant and id of claims that were ordered to leave for interactive work. `odd`: rows that could not be
    read, which were set aside."""

    claims: list[Claim]
    retry_ms: int
    victims: list[tuple[str, str]] = []
    odd: int = 0


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """One request's part of a flush: `tokens` go after the first `n0`, `entries` after offset `o0`.

    `raw`, `visible`: counters after it. `end`: an encoded UsageEvent; then the last entry is the END entry.
    `input_cached`: prompt tokens found in the engine's cache, kept from the first claim only.
    """

    tenant: str
    id: str
    ck: str
    n0: int
    o0: int
    raw: int
    visible: int
    tokens: bytes = b""
    entries: list[Entry] = []
    input_cached: int | None = None
    end: bytes | None = None


class AppendCode(StrEnum):
    """Result of an Append.

    OK: done; DUP: it had been done; ENDED: the request has ended, by this call or earlier; FENCED: the claim
    is not the caller's any more; GAP: Redis has less than the caller believes, append again from its `n` and
    `o`; MISSING: Redis does not know it.
    """

    OK = "OK"
    DUP = "DUP"
    ENDED = "ENDED"
    FENCED = "FENCED"
    GAP = "GAP"
    MISSING = "MISSING"


class EndedAt(msgspec.Struct, frozen=True):
    """Place of a usage event: the memory of Redis that the stream was in, and its id there."""

    memory: str
    id: str


class Appended(msgspec.Struct, frozen=True):
    """Reply to one Append, with the log's state and the flags set for the owner. `ended`: place of the event,
    after this owner's end."""

    code: AppendCode
    n: int
    o: int
    control: Control
    granted: int
    ended: EndedAt | None = None


class Watermark(msgspec.Struct, frozen=True):
    """The memory that has the `ended` stream now, and the id below which the biller has acknowledged all."""

    memory: str
    below: tuple[int, int]


class ReplayCode(StrEnum):
    """Outcome of an end that is brought back. OPEN: its request goes on; KNOWN: its event is there, or was;
    PUT: it is there again."""

    OPEN = "open"
    KNOWN = "known"
    PUT = "put"


class ReaderView(msgspec.Struct, frozen=True):
    """A request's state as its readers need it. `first`: oldest offset kept, head + 1 where the log is gone.

    `following`: this gateway is registered and gets hints; False: it polls. `dest`: the pool a moved request
    went to, by `order`. `body_hash`: hash of the sender's request; `told`: what the sender was told of it.
    """

    status: RequestStatus
    epoch: int
    head: int
    n: int
    control: Control
    worker: str
    deadline_ms: int
    ended: bool
    first: int
    dest: str
    priority: PriorityClass
    following: bool
    body_hash: str
    order: MigrationOrder
    told: str = ""


class Renewed(msgspec.Struct, frozen=True):
    """Reply to a renewal. `alive` False: not renewed, and other workers have or get the claims. `odd`: flags
    of claims that could not be read, which were set aside."""

    alive: bool
    control: list[tuple[str, str, Control]]
    odd: int = 0


class WorkerView(msgspec.Struct, frozen=True):
    """A registered worker. `lease_ms`: Unix ms at which its lease ends."""

    worker: str
    fingerprint: str
    alive: bool
    lease_ms: int
    claims: int
    info: dict[str, Any]

    def number(self, name: str) -> float | None:
        """One of its facts, from 0 to 2^53; None where it has told none, or one that is no such number."""
        value = self.info.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if 0 <= value <= NUMBER_MAX else None

    def count(self, name: str) -> int | None:
        """The same, whole."""
        value = self.number(name)
        return None if value is None else int(value)


class ExpiredRequest(msgspec.Struct, frozen=True):
    """A request without an owner that must be ended now (engine/lifecycle/finish.py)."""

    tenant: str
    id: str
    reason: str
    code: str


class Reaped(msgspec.Struct, frozen=True):
    """Result of one reap, with what its caller has to end. `moves`: tenant and id of unfinished migrations
    (engine/lifecycle/migration.py); `odd`: entries that could not be read, which were set aside."""

    requeued: int
    expired: list[ExpiredRequest]
    dead_readers: int
    moves: list[tuple[str, str]] = []
    odd: int = 0


class UnownedRequest(msgspec.Struct, frozen=True):
    """The record of a request, for ending it. `covered`: tokens whose text was shown; `priority`: its class,
    for figures; `phases`: of its life so far."""

    status: RequestStatus
    model: str
    fingerprint: str
    head: int
    n: int
    covered: int
    visible: int
    claims: int
    prompt_tokens: int
    input_cached: int
    accepted_ms: int
    deadline_ms: int
    claimed_ms: int
    first_token_ms: int
    recomputed_tokens: int
    input: bytes
    priority: str
    phases: Sequence[Phase] = ()


class Hint(msgspec.Struct, frozen=True):
    """News of one request's log: these entries were appended in this epoch and led to `head`. Never the only
    source. `dest`: the pool to read from now on."""

    pool: str
    tenant: str
    id: str
    entries: list[Entry]
    head: int
    epoch: int
    dest: str = ""
