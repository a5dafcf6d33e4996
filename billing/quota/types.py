"""Questions to the scripts on a tenant's hash slot keys, and their answers, as typed values."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from billing.limits import UNLIMITED, RequestLimits
from billing.usage import PinnedPrices
from core.errors import Refusal


class AdmissionState(StrEnum):
    """State of an admission. RELEASED: the queue refused the request; it may be sent again."""

    OPEN = "open"
    ENDED = "ended"
    RELEASED = "released"


@dataclass(frozen=True)
class Admission:
    """A request to admit. `input_tokens` is exact; `chunk_tokens` is the output held at first.

    The owner is (project, owner_key, user): another owner who sends the same id gets a conflict. `key`: the
    key of the owner's chain that was used, empty for the owner key itself. `next_prices` hold from
    `next_from_ms` on, by the clock that admits."""

    tenant: str
    id: str
    body_hash: str
    owner_key: str
    project: str
    user: str
    model: str
    pool: str
    fingerprint: str
    input_tokens: int
    chunk_tokens: int
    deadline_ms: int
    prices: PinnedPrices
    now_ms: int = 0
    limits: RequestLimits = UNLIMITED
    key: str = ""
    next_prices: PinnedPrices | None = None
    next_from_ms: int = 0


@dataclass(frozen=True)
class Remaining:
    """Rest of a limit, and the time at which it is whole again (None: never by itself). Money in nano-USD."""

    limit: int
    remaining: int
    resets_at_ms: int | None


@dataclass(frozen=True)
class LeastRemaining:
    """The enforced limits of a request with the least left, one of each kind; None: there is none."""

    requests: Remaining | None = None
    tokens: Remaining | None = None
    budget: Remaining | None = None


@dataclass(frozen=True)
class LimitUse:
    """A limit and its use. `dimension`: a policy's, a budget's period, or `wallet`.

    `spent` is money spent, units taken that have not flowed back (rates), or open requests (concurrency);
    `held`: money held by open requests. `known`: False where nothing was counted since Redis was empty."""

    scope: str
    scope_id: str
    model_glob: str
    dimension: str
    shadow: bool
    hard: bool
    limit: int
    burst: int | None
    spent: int
    held: int
    remaining: int
    resets_at_ms: int | None
    known: bool = True


@dataclass(frozen=True)
class Admitted:
    """Binding of an admitted request. `cancelled`: a cancel came first, end it with zero usage. `shadowed`:
    refusals that limits in shadow mode would have given.

    `dup` says that an admission existed, not that the request reached the queue: its gateway may have died
    between. While `state` is open, enqueue it all the same, which creates or returns."""

    dup: bool
    pool: str
    fingerprint: str
    price_version: int
    prices: PinnedPrices
    cancelled: bool
    granted: int
    state: AdmissionState
    standing: LeastRemaining = LeastRemaining()
    shadowed: Sequence[Refusal] = ()


@dataclass(frozen=True)
class DirectoryEntry:
    """Record of a request in the tenant's keys: its binding, owner (project, key, user) and state."""

    tenant: str
    id: str
    body_hash: str
    pool: str
    fingerprint: str
    prices: PinnedPrices
    project: str
    key: str
    user: str
    model: str
    input_tokens: int
    granted: int
    deadline_ms: int
    admitted_ms: int
    cancelled: bool
    state: AdmissionState
    cost_nano: int | None


@dataclass(frozen=True)
class AllowanceExtension:
    """Answer to `extend`: at most `granted` output tokens may be appended so far.

    `wait_ms`: others hold the money, ask again after it. `refusal`: no more will be granted."""

    granted: int
    wait_ms: int | None = None
    refusal: Refusal | None = None


Settled = Literal["settled", "dup", "unknown"]


@dataclass(frozen=True)
class Canceller:
    """Owner of the requests that a cancel may stop before they come: a key or a user in a project; empty: any
    owner."""

    project: str = ""
    key: str = ""
    user: str = ""

    @property
    def member(self) -> str:
        """The member that admit.lua looks for in the mark."""
        if self.user:
            return f"u:{self.project}:{self.user}"
        return f"k:{self.project}:{self.key}" if self.key else "*"


@dataclass(frozen=True)
class PostedSums:
    """Sums of all settled requests of a tenant since Redis was empty."""

    cost_nano: int
    input: int
    output: int
    requests: int


@dataclass(frozen=True)
class MoneySum:
    """One count of money in Redis. `posted_nano`: in the books; `unbooked_nano`: ended, not in them yet;
    `held_nano`: held by `open` requests. `seed_seq`: the line of the books as of which it was seeded."""

    scope: str
    scope_id: str
    period: str
    window_start_ms: int
    window_end_ms: int
    shadow: bool
    seed_seq: int | None
    posted_nano: int
    unbooked_nano: int
    held_nano: int
    open: int


@dataclass(frozen=True)
class Hold:
    """An open request: its pool, its times, and the money that it holds in each of its limits."""

    id: str
    pool: str
    admitted_ms: int
    deadline_ms: int
    held_nano: int
