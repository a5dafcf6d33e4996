"""Whether the fleet's machines have room for one worker more, and this one memory for a version. Reads only.

What the fleet wrote last is an estimate: its controller decides when it acts, and says why it waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.pools import FLEET_FRESH_MS, FleetNode, PoolRow, PoolState

NO_FLEET = "no fleet runs, which would make it ready and switch: `parley fleet`"


@dataclass(frozen=True)
class FleetRoom:
    """What the fleet saw last. `nodes`: those that it looked at lately; `running`: workers of all pools."""

    nodes: Sequence[FleetNode]
    running: int

    @property
    def runs(self) -> bool:
        """True where a fleet runs."""
        return bool(self.nodes)

    def free(self, labels: Mapping[str, str]) -> int:
        """Places for workers on nodes with these labels."""
        fitting = [node for node in self.nodes if labels.items() <= node.labels.items()]
        return max(0, sum(node.room for node in fitting) - self.running)


async def read_room(session: AsyncSession, now_ms: int) -> FleetRoom:
    """The fleet's room now."""
    nodes = (await session.exec(select(FleetNode))).all()
    states = (await session.exec(select(PoolState))).all()
    fresh = [node for node in nodes if now_ms - node.observed_ms <= FLEET_FRESH_MS]
    return FleetRoom(fresh, sum(state.running for state in states))


def replaces_one_by_one(row: PoolRow, room: FleetRoom) -> bool:
    """True where a pool keeps a worker that serves while others are replaced: there is a place for one more,
    or it has several. Pure."""
    return row.workers != 1 or not room.runs or room.free(row.labels) > 0


def why_gap(row: PoolRow, version: str, start_seconds: float | None) -> str:
    """Why a pool with one place would serve nobody for a while, and what to do. Pure."""
    long = "until a worker of it is ready"
    if start_seconds is not None:
        long += f", about {start_seconds:.0f} s by its check"
    return (
        f"pool {row.pool} has one worker and there is no room for another: with {version} nobody would serve "
        f"{long}. Free a place (resize another pool), or take that with --accept-gap"
    )
