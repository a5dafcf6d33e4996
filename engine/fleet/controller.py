"""The fleet's controller: every two seconds it looks at all pools, writes what it sees, and takes next steps.

Of several processes one has the lease and acts; the others wait. One that acted and lost the lease keeps its
supervisors running, which obey the next one's orders.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import psutil

from billing.pools import DesiredPool, read_pools, switch_version
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.runtime.failed_rounds import logged_failures, store_errors
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.fleet.next_steps import NextStep, StepKind, next_steps
from engine.fleet.observed import FleetNow, PoolTarget
from engine.fleet.states import end_lease, hold_lease, node_row, state_rows, write_states

log = logger(__name__)
repeated = RepeatedWarning(log)

ROUND_SECONDS = 2.0
NUMBER = re.compile("[0-9]+")
ACTIONS = (StepKind.START, StepKind.RESIZE, StepKind.STOP)


class FleetHands(Protocol):
    """What a controller sees and does machines with. All of it may be repeated."""

    async def observe(self, wanted: Sequence[PoolTarget]) -> FleetNow:
        """These pools, and those that the hands still run."""
        ...

    async def act(self, step: NextStep, target: DesiredPool | None) -> None:
        """Take a step. `target`: what the pool should be, None where it should not be."""
        ...

    async def switched(self) -> None:
        """Tell gateways that a pool has another version in use."""
        ...

    async def expect(self, target: PoolTarget) -> None:
        """Let requests wait for a worker of the version in use, which comes by plan."""
        ...

    async def ended(self) -> None:
        """Wait until something that runs ends; for ever where nothing runs."""
        ...

    async def close(self) -> None:
        """Let all workers drain, and end them."""
        ...


class FleetController:
    """One controller. `leads` is true while it has the lease."""

    def __init__(self, settings: Settings, db: Database, hands: FleetHands) -> None:
        self.name = f"{settings.node}-{os.getpid()}-{secrets.token_hex(4)}"
        self.leads = False
        self._node = settings.node
        self._db = db
        self._hands = hands
        self._wanted: list[DesiredPool] | None = None
        self._said = dict[str, NextStep]()

    async def run(self, stop: asyncio.Event) -> None:
        """Make rounds until `stop`; then workers drain, and another controller may act."""
        try:
            while not stop.is_set():
                with logged_failures(repeated, "fleet.round_failed", controller=self.name):
                    await self.round(now_ms())
                await self._pause(stop)
        finally:
            if self.leads:
                with logged_failures(repeated, "fleet.lease_end_failed", controller=self.name):
                    await end_lease(self._db, self.name)
            await self._hands.close()

    async def _pause(self, stop: asyncio.Event) -> None:
        """Wait for the next round: one comes early where a supervisor ended."""
        waiting = [asyncio.create_task(stop.wait()), asyncio.create_task(self._hands.ended())]
        try:
            await asyncio.wait(waiting, timeout=ROUND_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks(waiting)

    async def round(self, now_ms: int) -> list[NextStep]:
        """Make one round; the steps that it took. While the database is away the last holder of the lease
        goes by what it read last: its supervisors are started again as ever."""
        try:
            self._lead(await hold_lease(self._db, self.name, now_ms, self._is_dead))
            if not self.leads:
                return []
            wanted = self._wanted = await read_pools(self._db)
        except store_errors() as error:
            if not self.leads or self._wanted is None:
                raise
            repeated.warning("fleet.database_failed", controller=self.name, error=error_summary(error))
            return await self._take(self._wanted, now_ms, known=False)
        return await self._take(wanted, now_ms, known=True)

    async def _take(self, wanted: Sequence[DesiredPool], now_ms: int, known: bool) -> list[NextStep]:
        targets = {target.pool: target for target in wanted}
        now = await self._hands.observe(wanted)
        steps = next_steps(wanted, now, now_ms)
        if known:
            rows = state_rows(wanted, steps, now, self.name, now_ms)
            await write_states(self._db, rows, node_row(now, self.name, now_ms))
        for step in steps:
            self._say(step)
            with logged_failures(repeated, "fleet.step_failed", pool=step.pool, step=step.kind.value):
                await self._take_step(step, targets.get(step.pool))
        return steps

    async def _take_step(self, step: NextStep, target: DesiredPool | None) -> None:
        if step.kind in ACTIONS:
            await self._hands.act(step, target)
        if target is not None and step.awaits:
            await self._hands.expect(target)
        if target is not None and step.kind is StepKind.SWITCH:
            named = (target.generation, target.next_version)
            if await switch_version(self._db, target.pool, *named) is not None:
                await self._hands.switched()

    def _lead(self, leads: bool) -> None:
        if leads != self.leads:
            self.leads = leads
            log.info("fleet.lease_taken" if leads else "fleet.lease_lost", controller=self.name)

    def _is_dead(self, holder: str) -> bool:
        """True of a controller that was killed on this machine: its lease is no reason to wait."""
        node, _, rest = holder.rpartition("-")[0].rpartition("-")
        return node == self._node and rest.isdecimal() and not psutil.pid_exists(int(rest))

    def _say(self, step: NextStep) -> None:
        """Log a step once, not in every round in which it is still the next, whatever numbers it tells."""
        same = replace(step, why=NUMBER.sub("", step.why))
        if self._said.get(step.pool) == same:
            return
        self._said[step.pool] = same
        facts = {"pool": step.pool, "step": step.kind.value, "workers": step.workers, "why": step.why}
        log.info("fleet.step_decided", **facts)
