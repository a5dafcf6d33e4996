"""The controller's rows in SQL, on SQLite and Postgres."""

import asyncio

from core.sql.database import Database
from engine.fleet.next_steps import next_steps
from engine.fleet.observed import FleetNow, PoolNow
from engine.fleet.states import LEASE_MS, end_lease, hold_lease, read_states, state_rows, write_states
from tests.engine.fleet.world import reported
from tests.engine.fleet.world import target as pool


async def test_one_controller_has_the_lease(database: Database):
    """Of many that try at once one gets it, and renews it; another gets it once it is over, or given back."""
    tries = await asyncio.gather(*(hold_lease(database, f"c{at}", 1_000) for at in range(6)))
    assert sum(tries) == 1
    holder = f"c{tries.index(True)}"
    assert not await hold_lease(database, "other", 1_000 + LEASE_MS)
    assert await hold_lease(database, holder, 1_001 + LEASE_MS)
    assert not await hold_lease(database, "other", 1_001 + LEASE_MS * 2)
    assert await hold_lease(database, "other", 1_002 + LEASE_MS * 2)
    await end_lease(database, holder)  # not its own any more
    assert not await hold_lease(database, holder, 1_003 + LEASE_MS * 2)
    await end_lease(database, "other")
    assert await hold_lease(database, holder, 1_003 + LEASE_MS * 2)


async def test_what_was_seen_of_each_pool_is_in_sql(database: Database):
    """With the reason; the next round's rows replace the last one's, and pools that are gone have none."""
    seen = {"a": PoolNow((reported(2, 3, 1), reported(1, 1, 1, pid=7, node="m")))}
    wanted, now = [pool("b", 1), pool("a", 3)], FleetNow("n", 3, {}, seen)
    steps = next_steps(wanted, now, 5)
    await write_states(database, state_rows(wanted, steps, now, "c", 5))
    a, b = await read_states(database)
    assert (a.pool, a.workers, a.running, a.ready, a.step, a.why) == (
        *("a", 3, 3, 2, "keep"),
        "1 of its workers drain",
    )
    assert (b.step, b.node, b.controller, b.observed_ms) == ("wait", "n", "c", 5)
    assert b.why.startswith("this machine has no room for more workers; pool b wants 1: ")
    later = FleetNow("n", 9, {}, {})
    await write_states(database, state_rows(wanted[:1], next_steps(wanted[:1], later, 6), later, "d", 6))
    assert [(row.pool, row.step, row.controller) for row in await read_states(database)] == [
        ("b", "start", "d")
    ]
    await write_states(database, [])
    assert await read_states(database) == []
