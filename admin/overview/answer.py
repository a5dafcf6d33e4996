"""What the overview says: a sentence, remedies, numbers. Names and order are those of the page."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

Series = Annotated[
    list[float | None], Meta(description="A value a minute, oldest first; null: nothing was counted.")
]
Share = Annotated[float, Meta(description="From 0 to 1.")]
Why = Annotated[str, Meta(description="Why it is so, or why nobody knows; else empty.")]
Command = Annotated[str, Meta(description="The command that goes on; empty: none does.")]


class VerdictState(StrEnum):
    """How the platform does. UNKNOWN: it cannot be read."""

    WELL = "well"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


class WorkerCellState(StrEnum):
    """How a worker does. SLOW: its step takes far longer than it should; LOST: it ended, hangs or its GPU is
    sick."""

    SERVING = "serving"
    SLOW = "slow"
    STARTING = "starting"
    DRAINING = "draining"
    LOST = "lost"


class OverviewLightState(StrEnum):
    """What a check of the books says. UNKNOWN: it cannot be judged yet, or there is nothing to compare."""

    EQUAL = "equal"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


class EventState(StrEnum):
    """Whether something that happened is good, bad or neither."""

    INFO = "info"
    WELL = "well"
    WARN = "warn"
    BAD = "bad"


class RemedyAction(StrEnum):
    """What the page offers for a remedy. NONE: only the command."""

    MOVE_TENANT = "move_tenant"
    THROTTLE = "throttle"
    RESIZE = "resize"
    WORKERS = "workers"
    RECONCILE = "reconcile"
    QUARANTINE = "quarantine"
    NONE = "none"


class OverviewVerdict(msgspec.Struct, frozen=True):
    """Is all well? `text`: in a sentence; `detail`: what else matters now."""

    state: VerdictState
    text: str
    detail: str


class RemedyTarget(msgspec.Struct, frozen=True):
    """What a remedy acts on. Null: nothing of that kind."""

    pool: str | None = None
    tenant: str | None = None
    to: str | None = None


class OverviewRemedy(msgspec.Struct, frozen=True):
    """What would help. `lead`: in a few words; `text`: what comes of it."""

    lead: str
    text: str
    action: RemedyAction
    target: RemedyTarget
    command: Command


class RunningNumber(msgspec.Struct, frozen=True):
    """Requests that run, of so many that could."""

    value: int
    of: int
    series: Series


class OutputNumber(msgspec.Struct, frozen=True):
    """Output tokens a second."""

    tokens_per_second: float | None
    series: Series


class LatencyNumber(msgspec.Struct, frozen=True):
    """Percentiles of the last minutes in seconds; null: nothing was measured. `series`: the p95."""

    p50: float | None
    p95: float | None
    p99: float | None
    series: Series


class ErrorNumber(msgspec.Struct, frozen=True):
    """Requests that ended by a fault of the platform, of all that ended in the last hour."""

    share: Share | None
    count: int | None
    of: int | None
    series: Series


class UnbilledNumber(msgspec.Struct, frozen=True):
    """What ended and is not in the books yet. `seconds`: for how long the oldest waits for the biller;
    `quarantined`: events that wait for a decision."""

    seconds: float | None
    ended_unread: int | None
    quarantined: int
    series: Series


class OverviewStrip(msgspec.Struct, frozen=True):
    """Six numbers with their last hour. Null: nobody has measured it, or it is not for this reader."""

    running: RunningNumber | None
    output: OutputNumber | None
    first_token: LatencyNumber | None
    between_tokens: LatencyNumber | None
    errors: ErrorNumber | None
    unbilled: UnbilledNumber


class WorkerCell(msgspec.Struct, frozen=True):
    """A worker. Null: it has not said."""

    worker: str
    node: str
    state: WorkerCellState
    kv: Share | None
    step_age_ms: int | None
    running: int
    slots: int | None
    why: Why


class OverviewPool(msgspec.Struct, frozen=True):
    """A pool. `tenants`: those whom it is dedicated to; `kv`: the mean of its workers."""

    pool: str
    model: str
    shared: bool
    tenants: list[str]
    running: int
    slots: int
    kv: Share | None
    waiting: int
    workers: list[WorkerCell]
    why: Why


class WaitingClass(msgspec.Struct, frozen=True):
    """What waits in a class, in all pools. `oldest_seconds`: for how long its oldest request does;
    `next_seconds`: until the next one is taken, as the pool with it has been taking them lately."""

    name: str = msgspec.field(name="class")
    waiting: int = 0
    oldest_seconds: float | None = None
    next_seconds: float | None = None


class LoadSeries(msgspec.Struct, frozen=True):
    """The last hour, a value a minute. `minutes`: when each began; `slots`: what could run at once."""

    minutes: list[str]
    running: Series
    waiting: Series
    slots: Series


class OverviewLight(msgspec.Struct, frozen=True):
    """One check of the books. `difference`: the oldest one, with its unit; `age_seconds`: since it was
    compared, null: never."""

    check: str
    title: str
    state: OverviewLightState
    difference: str
    age_seconds: int | None
    why: Why
    command: Command


class OverviewEvent(msgspec.Struct, frozen=True):
    """Something that happened, and who did it."""

    at: str | None
    state: EventState
    text: str
    by: str


class Overview(msgspec.Struct, frozen=True):
    """The platform at a glance. Lists are empty for readers whom they are not for."""

    at: str | None
    verdict: OverviewVerdict
    remedies: list[OverviewRemedy]
    strip: OverviewStrip
    pools: list[OverviewPool]
    waiting: list[WaitingClass]
    load: LoadSeries | None
    books: list[OverviewLight]
    happened: list[OverviewEvent]
