"""Ready time of a pool's workers, as supervisors store it in Redis: its key and its format.

Each heartbeat extends an interval with absolute ends, in Redis' time, so that a repetition changes nothing,
and neither does reading twice (engine/queue/lua/ready.lua). An interval lies within one hour. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from billing.periods import HOUR_MS

READY_GAP_MS_MAX = 60_000  # longest gap between two heartbeats that counts as ready time
READY_INTERVALS_MAX = 100_000  # of a pool in Redis: years of hours that no biller took
GPUS_MAX = 1_024


def ready_key(pool: str) -> str:
    """The hash of a pool's intervals: field `from worker`, value `to busy gpus state device gpu-type`."""
    return f"{{p:{pool}}}ready"


@dataclass(frozen=True)
class ReadyInterval:
    """A worker's ready time within one hour; `busy_ms` of it with requests. `device` is the unit that counts
    once, `gpus` its number of GPUs."""

    pool: str
    worker: str
    from_ms: int
    to_ms: int
    busy_ms: int
    gpus: int
    state: str
    device: str
    gpu_type: str

    @property
    def hour_ms(self) -> int:
        """Start of its hour."""
        return self.from_ms - self.from_ms % HOUR_MS


def parse(pool: str, field: bytes, value: bytes) -> ReadyInterval:
    """Parse an entry of the hash. Raises ValueError for one that no row can hold."""
    start, _, worker = field.decode().partition(" ")
    to, busy, gpus, state, device, gpu_type = value.decode().split(" ", 5)
    found = ReadyInterval(pool, worker, int(start), int(to), int(busy), int(gpus), state, device, gpu_type)
    if not found.from_ms <= found.to_ms <= found.hour_ms + HOUR_MS:
        raise ValueError("the interval does not lie in one hour")
    if not 0 <= found.busy_ms <= found.to_ms - found.from_ms or not 0 <= found.gpus <= GPUS_MAX:
        raise ValueError("busy time or GPUs are out of range")
    return found


@dataclass(frozen=True)
class PoolOwnership:
    """Owner of a pool from a time on; tenant empty: shared."""

    from_ms: int
    tenant_id: str
    project_id: str = ""


@dataclass(frozen=True, order=True)
class GpuHour:
    """GPU-milliseconds of one pool, owner and type of GPU in an hour."""

    pool: str
    tenant_id: str
    project_id: str
    gpu_type: str
    ready_ms: int
    busy_ms: int

    @property
    def ready_seconds(self) -> int:
        """Whole GPU-seconds, the billed quantity."""
        return self.ready_ms // 1000

    @property
    def busy_seconds(self) -> int:
        """Whole GPU-seconds in which requests ran."""
        return min(self.busy_ms // 1000, self.ready_seconds)


def hours_of(intervals: Iterable[ReadyInterval], owners: dict[str, list[PoolOwnership]]) -> list[GpuHour]:
    """Add up one hour's intervals of all pools, in order. A device counts once at any instant, for the
    interval that began first, however many workers report it."""
    sums: dict[tuple[str, str, str, str], list[int]] = {}
    reached: dict[str, int] = {}
    for each in sorted(intervals, key=_order):
        start = max(each.from_ms, reached.get(each.device, 0))
        reached[each.device] = max(each.to_ms, start)
        for part_start, part_end, owner in _owned_parts(start, each.to_ms, owners.get(each.pool, [])):
            ready = part_end - part_start
            key = (each.pool, owner.tenant_id, owner.project_id, each.gpu_type)
            total = sums.setdefault(key, [0, 0])
            total[0] += ready * each.gpus
            total[1] += each.busy_ms * ready // (each.to_ms - each.from_ms) * each.gpus
    return sorted(GpuHour(*key, ready, busy) for key, (ready, busy) in sums.items())


def _order(each: ReadyInterval) -> tuple[int, str, str, int, int]:
    return each.from_ms, each.pool, each.worker, -each.to_ms, -each.busy_ms


NOBODY = PoolOwnership(0, "")


def _owned_parts(start: int, end: int, owners: list[PoolOwnership]) -> list[tuple[int, int, PoolOwnership]]:
    """Split a time into (from, to, owner), without empty parts. `owners` in order of time."""
    ordered = [NOBODY, *owners]
    ends = [owner.from_ms for owner in ordered[1:]] + [end]
    parts = [
        (max(start, owner.from_ms), min(end, until), owner)
        for owner, until in zip(ordered, ends, strict=True)
    ]
    return [part for part in parts if part[0] < part[1]]
