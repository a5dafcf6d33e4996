"""What a worker's core has decided that its shell does: to the engine, to Redis, to the log. Pure."""

from dataclasses import dataclass, field

from billing.usage import UsageEvent
from engine.backends.base import Generation
from engine.queue.types import Claim, ReleaseWhy
from engine.worker.allowances import AllowanceRequest
from engine.worker.claimed_request import ClaimedRequest


@dataclass
class WorkerCalls:
    """Calls to make now: generations to start, engine ids to abort, requests to give back (tenant, id, ck,
    why), usage to settle, allowances to ask for, parked requests (tenant, id) that may come back, and
    unreadable claims to end, each with the reason. `unfiltered`: answers that end because their filter
    failed, each with the reason, to be told. `load`: hashes of safety policies that claims wait for.
    `opened`: claims that are in hand now, to be counted."""

    submit: list[Generation] = field(default_factory=list[Generation])
    abort: list[str] = field(default_factory=list[str])
    release: list[tuple[str, str, str, ReleaseWhy]] = field(
        default_factory=list[tuple[str, str, str, ReleaseWhy]]
    )
    settle: list[UsageEvent] = field(default_factory=list[UsageEvent])
    extend: list[AllowanceRequest] = field(default_factory=list[AllowanceRequest])
    unpark: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    unreadable: list[tuple[Claim, str]] = field(default_factory=list[tuple[Claim, str]])
    unfiltered: list[tuple[Claim, str]] = field(default_factory=list[tuple[Claim, str]])
    load: list[str] = field(default_factory=list[str])
    opened: list[ClaimedRequest] = field(default_factory=list[ClaimedRequest])
