"""`parley fleet` with real processes (scripted engine): desired state is reached again whatever dies."""

import pytest

from billing.pools import delete_pool, drain_pool, edit_pool
from engine.fleet.states import read_states
from tests.engine.fleet.fleet_processes import running
from tests.engine.node.supervised import crew as crew
from tests.engine.workers import PoolWorkers
from tests.support.patience import LONG_TEST_SECONDS

pytestmark = pytest.mark.timeout(LONG_TEST_SECONDS)


async def test_desired_state_is_reached_whatever_dies(crew: PoolWorkers):
    """SIGKILL of the supervisor, of the controller and of a worker, and a change of the pool at each step: a
    request that runs all the while goes on and ends once."""
    async with running(crew, 1) as fleet:
        await fleet.has(1)
        id = await crew.send(max_tokens=60)
        fleet.kill("core.cli supervisor")
        await fleet.has(1)
        await edit_pool(fleet.db, "default", {"workers": 2})
        await fleet.has(2)
        fleet.kill("engine.main worker")
        await edit_pool(fleet.db, "default", {"workers": 1})
        await fleet.has(1)
        await fleet.begins()  # a spare, which acts when the first is gone
        fleet.kill("core.cli fleet")
        await edit_pool(fleet.db, "default", {"workers": 2})
        await fleet.has(2)
        await crew.ended(id)
        kinds = await crew.kinds(id)
        assert (kinds.count("end"), kinds[-1]) == (1, "end")


async def test_a_drained_pool_has_no_process(crew: PoolWorkers):
    """Its workers serve what there is, then go, with their supervisor; deleted, it has no row of state."""
    async with running(crew, 1) as fleet:
        await fleet.has(1)
        id = await crew.send(max_tokens=20)
        await drain_pool(fleet.db, "default")
        await crew.ended(id)

        async def gone() -> bool:
            return not fleet.processes("core.cli supervisor")

        await fleet.until(gone)
        await delete_pool(fleet.db, "default")

        async def forgotten() -> bool:
            return await read_states(fleet.db) == []

        await fleet.until(forgotten)


async def test_a_pool_that_is_larger_than_the_machine_says_so(
    crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch
):
    """It gets what there is room for."""
    monkeypatch.setenv("PARLEY_FLEET_WORKERS_MAX", "1")
    async with running(crew, 3) as fleet:

        async def told() -> bool:
            rows = await read_states(fleet.db)
            return [(row.running, row.ready, row.why) for row in rows] == [
                (
                    1,
                    1,
                    "this machine has no room for more workers; pool default wants 3: resize it to at most 1",
                )
            ]

        await fleet.until(told)
