"""What runs and what waits in a pool, sampled by whoever sweeps it."""

import pytest
from opentelemetry.metrics import CallbackOptions

from billing.api import Quota
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.observability.request_figures import FIGURES
from core.redis.figure_minutes import FigureWriter, read_figures
from engine import instruments
from engine.api import PriorityClass
from engine.lifecycle.reaper import Reaper
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis


@pytest.fixture
def crew(redis: Redis, settings: Settings) -> PoolWorkers:
    """Workers of an empty pool."""
    FIGURES.take()
    return PoolWorkers(redis, settings)


async def sweep(crew: PoolWorkers) -> None:
    """One reaper's sweep, whoever swept before."""
    await crew.redis.delete(f"{{p:{crew.pool}}}sweeper")
    await Reaper(crew.queue, Quota(crew.redis, crew.settings), 1_000).sweep()


def shown() -> dict[tuple[str, str], float]:
    """This process's gauges of lines, by pool and class."""
    found = instruments._of_pools(CallbackOptions())
    return {tuple((each.attributes or {}).values()): each.value for each in found}  # pyright: ignore[reportReturnType]


async def test_a_minute_has_the_mean_of_its_samples(crew: PoolWorkers):
    """What waits by class, what runs and for how much there is room. Two processes that sample at once count
    as often as they looked."""
    hung = ScriptedEngine(saying("abc"), hangs_at=lambda _: True)
    async with crew.worker(hung):
        await crew.send()
        await wait_until(lambda: hung.stats().running)
        for _ in range(3):
            await crew.send(priority=PriorityClass.BULK, fingerprint="of no worker")
        await wait_until(lambda: _running(crew))
        await sweep(crew)
        await sweep(crew)
    await FigureWriter(crew.redis, crew.settings).flush()
    read = await read_figures(crew.redis, crew.settings)
    assert read.levels("running")[-1] == 1
    assert read.levels("slots", crew.pool)[-1] == crew.settings.worker_slots
    assert (read.levels("waiting.bulk")[-1], read.levels("waiting.interactive")[-1]) == (3, 0)


async def test_a_gauge_ends_with_its_sweep(crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch):
    """Another process may sweep the pool from then on, and what this one saw is old."""
    await crew.send(priority=PriorityClass.STANDARD)
    await sweep(crew)
    of = [(crew.pool, each.value) for each in PriorityClass]
    assert [shown()[each] for each in of] == [0, 1, 0]
    monkeypatch.setattr(instruments, "WAITING_SECONDS_MAX", -1)
    assert shown() == {}


async def _running(crew: PoolWorkers) -> bool:
    """Whether the worker has told what it runs."""
    return any(worker.count("running") for worker in await crew.queue.workers())
