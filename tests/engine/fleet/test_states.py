"""The controller's rows in SQL, on SQLite and Postgres."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from sqlmodel import select

from billing.pools import FleetNode, PoolState
from core.sql.database import Database
from engine.fleet.next_steps import next_steps
from engine.fleet.observed import FleetNow, PoolNow
from engine.fleet.states import (
    LEASE_MS,
    end_lease,
    hold_lease,
    node_row,
    read_states,
    state_rows,
    write_states,
)
from tests.engine.fleet.world import Target, reported
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


async def seen(database: Database, wanted: Sequence[Target], now: FleetNow, now_ms: int) -> list[PoolState]:
    """What stands in SQL after a round."""
    steps = next_steps(wanted, now, now_ms)
    rows = state_rows(wanted, steps, now, "c", now_ms)
    await write_states(database, rows, node_row(now, "c", now_ms))
    return await read_states(database)


async def test_what_was_seen_of_each_pool_is_in_sql(database: Database):
    """With the reason; the next round's rows replace the last one's, and pools that are gone have none."""
    pools = {"a": PoolNow((reported(2, 3, 1), reported(1, 1, 1, pid=7, node="m")))}
    a, b = await seen(database, [pool("b", 1), pool("a", 3)], FleetNow("n", 3, {"zone": "eu"}, pools), 5)
    assert (a.pool, a.workers, a.running, a.elsewhere, a.ready, a.step, a.as_desired, a.why) == (
        *("a", 3, 3, 1, 2, "keep", False),
        "1 of its workers drain",
    )
    assert (b.step, b.node, b.controller, b.observed_ms) == ("wait", "n", "c", 5)
    assert b.why.startswith("this machine has no room for more workers; pool b wants 1: ")
    (b,) = await seen(database, [pool("b", 1)], FleetNow("m", 9, {}, {}), 6)
    assert (b.pool, b.step, b.as_desired) == ("b", "start", False)
    async with database.session() as session:
        (node,) = await session.exec(select(FleetNode))
    assert (node.node, node.room, node.labels, node.observed_ms) == ("m", 9, {}, 6)
    assert await seen(database, [], FleetNow("m", 9), 7) == []


async def test_it_is_known_since_when_a_pool_is_as_desired(database: Database):
    """Or is not: each round with the same verdict keeps the time; a reason that changes does not begin it
    anew, another generation does."""

    def now(ready: int) -> FleetNow:
        return FleetNow("n", 3, {}, {"a": PoolNow((reported(2, 2, ready),))})

    wanted = pool("a", 2)
    rounds = [(0, wanted), (1, wanted), (2, wanted), (2, wanted), (2, replace(wanted, generation=2))]
    told = [(await seen(database, [want], now(ready), at))[0] for at, (ready, want) in enumerate(rounds)]
    assert [(row.as_desired, row.since_ms) for row in told] == [
        *[(False, 0), (False, 0), (True, 2), (True, 2)],
        (True, 4),
    ]
    (lost,) = await seen(database, [wanted], now(0), 5)
    assert [row.served_ms for row in (*told, lost)] == [0, 1, 1, 1, 1, 1]  # when a worker was ready first
