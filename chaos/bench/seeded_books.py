"""Books of many usage events, made by the code that posts them, or taken from a file that was made so."""

import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from sqlalchemy import text

from billing.api import create_tenant, list_tenants
from billing.posting.biller import post
from billing.usage import encode
from chaos.bench.billing import TENANTS, event_of
from chaos.figures.figures import progress
from core.configuration.settings import Settings
from core.sql.database import Database, migrate

EVENTS_AT_ONCE = 5_000
SAY_EVENTS = 50_000


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[Database]:
    """The database of these settings, closed in the end."""
    db = Database(settings.database_endpoint)
    try:
        yield db
    finally:
        await db.close()


async def seed_books(settings: Settings, events: int, seeded: Path | None) -> list[str]:
    """Bring the books to so many events; return their tenants. `seeded`: a SQLite file to begin with where it
    exists, and to keep the result in where it does not."""
    if seeded is not None and _begin_with(seeded, settings):
        await migrate(settings.database_endpoint)
    async with opened(settings) as db:
        tenants = await _tenants(db)
        for first in range(await events_in(db), events, EVENTS_AT_ONCE):
            numbers = range(first, min(events, first + EVENTS_AT_ONCE))
            batch = [encode(event_of(each, tenants[each % TENANTS])) for each in numbers]
            await post(db, settings.pool, batch)
            if numbers.stop % SAY_EVENTS == 0:
                progress(f"{numbers.stop:,} events are in the books")
    if seeded is not None:
        _keep(seeded, settings)
    return tenants


def _begin_with(seeded: Path, settings: Settings) -> bool:
    if not seeded.exists():
        return False
    shutil.copyfile(seeded, settings.home / "parley.db")
    return True


def _keep(seeded: Path, settings: Settings) -> None:
    if seeded.exists():
        return
    with closing(sqlite3.connect(settings.home / "parley.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(seeded),))


async def events_in(db: Database) -> int:
    """How many usage events are in the books."""
    async with db.engine.connect() as connection:
        return int((await connection.execute(text("SELECT count(*) FROM usage_event"))).scalar_one())


async def _tenants(db: Database) -> list[str]:
    found = {each.name: each.tenant_id for each in await list_tenants(db)}
    names = [f"bench{number}" for number in range(TENANTS)]
    return [found[name] if name in found else (await create_tenant(db, name)).tenant_id for name in names]
