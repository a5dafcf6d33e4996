"""What is deleted goes for good: rows, and what Redis holds of the answers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from billing.api import create_tenant
from core.clock import now_ms
from core.database import Database
from core.ids import uuid7
from core.settings import Settings
from server.access import Owner
from server.conversations import Answer, Turn
from server.purge import CONVERSATIONS_AT_ONCE, Purge, purge
from tests.engine.builders import append_to, end_entry, pool, usage_event
from tests.server.http_site import HttpSite, http_site

SECRET_WORDS = "the-words-nobody-may-read-again"


@pytest.fixture
async def site(database: Database, redis: Redis, settings: Settings) -> AsyncIterator[HttpSite]:
    """A gateway's routes."""
    async with http_site(database, redis, settings) as found:
        yield found


def purge_of(site: HttpSite, **changes: int) -> Purge:
    """A purge with a setting."""
    settings = site.edge.settings.model_copy(update=changes)
    return Purge(site.edge.db, site.edge.recorders, settings)


async def conversation(site: HttpSite, request: str | None = None) -> str:
    """One with a turn in it, answered."""
    now = now_ms()
    turn = Turn(uuid7(now), request or uuid7(now), f"say {SECRET_WORDS}", "tiny", now)
    await site.edge.conversations.open_turn(site.tenant, Owner(site.project, site.key_id, ""), turn)
    answer = Answer(SECRET_WORDS, "stop", "", {}, {}, 1, 1, 3, now)
    await site.edge.conversations.record(site.tenant, turn.request, answer)
    return turn.conversation


async def delete(site: HttpSite, id: str) -> None:
    """As its owner does."""
    assert (await site.client.delete(f"/v1/conversations/{id}", headers=site.bearer)).status_code == 200


async def rows(database: Database) -> tuple[int, int]:
    """Conversations and messages that the tables hold."""
    async with database.session() as session:
        counts = [
            (await session.connection()).execute(text(f"SELECT count(*) FROM {table}"))
            for table in ("conversation", "message")
        ]
        return tuple([(await count).scalar_one() for count in counts])  # pyright: ignore[reportReturnType]


async def test_what_was_deleted_is_gone_after_its_time(site: HttpSite, database: Database):
    """Not before, and nothing else with it; however often it is done."""
    kept, gone = await conversation(site), await conversation(site)
    await delete(site, gone)
    assert await purge_of(site, deleted_keep_seconds=600).step(now_ms()) == 0
    assert await rows(database) == (2, 4)
    assert await purge_of(site, deleted_keep_seconds=600).step(now_ms() + 600_001) == 1
    assert await purge_of(site, deleted_keep_seconds=0).step(now_ms()) == 0
    assert await rows(database) == (1, 2)
    left = await site.edge.conversations.messages(site.tenant, Owner(site.project, site.key_id, ""), kept, 0)
    assert left is not None
    assert [each.role for each in left] == ["user", "assistant"]


async def test_another_tenants_conversation_of_the_same_id_stays(site: HttpSite, database: Database):
    """Clients name them: two tenants may have one of one id."""
    id = await conversation(site)
    other = (await create_tenant(database, "globex")).tenant_id
    turn = Turn(id, uuid7(now_ms()), "another's words", "tiny", now_ms())
    await site.edge.conversations.open_turn(other, Owner("p", "k", ""), turn)
    before = await rows(database)
    await delete(site, id)
    assert await purge_of(site, deleted_keep_seconds=0).step(now_ms() + 1) == 1
    assert await rows(database) == (before[0] - 1, before[1] - 2)
    left = await site.edge.conversations.messages(other, Owner("p", "k", ""), id, 0)
    assert left is not None
    assert left[0].content == "another's words"


async def test_what_is_not_deleted_is_not_purged(site: HttpSite, database: Database):
    """Even where it is named: between a look and the purge somebody may have come back."""
    id = await conversation(site)
    assert await purge(site.edge.db, site.edge.recorders, [(site.tenant, id)]) == (0, set())
    assert await rows(database) == (1, 2)


async def test_many_are_purged_in_batches_and_by_two_gateways_at_once(site: HttpSite, database: Database):
    """Each goes once."""
    for _ in range(CONVERSATIONS_AT_ONCE + 5):
        await delete(site, await conversation(site))
    gone = 0
    for _ in range(4):
        both = [purge_of(site, deleted_keep_seconds=0).step(now_ms() + 1) for _ in range(2)]
        gone += sum(await asyncio.gather(*both))
    assert gone == CONVERSATIONS_AT_ONCE + 5
    assert await rows(database) == (0, 0)


async def test_nothing_of_it_is_left_in_redis_or_in_the_file(
    site: HttpSite, redis: Redis, database: Database
):
    """The log of its answer is readable for minutes after the end; a deleted one's is not. SQLite overwrites
    what it deletes."""
    p = pool(redis)
    claim = await p.running(tenant=site.tenant, id=uuid7(now_ms()))
    end = append_to(claim, x=SECRET_WORDS, entries=[end_entry(4, 0)], end=usage_event(claim.tenant, claim.id))
    await p.queue.append("w1", [end])
    assert p.name in site.edge.recorders or site.edge.recorders[p.name]
    id = await conversation(site, claim.id)
    assert await redis.keys(f"*{claim.id}*") != []
    await delete(site, id)
    assert await purge_of(site, deleted_keep_seconds=0).step(now_ms() + 1) == 1
    assert await redis.keys(f"*{claim.id}*") == []
    if database.dialect == "sqlite":
        async with database.engine.connect() as connection:
            await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        path = database.engine.url.database
        assert path is not None
        with open(path, "rb") as file:  # noqa: ASYNC230
            assert SECRET_WORDS.encode() not in file.read()
