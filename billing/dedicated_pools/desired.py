"""Desired state of pools, as who makes them so reads it."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlmodel import col, select

from billing.tables.pools import DRAINING, PoolRow
from core.sql.database import Database

INTERACTIVE, STANDARD = "interactive", "standard"  # classes that may have a reserve


@dataclass(frozen=True)
class DesiredPool:
    """What a pool should be. `reserves`: KV tokens by class, of classes that have one; `generation` grows
    with each change; `draining`: it takes nothing new, and has no workers once it is empty.

    `version` is what new requests get; `next_version`: workers of it are to be made ready, then the pool is
    switched to it (versions.py); empty: nothing is under way. `earlier_version`: the one before.
    `old_until_ms`: when what still pins another version than `version` is ended; 0: never. `accept_gap`:
    nobody may serve during the switch."""

    pool: str
    model: str
    version: str
    workers: int
    labels: Mapping[str, str]
    reserves: Mapping[str, int]
    generation: int
    draining: bool
    next_version: str = ""
    earlier_version: str = ""
    old_until_ms: int = 0
    accept_gap: bool = False


async def read_pools(db: Database) -> list[DesiredPool]:
    """All pools by name."""
    async with db.session() as session:
        return [desired(row) for row in await session.exec(select(PoolRow).order_by(col(PoolRow.pool)))]


def desired(row: PoolRow) -> DesiredPool:
    """What a row of `pool` asks for. Pure."""
    reserves = {INTERACTIVE: row.reserve_interactive_tokens, STANDARD: row.reserve_standard_tokens}
    return DesiredPool(
        pool=row.pool,
        model=row.model,
        version=row.version,
        workers=row.workers,
        labels=row.labels,
        reserves={name: tokens for name, tokens in reserves.items() if tokens},
        generation=row.generation,
        draining=row.state == DRAINING,
        next_version=row.next_version,
        earlier_version=row.earlier_version,
        old_until_ms=row.old_until_ms,
        accept_gap=row.accept_gap,
    )
