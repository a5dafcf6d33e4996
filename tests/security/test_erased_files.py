"""SQLite's files after an erasing, while others have the database open: none has what was erased."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from billing.tenants.users import close_user
from core.configuration.settings import Settings
from core.sql.database import Database
from core.sql.write_ahead_log import empty_log
from server.conversations.purge import Purge
from tests.billing.cli.commands import Command, parley, rows
from tests.security.erasure import LABEL, NAME, WORDS, _scene
from tests.server.conversations.purged import SECRET_WORDS, conversation
from tests.server.conversations.purged import site as site
from tests.server.http_site import HttpSite
from tests.support.redis import Redis

__all__ = ["parley"]


@pytest.fixture
async def gateway(parley: Command, settings: Settings) -> AsyncGenerator[Database]:
    """Another process's connections to the same file."""
    _ = parley
    database = Database(settings.database_endpoint)
    yield database
    await database.close()


def files_with(database: Database, words: str) -> set[str]:
    """Names of its files that hold them."""
    path = Path(str(database.engine.url.database))  # of Postgres, a name of no file
    return {each.name for each in path.parent.glob(f"{path.name}*") if words.encode() in each.read_bytes()}


@pytest.mark.parametrize("who", ["user", "tenant"])
async def test_what_is_erased_is_in_no_file(who: str, parley: Command, redis: Redis, gateway: Database):
    """A gateway stays connected. What waits for a reader is said, and goes with the next."""
    run = partial(asyncio.to_thread, parley)
    scene = await _scene(gateway, redis, "globex")
    assert files_with(gateway, WORDS)
    assert files_with(gateway, LABEL)
    await close_user(gateway, redis, scene.tenant, NAME)
    erase = ("users", "erase", "--tenant", "globex", NAME, "--yes", "--json")
    if who == "tenant":
        assert rows(await run("tenants", "close", "globex", "--json"))
        erase = ("tenants", "erase", "globex", "--yes", "--json")
    [told] = rows(await run(*erase))
    assert "write_ahead_log" not in told
    assert files_with(gateway, WORDS) | files_with(gateway, LABEL) == set()


async def test_a_log_that_somebody_reads_is_told_and_emptied_after_it(
    parley: Command, redis: Redis, gateway: Database, monkeypatch: pytest.MonkeyPatch
):
    """No reader's state changes under it."""
    monkeypatch.setattr("billing.cli.erasure.LOG_TRIES", 1)
    monkeypatch.setattr("core.sql.write_ahead_log.WAIT_MS", 1)
    scene = await _scene(gateway, redis, "globex")
    await close_user(gateway, redis, scene.tenant, NAME)
    async with gateway.snapshot() as session:
        assert (await (await session.connection()).execute(text("SELECT count(*) FROM message"))).scalar()
        erase = ("users", "erase", "--tenant", "globex", NAME, "--yes", "--json")
        [told] = rows(await asyncio.to_thread(parley, *erase))
        assert "somebody reads the database" in told["write_ahead_log"]
        assert not await empty_log(gateway)
    assert await empty_log(gateway)
    assert files_with(gateway, WORDS) == set()


async def test_what_is_purged_is_in_no_file(site: HttpSite):
    """A conversation that its owner deleted, after the round that deletes its rows."""
    id, database = await conversation(site), site.edge.db
    assert (await site.client.delete(f"/v1/conversations/{id}", headers=site.bearer)).status_code == 200
    assert bool(files_with(database, SECRET_WORDS)) == (database.dialect == "sqlite")
    settings = site.edge.settings.model_copy(update={"deleted_keep_seconds": 0})
    await Purge(database, site.edge.pools.recorders, settings).round()
    assert files_with(database, SECRET_WORDS) == set()


async def test_postgres_has_no_log_of_ours(database: Database):
    """Wherever erasing runs, emptying it is asked for."""
    assert await empty_log(database)
