"""How workers and pools do, of what they and their supervisors report. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from admin.overview.answer import OverviewPool, WaitingClass, WorkerCell, WorkerCellState
from admin.overview.words import duration
from engine.api import LiveClass, LivePool, LiveWorker, PriorityClass, WorkerProcessState

SLOW_MS = 1_000  # age of a step from which a worker may be slow
WAITS_MS = 1_000  # with room, requests are taken long before
URGENT = (PriorityClass.INTERACTIVE, PriorityClass.STANDARD)
STATES = {
    WorkerProcessState.READY.value: WorkerCellState.SERVING,
    WorkerProcessState.STARTING.value: WorkerCellState.STARTING,
    WorkerProcessState.DRAINING.value: WorkerCellState.DRAINING,
}
LAPSED = "its heartbeats stopped"
WORDS = {
    WorkerProcessState.RESTARTING.value: "its process ended",
    WorkerProcessState.SICK.value: "its GPU must not be used",
    WorkerProcessState.ALARM.value: "its model does not load",
}


@dataclass(frozen=True)
class SeenPool:
    """A pool as it was read. `owner`: name of the tenant whom it is dedicated to; `models`: those whose new
    requests come here."""

    live: LivePool
    owner: str | None = None
    models: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The pool's."""
        return self.live.pool

    @cached_property
    def cells(self) -> list[WorkerCell]:
        """Its workers."""
        return [cell_of(each) for each in self.live.workers]

    @cached_property
    def serving(self) -> list[LiveWorker]:
        """Workers that take requests."""
        taking = (WorkerCellState.SERVING, WorkerCellState.SLOW)
        return [
            each for each, cell in zip(self.live.workers, self.cells, strict=True) if cell.state in taking
        ]

    @cached_property
    def lost(self) -> list[WorkerCell]:
        """Workers that are gone, or as good as."""
        return [each for each in self.cells if each.state is WorkerCellState.LOST]

    @cached_property
    def starting(self) -> list[WorkerCell]:
        """Workers that will serve."""
        return [each for each in self.cells if each.state is WorkerCellState.STARTING]

    @cached_property
    def running(self) -> int:
        """Requests that workers have in hand."""
        return sum(each.row.claims for each in self.live.workers)

    @cached_property
    def slots(self) -> int:
        """Requests that those who serve could run at once."""
        return sum(each.slots or 0 for each in self.serving)

    @cached_property
    def free(self) -> int:
        """Slots that nobody takes, nor waits for."""
        return max(0, self.slots - self.running - self.waiting)

    @cached_property
    def waiting(self) -> int:
        """Requests that wait, of all classes."""
        return sum(each.waiting for each in self.live.classes.values())

    @cached_property
    def urgent_classes(self) -> list[LiveClass]:
        """What waits of the classes that somebody waits for."""
        return [self.live.classes[each] for each in URGENT if each in self.live.classes]

    @property
    def urgent(self) -> int:
        """Requests of those."""
        return sum(each.waiting for each in self.urgent_classes)

    @property
    def urgent_ms(self) -> int:
        """For how long the oldest of those waits."""
        return max((each.oldest_ms for each in self.urgent_classes), default=0)

    @property
    def next_ms(self) -> float | None:
        """Until the next request is taken; None: nobody knows."""
        return self.live.pace_ms if self.waiting else None

    @property
    def lacks_workers(self) -> bool:
        """Nobody serves what waits here, or would come here."""
        return not self.serving and bool(self.waiting or self.models)

    @property
    def is_full(self) -> bool:
        """Somebody waits who could be taken, and is not. Who waits at a cap of their own does not count."""
        ready = any(each.ready for each in self.urgent_classes)
        return bool(self.serving) and self.urgent > 0 and ready and self.urgent_ms >= WAITS_MS

    @property
    def is_shown(self) -> bool:
        """Pools that were announced once and have nothing are not."""
        return bool(self.live.workers or self.waiting or self.models or self.owner)

    def shown(self) -> OverviewPool:
        """Its row."""
        kv = [each.row.kv_usage for each in self.serving if each.row.kv_usage is not None]
        return OverviewPool(
            pool=self.name,
            model=_model(self.serving or self.live.workers) or ", ".join(self.models),
            shared=self.owner is None,
            tenants=[] if self.owner is None else [self.owner],
            running=self.running,
            slots=self.slots,
            kv=round(sum(kv) / len(kv), 3) if kv else None,
            waiting=self.waiting,
            workers=self.cells,
            why="no worker serves it" if self.lacks_workers else "",
        )


def cell_of(worker: LiveWorker) -> WorkerCell:
    """A worker's cell."""
    state, why = _state(worker)
    row = worker.row
    return WorkerCell(
        row.worker, row.node, state, row.kv_usage, row.step_age_ms, row.claims, worker.slots, why
    )


def _state(worker: LiveWorker) -> tuple[WorkerCellState, str]:
    row = worker.row
    state = STATES.get(row.state, WorkerCellState.LOST)
    if state is WorkerCellState.LOST:
        return state, row.why or WORDS.get(row.state, LAPSED)
    predicted = worker.step_predicted_ms or 0
    if state is WorkerCellState.SERVING and (row.step_age_ms or 0) >= max(SLOW_MS, 4 * predicted):
        return WorkerCellState.SLOW, f"its last step is {duration(row.step_age_ms or 0)} old"
    return state, row.why if state is WorkerCellState.STARTING else ""


def _model(workers: Sequence[LiveWorker]) -> str:
    models = sorted({f"{each.row.model} {each.version}".strip() for each in workers} - {""})
    return ", ".join(models[:2]) + (", …" if len(models) > 2 else "")


def waiting_by_class(pools: Sequence[SeenPool]) -> list[WaitingClass]:
    """What waits, in the order of classes."""
    return [_waiting(each, pools) for each in PriorityClass]


def _waiting(priority: PriorityClass, pools: Sequence[SeenPool]) -> WaitingClass:
    of_class = [
        (pool, found) for pool in pools if (found := pool.live.classes.get(priority)) and found.waiting
    ]
    if not of_class:
        return WaitingClass(priority.value)
    pool, oldest = max(of_class, key=lambda each: each[1].oldest_ms)
    before = sum(each.waiting for name, each in pool.live.classes.items() if _above(name, priority))
    ahead = None if pool.live.pace_ms is None else round((before + 1) * pool.live.pace_ms / 1000, 1)
    total = sum(found.waiting for _, found in of_class)
    return WaitingClass(priority.value, total, round(oldest.oldest_ms / 1000, 1), ahead)


def _above(one: PriorityClass, other: PriorityClass) -> bool:
    order = list(PriorityClass)
    return order.index(one) < order.index(other)
