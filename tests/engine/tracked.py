"""A request as its test knows it: its state, its owner, and all that was ever committed to it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.api import Claim, RequestStatus
from engine.queue.types import Append
from tests.engine.builders import append_to, end_entry, text, usage_event
from tests.engine.fair_model import Item

DEATHS_MAX = 4


@dataclass
class Tracked:
    """What a request should be."""

    item: Item
    status: RequestStatus = RequestStatus.QUEUED
    o: int = 1
    text: str = ""
    worker: str = ""
    cancelled: bool = False
    refunded: bool = False
    epoch: int = 1
    incarnation: int = 0
    asked_to_park: bool = False
    claim: Claim | None = None
    dead: list[Claim] = field(default_factory=list[Claim])
    made: list[Append] = field(default_factory=list[Append])

    @property
    def tenant(self) -> str:
        return self.item.tenant

    @property
    def id(self) -> str:
        return self.item.id

    @property
    def ids(self) -> range:
        """The token ids are their own positions."""
        return range(self.item.n)

    def expire_now(self) -> None:
        """No worker may have it any more, where that is so."""
        over = self.item.deaths >= DEATHS_MAX and self.item.crowd <= 1
        self.item.doomed = self.cancelled or over

    def renew_epoch(self, incarnation: int) -> None:
        """Nobody confirmed it since Redis started anew."""
        self.epoch += self.incarnation != incarnation
        self.incarnation = incarnation

    def lose_owner(self, crowd: int = 0) -> None:
        """Its owner gave it up, or died with so many that had logged nothing."""
        assert self.claim is not None
        self.dead.append(self.claim)
        self.claim, self.worker, self.asked_to_park = None, "", False
        if crowd:
            self.item.deaths += 1
            self.item.crowd = crowd
        self.expire_now()

    def next_append(self, count: int, x: str, end: bool = False, cached: int | None = None) -> Append:
        """What its owner appends next: so many tokens, which show `x`."""
        assert self.claim is not None
        n, shown = len(self.ids) + count, len(self.text) + len(x)
        entries = [text(self.o + 1, x, len(self.text), n)] if x else []
        if end:
            entries.append(end_entry(self.o + 1 + len(entries), n))
        return append_to(
            self.claim,
            ids=tuple(range(len(self.ids), n)),
            n0=len(self.ids),
            o0=self.o,
            entries=entries,
            raw=shown,
            visible=shown,
            input_cached=cached,
            end=usage_event(self.tenant, self.id) if end else None,
        )


def some(*statuses: RequestStatus) -> Callable[[Any], bool]:
    """A precondition: a request is in one of these states."""
    return lambda machine: any(m.status in statuses for m in machine.requests)


def crowd_at(worker: str, held: Iterable[Tracked]) -> int:
    """How many die together there: those that have logged nothing yet."""
    return max(1, sum(m.item.fresh for m in held if m.worker == worker))


def held_at(worker: str, running: Iterable[Tracked]) -> dict[str, set[str]]:
    """What the pool must have as held by a worker: all, those that have logged nothing yet, the suspects."""
    here = [m for m in running if m.worker == worker]
    fresh = [m for m in here if m.item.fresh]
    suspects = [m for m in fresh if m.item.share < math.inf]
    sets = {"claims": here, "fresh": fresh, "suspects": suspects}
    return {f"{name}:{worker}": {f"{m.tenant}:{m.id}" for m in held} for name, held in sets.items()}
