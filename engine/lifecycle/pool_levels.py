"""Samples of a pool's levels: what waits by class, what runs, and room for how much."""

from core.observability.request_figures import FIGURES
from core.redis.members import reading
from engine import instruments
from engine.queue import redis_keys
from engine.queue.client import PoolQueue
from engine.request import PriorityClass


async def sample_levels(queue: PoolQueue) -> None:
    """Take one sample, for the minute's mean and for the gauges of this process."""
    waiting: dict[str, int] = {}
    for priority in PriorityClass:
        key = redis_keys.by_age(queue.pool, priority.value)
        waiting[priority.value] = await reading(key, queue.redis.zcard(key), 0)
    alive = [worker for worker in await queue.workers() if worker.alive]
    levels = {level: sum(worker.count(level) or 0 for worker in alive) for level in ("running", "slots")}
    levels |= {f"waiting.{priority}": count for priority, count in waiting.items()}
    FIGURES.sample(queue.pool, levels)
    instruments.show_waiting(queue.pool, waiting)
