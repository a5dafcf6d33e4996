"""A controller's hands on one machine: a leashed supervisor a pool, and orders to supervisors in Redis."""

import asyncio
import os
from asyncio import FIRST_COMPLETED
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import psutil

from billing.pools import DesiredPool, tell_routes
from core.clock import now_ms
from core.configuration.settings import Settings
from core.network.comma_list import split_list
from core.redis.client import RedisClient
from core.redis.members import reading
from core.sql.database import Database
from engine.backends.environment import usable_cpus
from engine.fleet.child_supervisor import ChildSupervisor, lacking_user
from engine.fleet.next_steps import NextStep, StepKind
from engine.fleet.observed import FleetNow, PoolNow, PoolTarget, SupervisorNow, VersionWorkers
from engine.fleet.roll_facts import RollFacts
from engine.gpus import Devices
from engine.node.reports import NodeReport, PoolNodes, WorkerCounts, WorkerProcessState
from engine.queue import redis_keys
from engine.queue.client import PoolQueue

WORKERS_A_CORE = 2
WHY_MAX = 500
FAULTS = (WorkerProcessState.ALARM, WorkerProcessState.SICK)


class LocalHands:
    """The supervisors of this machine. `one_user`: they come in to Redis as this process does."""

    def __init__(self, settings: Settings, db: Database, redis: RedisClient, one_user: bool = False) -> None:
        self._rolls = RollFacts(settings, db, redis)
        self._settings = settings
        self._one_user = one_user
        self._redis = redis
        self._children = dict[str, ChildSupervisor]()
        self._labels = node_labels(settings.node_labels)
        self._room = settings.fleet_workers_max
        self._same = dict[str, dict[str, int]]()

    async def observe(self, wanted: Sequence[PoolTarget]) -> FleetNow:
        """These pools, and those of our children."""
        self._room = self._room or await asyncio.to_thread(room_here)
        for pool in [pool for pool, child in self._children.items() if child.now is None]:
            del self._children[pool]
        targets = {target.pool: target for target in wanted}
        names = sorted({*targets, *self._children})
        seen = await asyncio.gather(*(self._pool(name, targets.get(name)) for name in names))
        return FleetNow(self._settings.node, self._room, self._labels, dict(zip(names, seen, strict=True)))

    async def act(self, step: NextStep, target: DesiredPool | None) -> None:
        """Start or stop a supervisor, or tell one how many workers to run."""
        if step.kind is StepKind.RESIZE:
            same = self._same.get(step.supervisor, {})
            await self._nodes(step.pool).resize(
                step.supervisor, _counts(step, target.version if target else "", same)
            )
        elif step.kind is StepKind.STOP and step.pool in self._children:
            self._children[step.pool].stop()
        elif step.kind is StepKind.START and target is not None:
            child = self._children.get(step.pool)
            if child is None:
                child = ChildSupervisor(self._settings, step.pool, self._number(), self._one_user)
                self._children[step.pool] = child
            await child.start(WorkerCounts(dict(step.versions), step.paid), target.model)

    async def switched(self) -> None:
        """Let gateways read anew which version a pool has in use."""
        await tell_routes(self._redis)

    async def expect(self, target: PoolTarget) -> None:
        """Let requests of the version in use wait, as a worker of it comes once an old one has left."""
        if fingerprint := self._rolls.fingerprint(target.model, target.version):
            await PoolQueue(self._redis, target.pool, self._settings).starting(fingerprint)

    async def ended(self) -> None:
        """Wait until a supervisor ends; for ever where none runs."""
        running = [child.end for child in self._children.values() if child.end is not None]
        await asyncio.wait(
            [*running, asyncio.get_running_loop().create_future()], return_when=FIRST_COMPLETED
        )

    async def close(self) -> None:
        """Stop all supervisors; their workers drain."""
        for child in self._children.values():
            child.stop()
        await asyncio.gather(*(child.stopped() for child in self._children.values()))

    async def _pool(self, pool: str, target: PoolTarget | None) -> PoolNow:
        reports = [each for each in await self._nodes(pool).reports() if not self._is_over(each)]
        deadlines = redis_keys.deadlines(pool)
        requests = await reading(deadlines, self._redis.zcard(deadlines), 0)
        child = self._children.get(pool)
        lacks = "" if self._one_user else lacking_user(self._settings, pool)
        seen = PoolNow(tuple(map(supervisor_now, reports)), child and child.now, requests, lacks)
        if target is None:
            return seen
        pinned, fit = await self._rolls.see(target, reports, now_ms())
        same = self._rolls.same(target, reports)
        self._same |= {each.supervisor: _of(same, each) for each in reports}
        if same:
            named = [as_in_use(each, target.version, same) for each in reports]
            seen = replace(seen, supervisors=tuple(map(supervisor_now, named)))
        starts = [slot.start_seconds or 0.0 for report in reports for slot in report.slots]
        return replace(seen, pinned=pinned, fit=fit, start_seconds=max(starts, default=0.0))

    def _is_over(self, report: NodeReport) -> bool:
        """True of a report that a killed supervisor of this machine left for the seconds of its lease."""
        return report.node == self._settings.node and not psutil.pid_exists(report.pid)

    def _nodes(self, pool: str) -> PoolNodes:
        return PoolNodes(PoolQueue(self._redis, pool, self._settings))

    def _number(self) -> int:
        """The least number that no child has, by which its ports are."""
        taken = {child.number for child in self._children.values()}
        return next(number for number in range(len(taken) + 1) if number not in taken)


def _counts(step: NextStep, in_use: str, same: Mapping[str, int]) -> int | WorkerCounts:
    """What a supervisor is told: of one that runs one version a number."""
    if not step.versions:
        return step.workers
    counts = dict(step.versions)
    for version, told in same.items():
        stay = min(told, counts.get(in_use, 0))
        counts |= {version: counts.get(version, 0) + stay, in_use: counts.get(in_use, 0) - stay}
    return WorkerCounts({each: count for each, count in counts.items() if count}, step.paid)


def _of(same: set[str], report: NodeReport) -> dict[str, int]:
    """How many workers of these versions a supervisor was told to run."""
    return {each: told for each, told in (report.versions or {}).items() if each in same and told}


def as_in_use(report: NodeReport, in_use: str, same: set[str]) -> NodeReport:
    """A report in which versions that are the one in use have its name. Pure."""
    versions = Counter[str]()
    for version, told in (report.versions or {}).items():
        versions[in_use if version in same else version] += told
    slots = [
        msgspec.structs.replace(slot, version=in_use) if slot.version in same else slot
        for slot in report.slots
    ]
    told = None if report.versions is None else dict(versions)
    return msgspec.structs.replace(report, slots=slots, versions=told)


def supervisor_now(report: NodeReport) -> SupervisorNow:
    """What a report says. Pure."""
    ready = sum(slot.state is WorkerProcessState.READY for slot in report.slots)
    faults = tuple(f"worker {slot.index}: {_line(slot.why)}" for slot in report.slots if slot.state in FAULTS)
    return SupervisorNow(
        name=report.supervisor,
        node=report.node,
        pid=report.pid,
        workers=report.workers,
        indexes=len(report.slots),
        ready=ready,
        faults=faults,
        versions=None if report.versions is None else _by_version(report, report.versions),
        paid=report.paid,
    )


def _by_version(report: NodeReport, told: Mapping[str, int]) -> dict[str, VersionWorkers]:
    found = dict[str, VersionWorkers]()
    for version in sorted({*told, *(slot.version for slot in report.slots)}):
        slots = [slot for slot in report.slots if slot.version == version]
        ready = sum(slot.state is WorkerProcessState.READY for slot in slots)
        faults = [f"worker {slot.index}: {_line(slot.why)}" for slot in slots if slot.state in FAULTS]
        found[version] = VersionWorkers(told.get(version, 0), len(slots), ready, "".join(faults[:1]))
    return found


def _line(why: str) -> str:
    """A reason as one short line that any store takes. Pure."""
    return "".join(each if each.isprintable() else " " for each in why[:WHY_MAX])


def room_here() -> int:
    """How many workers this machine takes: one a GPU that may be used, else two a core."""
    try:
        devices = Devices.open().read()
    except OSError:
        devices = []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = None if visible is None else set(split_list(visible))
    usable = [each for each in devices if names is None or names & {str(each.index), each.uuid}]
    return len(usable) or WORKERS_A_CORE * usable_cpus()


def node_labels(text: str) -> dict[str, str]:
    """Labels NAME=VALUE, separated by commas. Pure."""
    return {name: value for name, _, value in (each.partition("=") for each in split_list(text))}
