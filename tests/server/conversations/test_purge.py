"""What is deleted goes for good: rows, and what Redis holds of the answers."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest
from redis.exceptions import ConnectionError as GoneError
from redis.exceptions import ResponseError
from sqlmodel import select
from structlog.testing import capture_logs

from billing.api import create_tenant
from billing.usage import UsageOwner, decode, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations.purge import CONVERSATIONS_AT_ONCE, Purge, purge
from server.conversations.store import ConversationStore, Turn
from server.conversations.tables import Conversation
from tests.engine.builders import append_to, end_entry, pool, usage_event
from tests.server.conversations.purged import SECRET_WORDS, conversation, rows
from tests.server.conversations.purged import site as site
from tests.server.http_site import HttpSite
from tests.server.virtual.loop import passed, passing, played
from tests.support.redis import Redis
from tests.support.watch import StubClock


def purge_of(site: HttpSite, **changes: int) -> Purge:
    """A purge with a setting."""
    settings = site.edge.settings.model_copy(update=changes)
    return Purge(site.edge.db, site.edge.pools.recorders, settings)


async def delete(site: HttpSite, id: str) -> None:
    """As its owner does."""
    assert (await site.client.delete(f"/v1/conversations/{id}", headers=site.bearer)).status_code == 200


async def test_what_was_deleted_is_gone_after_its_time(site: HttpSite, database: Database):
    """Not before, and nothing else with it; however often it is done."""
    kept, gone = await conversation(site), await conversation(site)
    await delete(site, gone)
    assert await purge_of(site, deleted_keep_seconds=600).step(now_ms()) == 0
    assert await rows(database) == (2, 4)
    assert await purge_of(site, deleted_keep_seconds=600).step(now_ms() + 600_001) == 1
    assert await purge_of(site, deleted_keep_seconds=0).step(now_ms()) == 0
    assert await rows(database) == (1, 2)
    left = await site.edge.conversations.messages(
        site.tenant, ConversationOwner(site.project, site.key_id, ""), kept, 0
    )
    assert left is not None
    assert [each.role for each in left] == ["user", "assistant"]


async def test_another_tenants_conversation_of_the_same_id_stays(site: HttpSite, database: Database):
    """Clients name them: two tenants may have one of one id."""
    id = await conversation(site)
    other = (await create_tenant(database, "globex")).tenant_id
    turn = Turn(id, uuid7(now_ms()), "another's words", "tiny", now_ms())
    await site.edge.conversations.open_turn(other, ConversationOwner("p", "k", ""), turn)
    before = await rows(database)
    await delete(site, id)
    assert await purge_of(site, deleted_keep_seconds=0).step(now_ms() + 1) == 1
    assert await rows(database) == (before[0] - 1, before[1] - 2)
    left = await site.edge.conversations.messages(other, ConversationOwner("p", "k", ""), id, 0)
    assert left is not None
    assert left[0].content == "another's words"


async def test_what_is_not_deleted_is_not_purged(site: HttpSite, database: Database):
    """Even where it is named: between a look and the purge somebody may have come back."""
    id = await conversation(site)
    assert await purge(site.edge.db, site.edge.pools.recorders, [(site.tenant, id)]) == (0, set())
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
    assert p.name in site.edge.pools.recorders or site.edge.pools.recorders[p.name]
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


async def test_an_answer_that_still_ran_leaves_redis_with_its_end(
    site: HttpSite, redis: Redis, database: Database
):
    """Its conversation was deleted and purged before: nobody may read its log for minutes more."""
    p = pool(redis)
    id = uuid7(now_ms())
    claim = await p.running(tenant=site.tenant, id=id)
    deleted = await conversation(site, id, ended=False)
    await delete(site, deleted)
    assert await purge_of(site, deleted_keep_seconds=0).step(now_ms() + 1) == 1
    assert await rows(database) == (0, 0)
    assert await redis.keys(f"*{id}*") != []
    owner = UsageOwner(project="p1", key="k1", conversation=deleted)
    ended = msgspec.structs.replace(decode(usage_event(site.tenant, id)), owner=owner)
    end = append_to(claim, x=SECRET_WORDS, entries=[end_entry(2, 0)], end=encode(ended))
    await p.queue.append("w1", [end])
    recorder = site.edge.pools.recorders[p.name]
    monkey: Any = recorder
    monkey._is_own = lambda _: True
    await recorder._record_event(ended)
    assert await redis.keys(f"*{id}*") == []


class PurgePools:
    """All pools of a gateway: which requests they were told to forget; `errors`: instead."""

    known_ms = 100_000

    def __init__(self) -> None:
        self.forgot = list[str]()
        self.errors: Mapping[str, Exception] = {}

    async def forget(self, tenant: str, request: str) -> None:
        """See PoolRecorders."""
        assert tenant == "t"
        if request in self.errors:
            raise self.errors[request]
        self.forgot.append(request)


@pytest.fixture
def pools() -> PurgePools:
    """Of one gateway."""
    return PurgePools()


def of_pools(sqlite: Database, pools: Any) -> Purge:
    """A purge that keeps what was deleted for ten minutes."""
    return Purge(sqlite, pools, Settings(deleted_keep_seconds=600))


async def deleted(sqlite: Database, *at_ms: int, made_ms: int) -> None:
    """Conversations of these times of deletion, each with a turn of request `r<time>`."""
    kept, owner = ConversationStore(sqlite), ConversationOwner("p", "", "ann")
    for at in at_ms:
        turn = Turn(f"c{at}", f"r{at}", "hello", "tiny", made_ms)
        await kept.open_turn("t", owner, turn)
        await kept.delete("t", owner, turn.conversation, at)


async def left(sqlite: Database) -> list[str]:
    """The conversations that are there."""
    async with sqlite.session() as session:
        return sorted((await session.exec(select(Conversation.id))).all())


async def test_the_oldest_go_first_twenty_at_once(sqlite: Database, pools: PurgePools, watch: StubClock):
    """To the millisecond, each with what the pools may still know."""
    await deleted(sqlite, *range(1_021, 1_000, -1), made_ms=watch.ms)
    purge = of_pools(sqlite, pools)
    with capture_logs() as logs:
        assert await purge.step(600_000 + 1_000) == 0
        assert await purge.step(600_000 + 1_001) == 1
    assert [each["conversations"] for each in logs] == [1]
    assert pools.forgot == ["r1001"]
    await deleted(sqlite, 1_022, made_ms=watch.ms)
    assert await purge.step(700_000) == 20
    assert await left(sqlite) == ["c1022"]
    assert pools.forgot == [f"r{at}" for at in range(1_001, 1_022)]
    assert (await purge.step(700_000), await purge.step(700_000)) == (1, 0)


@pytest.mark.parametrize(("age_ms", "forgot"), [(99_999, ["r1"]), (100_000, [])])
async def test_what_no_pool_can_know_is_not_asked_for(
    sqlite: Database, pools: PurgePools, watch: StubClock, age_ms: int, forgot: list[str]
):
    """Its rows go all the same."""
    await deleted(sqlite, 1, made_ms=watch.ms - age_ms)
    assert await of_pools(sqlite, pools).step(watch.ms) == 1
    assert (pools.forgot, await left(sqlite)) == (forgot, [])


async def test_a_thousand_broken_ones_are_set_aside(sqlite: Database, pools: PurgePools, watch: StubClock):
    """They come no more, and count as work that was done; one more goes with what Redis holds of it."""
    await deleted(sqlite, 1, 2, made_ms=watch.ms)
    pools.errors = {"r1": ResponseError("WRONGTYPE x"), "r2": ResponseError("WRONGTYPE x")}
    purge = of_pools(sqlite, pools)
    purge._skipped |= {str(number) for number in range(999)}
    assert await purge.step(600_001) == 1
    assert await left(sqlite) == ["c1", "c2"]
    assert await purge.step(700_000) == 1
    assert await left(sqlite) == ["c1"]
    assert await purge.step(700_000) == 0


@pytest.mark.parametrize("error", [GoneError("x"), ResponseError("MISCONF x")])
async def test_a_redis_that_is_away_sets_nothing_aside(
    sqlite: Database, pools: PurgePools, watch: StubClock, error: Exception
):
    """It is tried again; nor does whoever erases hear that it is done."""
    await deleted(sqlite, 1, made_ms=watch.ms)
    pools.errors = {"r1": error}
    made, known = of_pools(sqlite, pools), cast(Any, pools)
    for work in (made.step(watch.ms), purge(sqlite, known, [("t", "c1")])):
        with pytest.raises(type(error)):
            await work
    pools.errors = {}
    assert await made.step(watch.ms) == 1


async def test_who_erases_hears_what_stays_in_redis(sqlite: Database, pools: PurgePools, watch: StubClock):
    """The rows go."""
    await deleted(sqlite, 1, 2, made_ms=watch.ms)
    pools.errors = {"r1": ResponseError("WRONGTYPE x")}
    ids = [("t", "c1"), ("t", "c2"), ("t", "none")]
    assert await purge(sqlite, cast(Any, pools), ids) == (2, {"r1"})
    assert (pools.forgot, await left(sqlite)) == (["r2"], [])


def test_it_looks_every_half_minute(pools: PurgePools, monkeypatch: pytest.MonkeyPatch):
    """Until nothing is found, whatever happens to one of its two steps."""
    did = list[tuple[str, float]]()

    async def day() -> None:
        nothing: Any = None
        made, found = of_pools(nothing, pools), [2, 1, 0]

        async def step(now: int) -> int:
            assert now == now_ms()
            did.append(("step", passed()))
            return found.pop(0)

        async def clear(now: int) -> int:
            did.append(("clear", passed()))
            return 0

        monkeypatch.setattr(made, "step", step)
        monkeypatch.setattr(made, "clear_sessions", clear)
        running = asyncio.create_task(made.run())
        await passing(31)
        running.cancel()

    played(day())
    assert did == [("step", 0), ("step", 0), ("step", 0), ("clear", 0), ("step", 30), ("clear", 30)]
