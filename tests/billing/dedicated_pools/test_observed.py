"""What is said of a pool by the fleet's last look, and whether its machines could hold what is asked for."""

from typing import Any

import pytest

from billing.dedicated_pools.observed import (
    FRESH_MS,
    NO_FLEET,
    UNSEEN,
    VersionSight,
    check_fits,
    read_sights,
    sight_of,
)
from billing.tables.pools import FleetNode, PoolRow, PoolState
from core.errors import Refused
from core.sql.database import Database

NOW = 1_700_000_000_000


def row(workers: int = 3, generation: int = 1, **labels: str) -> PoolRow:
    """A pool that should be."""
    facts: dict[str, Any] = {"model": "m", "version": "v1", "made_ms": 1, "generation": generation}
    return PoolRow(pool="a", workers=workers, labels=labels, **facts)


def state(as_desired: bool = False, why: str = "", step: str = "keep", elsewhere: int = 0) -> PoolState:
    """What the fleet saw of it."""
    counts: dict[str, Any] = {"generation": 1, "workers": 3, "running": 2, "elsewhere": elsewhere, "ready": 2}
    told: dict[str, Any] = {"step": step, "why": why, "node": "n", "controller": "c"}
    return PoolState(pool="a", as_desired=as_desired, since_ms=NOW - 9_000, observed_ms=NOW, **counts, **told)


def node(name: str, room: int, observed_ms: int = NOW, **labels: str) -> FleetNode:
    """A machine of the fleet."""
    return FleetNode(node=name, room=room, labels=labels, controller="c", observed_ms=observed_ms)


def test_why_a_pool_is_not_as_desired_is_told():
    """With since when; a change that the fleet has not seen is not called reached."""
    lacks = sight_of(row(), state(why="no room"), NOW, NOW)
    assert (lacks.ready, lacks.as_desired, lacks.why, lacks.since_ms) == (2, False, "no room", NOW - 9_000)
    assert sight_of(row(), state(step="start"), NOW, NOW).why == "its supervisor starts"
    well = sight_of(row(), state(as_desired=True), NOW, NOW)
    assert (well.as_desired, well.why) == (True, "")
    for unseen in (
        sight_of(row(generation=2), state(as_desired=True), NOW, NOW),
        sight_of(row(), None, NOW, NOW),
    ):
        assert (unseen.as_desired, unseen.why, unseen.since_ms) == (False, UNSEEN, 0)


def test_without_a_fleet_nobody_knows():
    """That is said, with the command that runs one and since when none does."""
    never = sight_of(row(), None, 0, NOW)
    assert (never.ready, never.as_desired, never.why) == (None, None, NO_FLEET)
    over = sight_of(row(), state(as_desired=True), NOW, NOW + FRESH_MS + 1)
    assert (over.ready, over.as_desired, over.seen_ms) == (None, None, NOW)
    assert over.why == "no fleet has run since 2023-11-14T22:13:20+00:00: `parley fleet`"


def test_versions_are_told_as_the_fleet_saw_them():
    """Also right after a change that it has not seen; without a fleet nobody knows them."""
    seen = state()
    old = {"version": "v0", "workers": 1, "ready": 1, "requests": 3, "until_ms": NOW}
    seen.versions = [{"version": "v1", "workers": 2, "ready": 1, "requests": 0, "until_ms": 0}, old]
    told = (VersionSight("v1", 2, 1, 0, 0), VersionSight("v0", 1, 1, 3, NOW))
    assert sight_of(row(), seen, NOW, NOW).versions == told
    assert sight_of(row(generation=2), seen, NOW, NOW).versions == told
    assert sight_of(row(), seen, NOW, NOW + FRESH_MS + 1).versions == ()


async def test_sights_are_of_the_pools_that_are_asked_for(database: Database):
    """By name."""
    async with database.transaction() as session:
        session.add_all([state(why="no room"), node("n", 2)])
    async with database.session() as session:
        other = row()
        other.pool = "b"
        sights = await read_sights(session, [row(), other], NOW)
    assert {pool: sight.why for pool, sight in sights.items()} == {"a": "no room", "b": UNSEEN}


async def test_a_pool_is_no_larger_than_the_machines_that_fit(database: Database):
    """All that a machine has counts, taken or not, and workers on nodes that the fleet does not run. Machines
    that are not seen any more do not count."""
    stored = [node("n", 4, zone="eu"), node("m", 8, zone="us"), node("gone", 99, NOW - FRESH_MS - 1)]
    async with database.transaction() as session:
        session.add_all([*stored, state(elsewhere=2)])
    async with database.session() as session:
        for fits in (row(14), row(6, zone="eu"), row(0, zone="asia")):
            await check_fits(session, fits, NOW)
        for large, told in (
            (row(15), "the fleet has room for 14 workers: set at most 14"),
            (row(7, zone="eu"), "room for 6 workers on nodes with zone=eu: set at most 6, or remove a label"),
        ):
            with pytest.raises(Refused, match=told) as refused:
                await check_fits(session, large, NOW)
            assert refused.value.refusal.field == "workers"
        await check_fits(session, row(99), NOW + FRESH_MS + 1)  # no fleet runs: nobody knows
