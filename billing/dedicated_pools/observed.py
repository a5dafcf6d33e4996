"""What the fleet sees of pools beside what they should be, and whether its machines could hold them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.pools import FleetNode, PoolRow, PoolState
from core.clock import iso_time
from core.errors import bad_request

FRESH_MS = 15_000  # the fleet looks every two seconds
NO_FLEET = "no fleet runs: `parley fleet`"
UNSEEN = "the fleet has not seen the last change yet"
STEPS = {
    "start": "its supervisor starts",
    "resize": "its workers are being changed",
    "switch": "its next version takes over",
}


@dataclass(frozen=True)
class VersionSight:
    """What the fleet sees of a version in a pool: workers of it, how many are ready, and how many requests
    need it to their end, at most until `until_ms`; 0: none does."""

    version: str
    workers: int
    ready: int
    requests: int
    until_ms: int


@dataclass(frozen=True)
class PoolSight:
    """What is known of a pool's workers. `ready`, `as_desired` None: nobody knows now, `why` says why;
    `since_ms` 0: nobody knows since when; `versions`: that in use first, empty: nobody knows."""

    ready: int | None
    as_desired: bool | None
    why: str
    since_ms: int = 0
    seen_ms: int = 0
    versions: tuple[VersionSight, ...] = ()


def sight_of(row: PoolRow, state: PoolState | None, last_ms: int, now_ms: int) -> PoolSight:
    """What the fleet's last look, at `last_ms` (0: never), says of a pool. Pure."""
    if now_ms - last_ms > FRESH_MS:
        told = f"no fleet has run since {iso_time(last_ms)}: `parley fleet`" if last_ms else NO_FLEET
        return PoolSight(None, None, told, seen_ms=last_ms)
    if state is None:
        return PoolSight(None, False, UNSEEN, seen_ms=last_ms)
    versions = tuple(VersionSight(**each) for each in state.versions)
    if state.generation != row.generation:
        return PoolSight(state.ready, False, UNSEEN, seen_ms=last_ms, versions=versions)
    why = "" if state.as_desired else state.why or STEPS.get(state.step, "")
    return PoolSight(state.ready, state.as_desired, why, state.since_ms, state.observed_ms, versions)


async def read_sights(session: AsyncSession, rows: Sequence[PoolRow], now_ms: int) -> dict[str, PoolSight]:
    """What is known of these pools, by name."""
    named = select(PoolState).where(col(PoolState.pool).in_([row.pool for row in rows]))
    states = {state.pool: state for state in await session.exec(named)}
    last_ms = max((node.observed_ms for node in await session.exec(select(FleetNode))), default=0)
    return {row.pool: sight_of(row, states.get(row.pool), last_ms, now_ms) for row in rows}


async def check_fits(session: AsyncSession, row: PoolRow, now_ms: int) -> None:
    """Raise Refused where a pool wants more workers than the fleet's machines with its labels hold, however
    empty they are. A fleet that does not run says nothing."""
    nodes = [node for node in await session.exec(select(FleetNode)) if now_ms - node.observed_ms <= FRESH_MS]
    if not nodes:
        return
    state = await session.get(PoolState, row.pool)
    fitting = [node for node in nodes if _has(node.labels, row.labels)]
    most = sum(node.room for node in fitting) + (state.elsewhere if state else 0)
    if row.workers > most:
        raise bad_request(too_many(most, row.labels), field="workers")


def too_many(most: int, labels: Mapping[str, str]) -> str:
    """How many workers the fleet could hold, and what to do. Pure."""
    with_labels = ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
    room = f"the fleet has room for {most:,} worker{'' if most == 1 else 's'}"
    if not with_labels:
        return f"{room}: set at most {most:,}"
    return f"{room} on nodes with {with_labels}: set at most {most:,}, or remove a label"


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())
