"""The version of a pool's model: which one is wanted next, the switch to it, and giving that up.

Whoever wants another version sets `next_version`; nothing changes for requests. The fleet's controller makes
workers of it ready and then switches, by compare-and-set: what was edited meanwhile is never overwritten.
"""

from dataclasses import dataclass
from typing import Any

from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.dedicated_pools.pools import no_pool
from billing.tables.pools import PoolRow
from billing.tables.tenants import PLATFORM
from billing.tenants.edits import lock_settings
from billing.tenants.tenancy import ROUTES_CHANGED, publish_news
from core.clock import now_ms
from core.errors import bad_request
from core.redis.client import RedisClient
from core.sql.database import Database

CUT_OFF_MS_MAX = 7 * 86_400_000
NO_VERSION = ""


@dataclass(frozen=True)
class WantedVersion:
    """A version that a pool is to run. `cut_off_after_ms`: how long after the switch requests may still run
    on the version before; 0: to their end. `accept_gap`: nobody may serve meanwhile. `at_once`: there is
    nothing to make ready, as the pool has no workers or they run the same already."""

    version: str
    cut_off_after_ms: int = 0
    accept_gap: bool = False
    at_once: bool = False


def want(row: PoolRow, wanted: WantedVersion, at_ms: int) -> None:
    """Make a version the next one of a pool, or the one in use where that is so at once. Another one that is
    under way is replaced; the one in use gives up what is under way. Pure but for its row."""
    if not 0 <= wanted.cut_off_after_ms <= CUT_OFF_MS_MAX:
        raise bad_request(f"a cut-off is at most {CUT_OFF_MS_MAX // 86_400_000} days", field="cut_off")
    if wanted.version == row.version:
        give_up(row)
        return
    row.next_version = wanted.version
    row.cut_off_after_ms, row.accept_gap = wanted.cut_off_after_ms, wanted.accept_gap
    if wanted.at_once:
        switch(row, at_ms)


def switch(row: PoolRow, at_ms: int) -> None:
    """Make the next version the one in use. Pure but for its row."""
    assert row.next_version, "there is something to switch to"
    row.earlier_version, row.version = row.version, row.next_version
    row.old_until_ms = at_ms + row.cut_off_after_ms if row.cut_off_after_ms else 0
    give_up(row)


def give_up(row: PoolRow) -> None:
    """Want no other version than the one in use. Pure but for its row."""
    row.next_version, row.cut_off_after_ms, row.accept_gap = NO_VERSION, 0, False


def version_changes(row: PoolRow, wanted: WantedVersion, at_ms: int) -> dict[str, Any]:
    """Columns that change where a version is wanted, for an edit that changes others too. Pure."""
    before = row.model_dump()
    after = PoolRow(**before)
    want(after, wanted, at_ms)
    return {name: value for name, value in after.model_dump().items() if value != before[name]}


def of_another_model(version: str) -> dict[str, Any]:
    """Columns of a pool that is to run another model from now on, in this version. Pure."""
    nothing = {"next_version": NO_VERSION, "earlier_version": NO_VERSION, "accept_gap": False}
    return {"version": version, **nothing, "cut_off_after_ms": 0, "old_until_ms": 0}


async def use_version(db: Database, pool: str, wanted: WantedVersion) -> PoolRow:
    """Want another version of a pool's model. Raises Refused where there is no such pool."""
    async with db.transaction() as session:
        row = _known(await _locked(session, pool), pool)
        before = row.model_dump()
        want(row, wanted, now_ms())
        await _changed(session, row, "pool.use", before)
    return row


async def abandon_version(db: Database, pool: str) -> PoolRow:
    """Give up the version that is under way; without one nothing changes. Raises Refused where there is no
    such pool."""
    async with db.transaction() as session:
        row = _known(await _locked(session, pool), pool)
        before = row.model_dump()
        give_up(row)
        await _changed(session, row, "pool.abandon", before)
    return row


async def switch_version(db: Database, pool: str, generation: int, next_version: str) -> PoolRow | None:
    """Let new requests get the next version, as workers of it are ready. None, and nothing is changed, where
    the pool has another generation or next version by now, or is gone: look again. Whoever switched tells
    gateways (`tell_routes`)."""
    async with db.transaction() as session:
        row = await _locked(session, pool)
        if (
            row is None
            or not next_version
            or (row.generation, row.next_version) != (generation, next_version)
        ):
            return None
        before = row.model_dump()
        switch(row, now_ms())
        await _changed(session, row, "pool.switch", before)
    return row


async def tell_routes(redis: RedisClient) -> None:
    """Let gateways read routes anew at once. One that does not hear it does so within two seconds."""
    await publish_news(redis, PLATFORM, ROUTES_CHANGED)


async def _locked(session: AsyncSession, pool: str) -> PoolRow | None:
    await lock_settings(session, PLATFORM)
    return await session.get(PoolRow, pool, populate_existing=True)


def _known(row: PoolRow | None, pool: str) -> PoolRow:
    if row is None:
        raise no_pool(pool)
    return row


async def _changed(session: AsyncSession, row: PoolRow, action: str, before: dict[str, object]) -> None:
    if row.model_dump() == before:
        return
    row.generation += 1
    await session.flush()
    await record(session, PLATFORM, action, row.pool, before, row)
