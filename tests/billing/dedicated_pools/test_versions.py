"""The next version of a pool's model: wanted by a person, switched to by the controller, given up."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from billing.audit.compare import compare_states
from billing.audit.log import list_rows
from billing.dedicated_pools import versions
from billing.dedicated_pools.desired import DesiredPool, read_pools
from billing.dedicated_pools.pools import create_pool
from billing.dedicated_pools.routes import PoolRoute, read_routes
from billing.dedicated_pools.versions import (
    CUT_OFF_MS_MAX,
    WantedVersion,
    abandon_version,
    switch_version,
    use_version,
)
from billing.tables.tenants import PLATFORM
from core.errors import Refused
from core.sql.database import Database
from tests.billing.dedicated_pools.dedicated import a_pool
from tests.billing.edits import AT_ONCE

MINUTE_MS = 60_000


@pytest.fixture
async def pool(database: Database) -> AsyncGenerator[str]:
    """A pool in version v1. Whatever was done, the audit log has it."""
    yield (await create_pool(database, a_pool())).pool
    assert (await compare_states(database, PLATFORM)).faults == []


async def read(database: Database) -> DesiredPool:
    """The pool as it is to be."""
    (found,) = await read_pools(database)
    return found


async def served(database: Database) -> PoolRoute | None:
    """Where a new request goes."""
    return (await read_routes(database)).of("t", "m")


async def test_a_wanted_version_serves_once_it_is_switched_to(
    database: Database, pool: str, monkeypatch: pytest.MonkeyPatch
):
    """Until then new requests get the version in use; afterwards the one before is known, and until when its
    requests may run."""
    monkeypatch.setattr(versions, "now_ms", lambda: 1_000_000)
    wanted = await use_version(database, pool, WantedVersion("v2", 30 * MINUTE_MS, accept_gap=True))
    assert wanted.generation == 2
    row = await read(database)
    assert (row.version, row.next_version, row.accept_gap, row.old_until_ms) == ("v1", "v2", True, 0)
    assert await served(database) == PoolRoute("a", "v1")
    assert await switch_version(database, pool, 2, "v2") is not None
    row = await read(database)
    assert (row.version, row.next_version, row.earlier_version) == ("v2", "", "v1")
    assert (row.generation, row.accept_gap, row.old_until_ms) == (3, False, 1_000_000 + 30 * MINUTE_MS)
    assert await served(database) == PoolRoute("a", "v2")
    actions = [each.action for each in await list_rows(database, PLATFORM)]
    assert actions[:3] == ["pool.switch", "pool.use", "pool.create"]


async def test_a_switch_overwrites_nothing(database: Database, pool: str):
    """Of a generation or a version of before, of a pool that is gone, or made twice: nothing changes."""
    await use_version(database, pool, WantedVersion("v2"))
    await use_version(database, pool, WantedVersion("v3"))
    for generation, version in ((2, "v2"), (3, "v2"), (2, "v3"), (3, "")):
        assert await switch_version(database, pool, generation, version) is None
    assert await switch_version(database, "none", 3, "v3") is None
    both = await asyncio.gather(*(switch_version(database, pool, 3, "v3") for _ in range(AT_ONCE)))
    assert sum(each is not None for each in both) == 1
    assert (await read(database)).earlier_version == "v1"


async def test_what_is_under_way_can_be_given_up(database: Database, pool: str):
    """By name, or by wanting the version in use; where nothing is under way nothing is recorded."""
    for give_up in (abandon_version(database, pool), use_version(database, pool, WantedVersion("v1"))):
        await use_version(database, pool, WantedVersion("v2", MINUTE_MS, accept_gap=True))
        row = await give_up
        assert (row.version, row.next_version, row.cut_off_after_ms, row.accept_gap) == ("v1", "", 0, False)
    generation = (await read(database)).generation
    await abandon_version(database, pool)
    assert (await read(database)).generation == generation
    assert [each.action for each in await list_rows(database, PLATFORM)][:2] == ["pool.use", "pool.use"]


async def test_a_version_that_needs_no_making_ready_is_in_use_at_once(database: Database, pool: str):
    """A second switch keeps the version before it, and no time of the first one's."""
    await use_version(database, pool, WantedVersion("v2", MINUTE_MS, at_once=True))
    assert (await read(database)).old_until_ms > 0
    await use_version(database, pool, WantedVersion("v3", at_once=True))
    row = await read(database)
    assert (row.version, row.earlier_version, row.next_version, row.old_until_ms) == ("v3", "v2", "", 0)


async def test_what_cannot_be_wanted_is_refused(database: Database, pool: str):
    """A cut-off that is too long, and a pool that there is not."""
    for cut_off_ms in (-1, CUT_OFF_MS_MAX + 1):
        with pytest.raises(Refused, match="at most 7 days"):
            await use_version(database, pool, WantedVersion("v2", cut_off_ms))
    for refused in (use_version(database, "none", WantedVersion("v2")), abandon_version(database, "none")):
        with pytest.raises(Refused, match="no pool 'none'"):
            await refused
