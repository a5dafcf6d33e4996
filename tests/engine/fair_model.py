"""Whose turn it is in a pool, in plain Python: what the scripts must do, without their pages and bounds.

A tenant with waiting requests of a class is eligible there, by its counter, or blocked by a cap.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.api import PriorityClass, TenantTerms

UNIT = 1000
IDS_MAX = 4
AGED_EVERY = 8


@dataclass
class Item:
    """A request that is in line or runs."""

    tenant: str
    id: str
    class_: PriorityClass
    order: int
    enqueued_ms: int
    prompt: int
    granted: int
    n: int = 0
    claims: int = 0
    held: int = 0
    doomed: bool = False

    @property
    def need(self) -> int:
        """KV tokens that it takes."""
        return self.prompt + max(self.n, self.granted)


@dataclass
class Tenant:
    """One tenant's share, what it was charged, and what it has in flight."""

    terms: TenantTerms = field(default_factory=TenantTerms)
    counter: int = 0
    credit: int = 0
    running: set[str] = field(default_factory=set[str])
    tokens: int = 0

    def exceeds_cap(self, need: int = 1) -> bool:
        """Whether one more request, of so many tokens, is one too many."""
        slots, most = self.terms.slots_max, self.terms.tokens_max
        return (slots is not None and len(self.running) >= slots) or (
            most is not None and self.tokens + need > most
        )


@dataclass(frozen=True)
class Weights:
    """What a prompt token and an output token cost, how far from the least counter a pick may be, and when
    a class is overdue."""

    prompt: float
    output: float
    delta_tokens: int
    ages_ms: dict[PriorityClass, int]


@dataclass
class Room:
    """What a worker can still take."""

    slots: int
    kv_tokens: int
    prefill_tokens: int

    def fits(self, item: Item) -> bool:
        """Whether it can take this one too."""
        return item.need <= self.kv_tokens and self.prefill_tokens > 0

    def take(self, item: Item) -> None:
        """It has been taken."""
        self.slots -= 1
        self.kv_tokens -= item.need
        self.prefill_tokens -= item.prompt + item.n


class FairModel:
    """The line of one pool: who waits, who is eligible, what was served."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.tenants: dict[str, Tenant] = {}
        self.waiting: dict[PriorityClass, dict[str, list[Item]]] = {c: {} for c in PriorityClass}
        self.blocked: dict[PriorityClass, set[str]] = {c: set() for c in PriorityClass}
        self.served: dict[PriorityClass, int] = dict.fromkeys(PriorityClass, 0)
        self.used: dict[PriorityClass, int] = dict.fromkeys(PriorityClass, 0)
        self.unaged = 0
        self.depths: dict[tuple[str, PriorityClass], int] = {}

    def tenant(self, name: str) -> Tenant:
        """The tenant, which is made at its first mention."""
        return self.tenants.setdefault(name, Tenant())

    def eligible(self, class_: PriorityClass) -> dict[str, int]:
        """Tenant -> counter."""
        names = self.waiting[class_].keys() - self.blocked[class_]
        return {name: self.tenant(name).counter for name in sorted(names)}

    def set_terms(self, name: str, terms: TenantTerms) -> None:
        """Weight and caps change for what waits, too."""
        self.tenant(name).terms = terms
        self._block_at_cap(name)
        self._unblock(name)

    def enter(self, item: Item) -> None:
        """Put in line, at its own place."""
        line = self.waiting[item.class_]
        first = item.tenant not in line
        line.setdefault(item.tenant, []).append(item)
        line[item.tenant].sort(key=lambda other: other.order)
        if first and self.tenant(item.tenant).exceeds_cap():
            self.blocked[item.class_].add(item.tenant)
        elif first:
            self._raise(item.tenant, item.class_)

    def leave(self, item: Item) -> None:
        """Out of the line: taken, parked or ended."""
        line = self.waiting[item.class_]
        line[item.tenant].remove(item)
        if not line[item.tenant]:
            del line[item.tenant]
            self.blocked[item.class_].discard(item.tenant)

    def let_go(self, item: Item) -> None:
        """A running one is no longer running."""
        tenant = self.tenant(item.tenant)
        tenant.running.remove(item.id)
        tenant.tokens -= item.held
        self.used[item.class_] -= item.held
        item.held = 0
        self._unblock(item.tenant)

    def append(self, item: Item, tokens: int) -> None:
        """Output is charged as it is logged."""
        item.n += tokens
        if tokens:
            self._charge(item.tenant, self.weights.output * tokens)

    def refund(self, item: Item, cached: int) -> None:
        """Prompt tokens of the first claim that were in the engine's cache."""
        tenant = self.tenant(item.tenant)
        tenant.credit += math.floor(self.weights.prompt * cached * UNIT / tenant.terms.weight)

    def claim(self, worker: str, room: Room, now: int) -> list[Item]:
        """What a worker gets, in order."""
        picks: list[Item] = []
        depths = {c: self.depths.get((worker, c), 0) for c in PriorityClass}
        looked: set[PriorityClass] = set()
        while room.slots > 0:
            choice = next(self._choices(PriorityClass, room, depths, looked), None)
            if choice is None:
                break
            aged = self._aged(choice, room, now, depths, looked) if self.unaged >= AGED_EVERY - 1 else None
            self.unaged = 0 if aged else min(self.unaged + 1, AGED_EVERY - 1)
            self._take(aged or choice, room)
            picks.append(aged or choice)
        for class_ in PriorityClass:
            line = self.waiting[class_]
            deeper = any(len(line[name]) > depths[class_] + IDS_MAX for name in self.eligible(class_))
            more = deeper and class_ in looked and not picks
            self.depths[worker, class_] = depths[class_] + IDS_MAX if more else 0
        return picks

    def _choices(
        self,
        classes: type[PriorityClass] | list[PriorityClass],
        room: Room,
        depths: dict[PriorityClass, int],
        looked: set[PriorityClass],
    ) -> Iterator[Item]:
        """The next of each class that has one."""
        for class_ in classes:
            looked.add(class_)
            if item := self._next_in(class_, room, depths[class_]):
                yield item

    def _aged(
        self,
        choice: Item,
        room: Room,
        now: int,
        depths: dict[PriorityClass, int],
        looked: set[PriorityClass],
    ) -> Item | None:
        """The next of the most overdue class below."""
        order = list(PriorityClass)
        overdue: dict[PriorityClass, float] = {}
        for class_ in order[order.index(choice.class_) + 1 :]:
            heads = [item.enqueued_ms for line in self.waiting[class_].values() for item in line]
            overdue[class_] = (now - min(heads)) / self.weights.ages_ms[class_] if heads else 0
        late = [c for c in sorted(overdue, key=lambda c: -overdue[c]) if overdue[c] > 1]
        return next(self._choices(late, room, depths, looked), None)

    def _next_in(self, class_: PriorityClass, room: Room, depth: int) -> Item | None:
        heads: list[tuple[int, Item]] = []
        for name, counter in self.eligible(class_).items():
            tenant = self.tenant(name)
            near = self.waiting[class_][name][depth : depth + IDS_MAX]
            able = [item for item in near if not item.doomed and not tenant.exceeds_cap(item.need)]
            heads += [(counter, item) for item in able if room.fits(item)][:1]
            stopped = all(not item.doomed and tenant.exceeds_cap(item.need) for item in near)
            if depth == 0 and stopped:
                self.blocked[class_].add(name)
        least = min((counter for counter, _ in heads), default=0) + self.weights.delta_tokens * UNIT
        return min((item for counter, item in heads if counter <= least), key=lambda i: i.order, default=None)

    def _take(self, item: Item, room: Room) -> None:
        tenant = self.tenant(item.tenant)
        self.leave(item)
        room.take(item)
        self.served[item.class_] = max(self.served[item.class_], tenant.counter)
        item.held = item.need
        tenant.running.add(item.id)
        tenant.tokens += item.held
        self.used[item.class_] += item.held
        self._block_at_cap(item.tenant)
        if item.claims == 0:
            self._charge(item.tenant, self.weights.prompt * item.prompt)
        item.claims += 1

    def _charge(self, name: str, cost: float) -> None:
        tenant = self.tenant(name)
        due = math.ceil(cost * UNIT / tenant.terms.weight)
        paid = min(due, tenant.credit)
        tenant.counter += due - paid
        tenant.credit -= paid

    def _raise(self, name: str, class_: PriorityClass) -> None:
        tenant = self.tenant(name)
        if self.served[class_] > tenant.counter:
            tenant.counter, tenant.credit = self.served[class_], 0

    def _block_at_cap(self, name: str) -> None:
        if self.tenant(name).exceeds_cap():
            for class_ in PriorityClass:
                if name in self.waiting[class_]:
                    self.blocked[class_].add(name)

    def _unblock(self, name: str) -> None:
        if not self.tenant(name).exceeds_cap():
            for class_ in PriorityClass:
                if name in self.blocked[class_]:
                    self.blocked[class_].remove(name)
                    self._raise(name, class_)
