"""Whose turn it is in a pool, in plain Python: what the scripts must do, without their pages and bounds.

A tenant with waiting requests of a class is eligible there, by its counter, or blocked by a cap.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.api import Control, PriorityClass, TenantTerms

UNIT = 1000
IDS_MAX = 4
AGED_EVERY = 8
LARGE_PREFILLS_MAX = 2
PREEMPTS_MAX = 3
PREEMPT_AFTER_MS = 2_000
SUSPECT_DEATHS = 2
Interactive = PriorityClass.INTERACTIVE
NONE = Control(0)


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
    large: bool = False
    worker: str = ""
    taken_ms: int = 0
    fresh: bool = False
    preempts: int = 0
    control: Control = NONE
    warm: str = ""
    warm_until: int = 0
    deaths: int = 0
    crowd: int = 0

    @property
    def need(self) -> int:
        """KV tokens that it takes."""
        return self.prompt + max(self.n, self.granted)

    @property
    def share(self) -> float:
        """How many that have logged nothing yet may be at the worker that takes it: half of those that it
        last died among, where it is a suspect."""
        return math.inf if self.deaths < SUSPECT_DEATHS else max(1, math.ceil(self.crowd / 2))


@dataclass
class FairTenant:
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
    """What a worker can still take. `share`: its part of the pool's KV; `alive`: the workers with a lease."""

    worker: str
    slots: int
    kv_tokens: int
    prefill_tokens: int
    now: int
    share: float = 1.0
    alive: frozenset[str] = frozenset()
    large: int = LARGE_PREFILLS_MAX
    wanted: float = math.inf
    fresh: int = 0
    trial: float = math.inf

    def keeps_warm(self, item: Item) -> bool:
        """Whether another worker, with its tokens cached, may still come for it."""
        return item.warm not in ("", self.worker) and item.warm_until > self.now and item.warm in self.alive

    def take(self, item: Item) -> None:
        """It has been taken."""
        self.slots -= 1
        self.fresh += 1
        self.trial = min(self.trial, item.share)
        self.large -= item.large
        self.kv_tokens -= item.need
        self.prefill_tokens -= item.prompt + item.n


@dataclass
class Scan:
    """One claim call: the room there is, how deep each line is read, and which hide more behind that."""

    room: Room
    depths: dict[PriorityClass, int]
    deeper: set[PriorityClass] = field(default_factory=set[PriorityClass])


class FairModel:
    """The line of one pool: who waits, who is eligible, what was served."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.tenants: dict[str, FairTenant] = {}
        self.waiting: dict[PriorityClass, dict[str, list[Item]]] = {c: {} for c in PriorityClass}
        self.blocked: dict[PriorityClass, set[str]] = {c: set() for c in PriorityClass}
        self.served: dict[PriorityClass, int] = dict.fromkeys(PriorityClass, 0)
        self.used: dict[PriorityClass, int] = dict.fromkeys(PriorityClass, 0)
        self.reserves: dict[PriorityClass, int] = dict.fromkeys(PriorityClass, 0)
        self.running: list[Item] = []
        self.unaged = 0
        self.depths: dict[tuple[str, PriorityClass], int] = {}

    def tenant(self, name: str) -> FairTenant:
        """The tenant, which is made at its first mention."""
        return self.tenants.setdefault(name, FairTenant())

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

    def drop_hold(self, item: Item) -> None:
        """A running one is no longer running."""
        tenant = self.tenant(item.tenant)
        self.running.remove(item)
        item.control &= Control.CANCEL
        tenant.running.remove(item.id)
        tenant.tokens -= item.held
        self.used[item.class_] -= item.held
        item.held = 0
        self._unblock(item.tenant)

    def append(self, item: Item, tokens: int) -> None:
        """Output is charged as it is logged."""
        item.n += tokens
        item.fresh = item.fresh and not tokens
        if tokens:
            self._charge(item.tenant, self.weights.output * tokens)

    def refund(self, item: Item, cached: int) -> None:
        """Prompt tokens of the first claim that were in the engine's cache."""
        tenant = self.tenant(item.tenant)
        tenant.credit += math.floor(self.weights.prompt * cached * UNIT / tenant.terms.weight)

    def claim(self, room: Room) -> tuple[list[Item], list[Item]]:
        """What a worker gets, in order, and what it is to give back."""
        picks: list[Item] = []
        fresh = [item for item in self.running if item.worker == room.worker and item.fresh]
        room.fresh, room.trial = len(fresh), min((item.share for item in fresh), default=math.inf)
        if room.fresh >= room.trial:
            return [], []
        scan = Scan(room, {c: self.depths.get((room.worker, c), 0) for c in PriorityClass})
        room.large -= sum(item.large and item.fresh for item in self.running if item.worker == room.worker)
        victims: list[Item] | None = None
        if room.slots == 0:
            victims, _ = self._make_room(scan, 0, int(any(self._choices([Interactive], scan))))
            return [], victims
        while room.slots > 0 and room.fresh < room.trial:
            choice = next(self._choices(list(PriorityClass), scan), None)
            if victims is None and (choice is None or choice.class_ is not Interactive):
                victims, coming = self._make_room(scan, room.wanted - room.kv_tokens, 0)
                if coming:
                    break
            if choice is None:
                break
            aged = self._aged(choice, scan) if self.unaged >= AGED_EVERY - 1 else None
            self.unaged = 0 if aged else min(self.unaged + 1, AGED_EVERY - 1)
            self._take(aged or choice, room)
            picks.append(aged or choice)
        for class_ in PriorityClass:
            on = class_ in scan.deeper and not picks
            self.depths[room.worker, class_] = scan.depths[class_] + IDS_MAX if on else 0
        return picks, victims or []

    def _make_room(self, scan: Scan, tokens: float, slots: int) -> tuple[list[Item], bool]:
        """Lower work that leaves for interactive work, and whether there will be room by that."""
        if slots == 0 and tokens == math.inf:
            return [], False
        here = [item for item in self.running if item.worker == scan.room.worker]
        leaving = [item for item in here if item.control]
        tokens -= sum(item.held for item in leaving)
        slots -= len(leaving)
        order = list(PriorityClass)
        able = [item for item in here if not item.control and item.class_ is not Interactive]
        able = [item for item in able if item.preempts < PREEMPTS_MAX]
        able = [item for item in able if item.taken_ms <= scan.room.now - PREEMPT_AFTER_MS]
        able.sort(key=lambda item: (-order.index(item.class_), item.prompt + item.n, item.id))
        victims: list[Item] = []
        for item in able:
            if tokens > 0 or slots > 0:
                victims.append(item)
                tokens, slots = tokens - item.held, slots - 1
        if tokens > 0 or slots > 0:
            return [], False
        for item in victims:
            item.control = Control.PREEMPT
        return victims, True

    def _choices(self, classes: list[PriorityClass], scan: Scan) -> Iterator[Item]:
        """The next of each class that has one."""
        for class_ in classes:
            if item := self._next_in(class_, scan):
                yield item

    def _aged(self, choice: Item, scan: Scan) -> Item | None:
        """The next of the most overdue class below."""
        order = list(PriorityClass)
        overdue: dict[PriorityClass, float] = {}
        for class_ in order[order.index(choice.class_) + 1 :]:
            heads = [item.enqueued_ms for line in self.waiting[class_].values() for item in line]
            age = self.weights.ages_ms[class_]
            overdue[class_] = (scan.room.now - min(heads)) / age if heads else 0
        late = [c for c in sorted(overdue, key=lambda c: -overdue[c]) if overdue[c] > 1]
        return next(self._choices(late, scan), None)

    def _lanes(self, class_: PriorityClass, name: str) -> list[list[Item]]:
        line = self.waiting[class_][name]
        return [[item for item in line if item.large is large] for large in (False, True)]

    def _next_in(self, class_: PriorityClass, scan: Scan) -> Item | None:
        heads: list[tuple[int, Item]] = []
        depth = scan.depths[class_]
        for name, counter in self.eligible(class_).items():
            near = [item for lane in self._lanes(class_, name) for item in lane[depth : depth + IDS_MAX]]
            verdicts = {item.id: self._verdict(item, scan) for item in near}
            able = [item for item in near if not verdicts[item.id]]
            heads += [(counter, min(able, key=lambda item: item.order))] if able else []
            if depth == 0 and set(verdicts.values()) == {"cap"}:
                self.blocked[class_].add(name)
            elif not able and any(len(lane) > depth + IDS_MAX for lane in self._lanes(class_, name)):
                scan.deeper.add(class_)
        least = min((counter for counter, _ in heads), default=0) + self.weights.delta_tokens * UNIT
        return min((item for counter, item in heads if counter <= least), key=lambda i: i.order, default=None)

    def _verdict(self, item: Item, scan: Scan) -> str:
        """Why it cannot be taken; the first verdict stands while its tenant is not served."""
        room = scan.room
        if item.doomed or room.keeps_warm(item):
            return "other"
        if self.tenant(item.tenant).exceeds_cap(item.need):
            return "cap"
        kept = self._kept_from(item, room.share)
        if item.need > room.kv_tokens - kept:
            if item.class_ is Interactive:
                room.wanted = min(room.wanted, item.need + kept)
            return "room"
        full = room.prefill_tokens <= 0 or (item.large and room.large <= 0) or room.fresh >= item.share
        return "room" if full else ""

    def _kept_from(self, item: Item, share: float) -> float:
        """KV of this worker that higher classes, and other tenants, have reserved and do not use."""
        order = list(PriorityClass)
        kept = sum(max(0, self.reserves[c] - self.used[c]) for c in order[: order.index(item.class_)])
        others = [tenant for name, tenant in self.tenants.items() if name != item.tenant]
        return (kept + sum(max(0, t.terms.reserve_tokens - t.tokens) for t in others)) * share

    def _take(self, item: Item, room: Room) -> None:
        tenant = self.tenant(item.tenant)
        self.leave(item)
        room.take(item)
        self.served[item.class_] = max(self.served[item.class_], tenant.counter)
        item.held = item.need
        item.worker, item.taken_ms, item.fresh = room.worker, room.now, True
        self.running.append(item)
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
