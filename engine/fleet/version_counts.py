"""From what runs of a pool's versions to how many workers of each it should have, and when the next version
takes over. Pure.

New workers come one at a time: beside those that serve where there is room for one more, else in the place of
one of them. At half of the pool new requests go to the new version, and the rest is replaced. An old version
keeps its last worker while requests pin it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.clock import iso_time
from engine.fleet.observed import NextWorkerFit, PinnedRequests, VersionWorkers

LINGER_MS = 6_000  # gateways route by what they read up to 2 s ago, and are told of a switch at once
NONE = VersionWorkers()


@dataclass(frozen=True)
class VersionFacts:
    """One pool at its supervisor on this machine. `desired` workers are wanted on all nodes, `here` of them
    on this one, and there is room for `surge` more; `workers`: by version; `ready`: by version, on all
    nodes; `is_fresh`: no supervisor runs yet."""

    pool: str
    model: str
    in_use: str
    next: str
    desired: int
    here: int
    surge: int
    workers: Mapping[str, VersionWorkers]
    ready: Mapping[str, int]
    pinned: Mapping[str, PinnedRequests] = field(default_factory=dict[str, PinnedRequests])
    fit: NextWorkerFit = field(default_factory=NextWorkerFit)
    accept_gap: bool = False
    old_until_ms: int = 0
    start_seconds: float = 0.0
    is_fresh: bool = False
    now_ms: int = 0

    def of(self, version: str) -> VersionWorkers:
        """Its workers."""
        return self.workers.get(version, NONE)

    def is_held(self, version: str) -> bool:
        """True where an old version needs a worker: requests pin it, or may do so in a moment, and their time
        is not over."""
        if 0 < self.old_until_ms <= self.now_ms:
            return False
        pinned = self.pinned.get(version)
        if pinned is not None and pinned.requests:
            return True
        told = self.of(version).told
        since_ms = pinned.none_since_ms if pinned is not None else 0
        return told > 0 and (not since_ms or self.now_ms - since_ms < LINGER_MS)


@dataclass(frozen=True)
class VersionCounts:
    """How many workers of each version there should be. `switch`: the next version takes over now; `why`:
    what is not as it should be yet; `awaits`: the version in use gets its first worker once an old one has
    left its place."""

    counts: Mapping[str, int]
    switch: bool = False
    why: str = ""
    awaits: bool = False


def version_counts(facts: VersionFacts) -> VersionCounts:
    """How many workers of each version there should be now."""
    if facts.next and facts.next != facts.in_use:
        return _prepare(facts)
    return _replace(facts)


def needed_ready(facts: VersionFacts) -> int:
    """How many workers of the next version must be ready before it takes over: half of the pool, so that none
    of it is idle for long, and of it no more than may run here."""
    return min((facts.desired + 1) // 2, max(1, facts.here))


def _prepare(facts: VersionFacts) -> VersionCounts:
    """Make workers of the next version ready while the one in use serves."""
    new, old = facts.of(facts.next), facts.of(facts.in_use)
    if not facts.desired:
        return VersionCounts({}, switch=True)
    if not facts.here:
        return VersionCounts({}, why=f"version {facts.next} waits: {_no_place(facts)}")
    if facts.is_fresh:
        return VersionCounts(_replace(facts).counts)
    others = {each: 1 for each in _held(facts) if each != facts.next and facts.of(each).told}
    if facts.ready.get(facts.next, 0) >= needed_ready(facts):
        return VersionCounts(_as_told(facts), switch=True)
    surge = 0 if facts.fit.beside and not new.told else facts.surge
    places = facts.here + surge - len(others)
    if places < 2:
        return _one_place(facts)
    if facts.fit.instead and not (new.told or surge):
        return VersionCounts({facts.in_use: facts.here, **others}, why=_unfit(facts, facts.fit.instead))
    more = min(new.told + (new.ready >= new.told), needed_ready(facts))
    less = max(1, min(facts.here, places - more))
    if less < old.told and old.ready < old.told and not old.fault:
        less = min(old.told, facts.here)
    counts = {facts.in_use: less, facts.next: min(more, max(0, places - less)), **others}
    return VersionCounts(_without_none(counts), why=_preparing(facts))


def _one_place(facts: VersionFacts) -> VersionCounts:
    """One worker, and no room for a second: the next version can only follow it."""
    counts = _replace(facts).counts
    if facts.fit.instead:
        return VersionCounts(counts, why=_unfit(facts, facts.fit.instead))
    if facts.accept_gap:
        return VersionCounts(counts, switch=True)
    seconds = f"about {facts.start_seconds:.0f} s" if facts.start_seconds else "as long as a worker starts"
    room = facts.fit.beside or "this machine has no room for a second worker"
    why = (
        f"version {facts.next} waits: {room}, so nobody would serve for {seconds}: make room, or accept it: "
        f"`parley models use {facts.model} {facts.next} --pool {facts.pool} --accept-gap`"
    )
    return VersionCounts(counts, why=why)


def _replace(facts: VersionFacts) -> VersionCounts:
    """Make all workers those of the version in use, and let each old version's last one go when it may."""
    olds, new = _olds(facts), facts.of(facts.in_use)
    held = _held(facts) if facts.here else []
    if not held:
        drains = any(facts.of(each).indexes for each in olds)
        why = f"workers of version {_named(olds)} go: its workers drain" if drains else ""
        counts = _without_none({facts.in_use: facts.here})
        return VersionCounts(counts, why=why, awaits=bool(counts) and drains and not new.told)
    places = facts.here + facts.surge
    told = sum(facts.of(each).told for each in held)
    if places == 1:
        return _last_place(facts, held)
    held = held[: places - 1]
    more = facts.here if facts.is_fresh else new.told + (new.ready >= new.told)
    more = max(1, min(facts.here, max(more, places - told), places - len(held)))
    counts, left = {facts.in_use: more}, places - more
    for at, each in enumerate(held):
        still_to_come = len(held) - at - 1
        counts[each] = max(1, min(facts.of(each).told, left - still_to_come))
        left -= counts[each]
    return VersionCounts(counts, why=_pinned(facts, counts))


def _last_place(facts: VersionFacts, held: list[str]) -> VersionCounts:
    """One place: an old version that still has it keeps it while requests pin it; it never gets it back."""
    running = [each for each in held if facts.of(each).told]
    if facts.of(facts.in_use).told or not running:
        return VersionCounts({facts.in_use: facts.here}, why=_pinned(facts, {}))
    counts = {running[0]: 1}
    return VersionCounts(counts, why=_pinned(facts, counts), awaits=True)


def _held(facts: VersionFacts) -> list[str]:
    """Old versions that need a worker: those that run, and one that does not once the others are ready."""
    held = [each for each in _olds(facts) if facts.is_held(each)]
    running = [each for each in held if facts.of(each).told]
    waits = any(of.ready < of.told and not of.fault for of in map(facts.of, running))
    more = [each for each in held if each not in running]
    return held if facts.is_fresh else running + ([] if waits else more[:1])


def _olds(facts: VersionFacts) -> list[str]:
    """Versions that are not in use and have workers or requests, those that run first."""
    names = {each for each, of in facts.workers.items() if of.told or of.indexes}
    names |= {each for each, of in facts.pinned.items() if of.requests}
    return sorted(names - {facts.in_use}, key=lambda each: (-facts.of(each).told, each))


def _as_told(facts: VersionFacts) -> dict[str, int]:
    return {each: of.told for each, of in facts.workers.items() if of.told}


def _without_none(counts: Mapping[str, int]) -> dict[str, int]:
    return {each: count for each, count in counts.items() if count}


def _preparing(facts: VersionFacts) -> str:
    new = facts.of(facts.next)
    if new.fault:
        return (
            f"version {facts.next} does not start, {facts.in_use} goes on: {new.fault}; "
            f"`parley models use {facts.model} {facts.in_use} --pool {facts.pool}` undoes it"
        )
    ready, needed = facts.ready.get(facts.next, 0), needed_ready(facts)
    return f"version {facts.next} comes after {facts.in_use}: {ready} of its first {needed} workers are ready"


def _pinned(facts: VersionFacts, counts: Mapping[str, int]) -> str:
    """Each old version's workers and requests, and until when."""
    told = list[str]()
    for each in _olds(facts):
        pinned = facts.pinned.get(each, PinnedRequests(0))
        workers = f"version {each}: {_count(counts.get(each, 0), 'worker')}"
        if not pinned.requests:
            told.append(f"{workers}, {pinned.why or 'no request pins it'}")
        else:
            verb = "pins" if pinned.requests == 1 else "pin"
            ends_ms = min(pinned.until_ms, facts.old_until_ms or pinned.until_ms)
            until = f", at most until {iso_time(ends_ms)}" if ends_ms else ""
            told.append(f"{workers}, {_count(pinned.requests, 'request')} {verb} it{until}")
    fault = facts.of(facts.in_use).fault
    return "; ".join([*told, f"version {facts.in_use}: {fault}"] if fault else told)


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _unfit(facts: VersionFacts, why: str) -> str:
    return f"version {facts.next} does not fit, {facts.in_use} goes on: {why}"


def _no_place(facts: VersionFacts) -> str:
    return f"no worker of pool {facts.pool} may run on this machine now"


def _named(versions: list[str]) -> str:
    return ", ".join(versions)
