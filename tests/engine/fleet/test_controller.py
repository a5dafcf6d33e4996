"""A controller's rounds with hands in memory: who acts, what is done where something is away."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from billing.pools import DesiredPool, WantedVersion, create_pool, edit_pool, read_pools, use_version
from billing.tables.pools import PoolRow
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.fleet import controller as controllers
from engine.fleet.controller import FleetController
from engine.fleet.next_steps import NextStep, StepKind
from engine.fleet.observed import FleetNow, PoolTarget
from engine.fleet.states import LEASE_MS, end_lease, hold_lease, read_states
from tests.engine.fleet.rolling import RollingPool
from tests.engine.fleet.world import Machine
from tests.support.patience import soon, wait_until

PID_MAX = 1 << 22  # the next is none


class Hands:
    """Hands on a machine in memory; `broken`: pools of which nothing can be done."""

    def __init__(self, machine: Any) -> None:
        self.machine, self.broken, self.closed = machine, set[str](), False
        self.asked = list[Sequence[str]]()
        self.told, self.expected = 0, list[str]()
        self.ends = asyncio.Event()

    async def observe(self, wanted: Sequence[PoolTarget]) -> FleetNow:
        """All that runs there."""
        self.asked.append([each.pool for each in wanted])
        if isinstance(self.machine, RollingPool):
            (self.machine.target,) = wanted
        return self.machine.seen()

    async def act(self, step: NextStep, target: DesiredPool | None) -> None:
        """As real ones do."""
        if step.pool in self.broken:
            raise OSError(28, "no space left")
        self.machine.obey(step)

    async def switched(self) -> None:
        """Gateways are told."""
        self.told += 1

    async def expect(self, target: PoolTarget) -> None:
        """Requests wait."""
        self.expected.append(target.version)

    async def ended(self) -> None:
        """Nothing ends by itself here, unless a test says so."""
        await self.ends.wait()
        self.ends.clear()

    async def close(self) -> None:
        """At the end."""
        self.closed = True


def a_pool(pool: str, workers: int) -> PoolRow:
    """A shared pool."""
    return PoolRow(pool=pool, model=f"of-{pool}", version="1", workers=workers, labels={}, made_ms=1)


async def test_the_next_holder_of_the_lease_goes_on(sqlite: Database, settings: Settings):
    """Two controllers on one machine: one acts, and the other once the first's lease is over, from where it
    was."""
    machine = Machine(4)
    one, two = (FleetController(settings, sqlite, Hands(machine)) for _ in range(2))
    await create_pool(sqlite, a_pool("a", 2))
    assert [step.kind for step in await one.round(1_000)] == [StepKind.START]
    assert await two.round(1_000) == []
    machine.passes()
    await edit_pool(sqlite, "a", {"workers": 3})
    later = 1_001 + LEASE_MS
    assert [step.kind for step in await two.round(later)] == [StepKind.RESIZE]
    assert (await one.round(later), one.leads, two.leads) == ([], False, True)
    assert machine.children == {"a": [3, 3]}
    assert [row.controller for row in await read_states(sqlite)] == [two.name]


async def test_a_ready_version_is_switched_to_and_gateways_are_told(sqlite: Database, settings: Settings):
    """Once, in SQL; where a gap was accepted, requests wait for the worker that comes after the old one."""
    await create_pool(sqlite, a_pool("p", 1))
    pool = RollingPool.serving(1, 1)
    hands = Hands(pool)
    of = FleetController(settings, sqlite, hands)
    await of.round(1_000)
    await use_version(sqlite, "p", WantedVersion("2"))
    assert [step.kind for step in await of.round(1_001)] == [StepKind.KEEP]
    assert "--accept-gap" in (await read_states(sqlite))[0].why
    await use_version(sqlite, "p", WantedVersion("2", accept_gap=True))
    assert [step.kind for step in await of.round(1_002)] == [StepKind.SWITCH]
    assert [(row.version, row.next_version) for row in await read_pools(sqlite)] == [("2", "")]
    assert (hands.told, hands.expected) == (1, [])
    pool.pins = {"1": 3}
    assert [step.kind for step in await of.round(1_003)] == [StepKind.KEEP]
    assert (hands.told, hands.expected, pool.wanted) == (1, ["2"], {"1": 1})
    about = [
        (each["version"], each["workers"], each["requests"])
        for each in (await read_states(sqlite))[0].versions
    ]
    assert about == [("2", 0, 0), ("1", 1, 3)]


async def test_a_step_that_fails_holds_up_no_other_pool(sqlite: Database, settings: Settings):
    """It is tried again in the next round; a step that stays the same is logged once."""
    hands = Hands(Machine(4))
    hands.broken = {"a"}
    of = FleetController(settings, sqlite, hands)
    for name in "ab":
        await create_pool(sqlite, a_pool(name, 1))
    with capture_logs() as lines:
        for at in range(2):
            await of.round(1_000 + at)
            hands.machine.passes()
    assert hands.machine.children == {"b": [1, 1]}
    said = [(line["pool"], line["step"]) for line in lines if line["event"] == "fleet.step_decided"]
    assert said == [("a", "start"), ("b", "start"), ("b", "keep")]
    hands.broken = set()
    await of.round(1_002)
    assert sorted(hands.machine.children) == ["a", "b"]


async def test_a_killed_controllers_lease_is_no_reason_to_wait(sqlite: Database, settings: Settings):
    """Of this machine: whether one of another lives, nobody here knows."""
    await create_pool(sqlite, a_pool("a", 1))
    gone = PID_MAX
    for node, steps in ((settings.node, 1), ("another", 0)):
        assert await hold_lease(sqlite, f"{node}-{gone}-abcd", 1_000)
        of = FleetController(settings, sqlite, Hands(Machine(4)))
        assert len(await of.round(1_001)) == steps
        await end_lease(sqlite, of.name)


async def test_a_supervisor_that_ends_is_seen_at_once(
    sqlite: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Not in the next round."""
    monkeypatch.setattr(controllers, "ROUND_SECONDS", 3600.0)
    hands, stop = Hands(Machine(4)), asyncio.Event()
    await create_pool(sqlite, a_pool("a", 1))
    task = asyncio.create_task(FleetController(settings, sqlite, hands).run(stop))
    await wait_until(lambda: bool(hands.machine.children))
    hands.machine.children.clear()
    hands.ends.set()
    await wait_until(lambda: bool(hands.machine.children))
    stop.set()
    await soon(task)


async def test_supervisors_are_started_again_while_the_database_is_away(
    sqlite: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """By what was read last, by the last holder of the lease alone."""
    machine = Machine(4)
    one, two = (FleetController(settings, sqlite, Hands(machine)) for _ in range(2))
    await create_pool(sqlite, a_pool("a", 2))
    await one.round(1_000)
    machine.passes()

    async def away(*_: Any) -> bool:
        raise OSError(111, "refused")

    monkeypatch.setattr(controllers, "hold_lease", away)
    machine.children.clear()
    await one.round(1_001)
    assert machine.children == {"a": [2, 2]}
    with pytest.raises(OSError, match="refused"):
        await two.round(1_001)


async def test_a_controller_that_is_told_to_end_lets_another_act_at_once(
    sqlite: Database, settings: Settings
):
    """Its workers drain. A round that fails ends nothing."""
    hands, stop = Hands(Machine(4)), asyncio.Event()
    of = FleetController(settings, sqlite, hands)
    await create_pool(sqlite, a_pool("a", 1))
    task = asyncio.create_task(of.run(stop))
    await wait_until(lambda: bool(hands.machine.children))
    stop.set()
    await soon(task)
    assert hands.closed
    assert hands.asked == [["a"]]
    other = FleetController(settings, sqlite, Hands(Machine(4)))
    assert [step.kind for step in await other.round(1)] == [StepKind.START]
