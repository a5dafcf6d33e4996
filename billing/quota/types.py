"""What is said to the scripts of the tenant's hash slot keys, and what they answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from billing.limits import UNLIMITED, RequestLimits
from billing.usage import PinnedPrices
from core.errors import Refusal


class AdmissionState(StrEnum):
    """Where a request stands with its tenant. `released`: the queue refused it, it may come again."""

    OPEN = "open"
    ENDED = "ended"
    RELEASED = "released"


@dataclass(frozen=True)
class Admission:
    """One request that wants in. `input_tokens` is exact; `chunk_tokens` is the output held at first.

    The owner is (project, owner_key, user): another owner who sends the same id meets a conflict. `key`: the
    one of the owner's chain that was used, empty for the owner's own name. `next_prices` hold from
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
    """How much of a limit is left, and when it is whole again (None: never by itself). Money in nano-USD."""

    limit: int
    remaining: int
    resets_at_ms: int | None


@dataclass(frozen=True)
class LeastRemaining:
    """Of the enforced limits that applied to a request, those with the least left; None: there is none."""

    requests: Remaining | None = None
    tokens: Remaining | None = None
    budget: Remaining | None = None


@dataclass(frozen=True)
class LimitUse:
    """One limit and how much of it is used. `dimension`: a policy's, a budget's period, or `wallet`.

    `spent` is what was spent (money), taken and not yet flown back (rates) or is open (concurrency); `held`
    what open requests hold of money. `known`: False where nothing was counted since Redis was empty."""

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
    """What the request is bound to. `cancelled`: a cancel came first, end it with zero usage. `shadowed`:
    what limits in shadow mode would have answered.

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
    """What the tenant's keys have of a request: its binding, owner (project, key, user) and state."""

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
    """The answer to `extend`: at most `granted` output tokens may be appended so far.

    `wait_ms`: other holds are open, ask again after it. `refusal`: no more will be granted."""

    granted: int
    wait_ms: int | None = None
    refusal: Refusal | None = None


Settled = Literal["settled", "dup", "unknown"]


@dataclass(frozen=True)
class Canceller:
    """Whose requests a cancel may stop before they come: a key's or a user's in a project, else anyone's."""

    project: str = ""
    key: str = ""
    user: str = ""

    @property
    def member(self) -> str:
        """As admit.lua looks for it."""
        if self.user:
            return f"u:{self.project}:{self.user}"
        return f"k:{self.project}:{self.key}" if self.key else "*"


@dataclass(frozen=True)
class PostedSums:
    """What all settled requests of a tenant came to since Redis was empty."""

    cost_nano: int
    input: int
    output: int
    requests: int


@dataclass(frozen=True)
class MoneySum:
    """One count of money in Redis. `posted_nano`: in the books; `unbooked_nano`: ended, not yet in them;
    `held_nano`: what `open` requests hold. `seed_seq`: the line of the books that it was read at."""

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
    """An open request: where it is bound, since when, and the money that it holds of each of its limits."""

    id: str
    pool: str
    admitted_ms: int
    deadline_ms: int
    held_nano: int
