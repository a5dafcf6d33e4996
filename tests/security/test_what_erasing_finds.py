"""Erasing and exporting go by the rows of what somebody said, whatever Redis lost or a worker hid of it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from sqlmodel import select

from billing.api import is_open
from billing.cli.erasure import held_of
from billing.quota.client import Quota
from billing.quota.redis_keys import open_requests_key
from billing.tenants.erasure import erase_user
from billing.tenants.keys import rotate_key
from billing.tenants.tenancy import close_tenant
from billing.tenants.users import close_user, user_named
from billing.usage import UsageOwner
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from core.ids import uuid7
from core.sql.database import Database
from engine.api import PoolQueue
from engine.lifecycle.reaper import Reaper
from server.access.authorization import ConversationOwner
from server.conversations import store
from server.conversations.erasure import erase_texts
from server.conversations.recorder import PoolRecorders
from server.conversations.store import ConversationStore, Turn
from server.conversations.tables import Message
from tests.engine.builders import Pool, append_to, end_entry, request, request_input, usage_event
from tests.security.erasure import NAME, OTHERS, WORDS, ErasureContext, scene
from tests.server.site import running_site
from tests.support.redis import Redis
from tests.support.tables import tables_with

__all__ = ["scene"]

LOST_WORDS = WORDS + "-lost"


@pytest.fixture
def turn() -> Turn:
    """Ada's, in a conversation of a service key."""
    now = now_ms()
    return Turn(uuid7(now), uuid7(now), LOST_WORDS, "tiny", now, key="k1", user=NAME)


async def begin(database: Database, scene: ErasureContext, turn: Turn) -> None:
    """As a gateway does before the request is in line."""
    owner = ConversationOwner(scene.project, "k1", "")
    await ConversationStore(database).open_turn(scene.tenant, owner, turn)


async def erase(database: Database, redis: Redis, settings: Settings, scene: ErasureContext) -> None:
    """What `users close` and `users erase` do with texts."""
    await close_user(database, redis, scene.tenant, NAME)
    await erase_texts(database, redis, settings, scene.tenant, NAME)


@pytest.mark.parametrize("given_up", [False, True], ids=["unread", "log_lost"])
async def test_what_redis_lost_in_mid_answer_is_erased(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext, turn: Turn, given_up: bool
):
    """It is in no book and in no pool: its row alone says whose it is. Bob's words beside it stay."""
    await begin(database, scene, turn)
    if given_up:
        recorders = PoolRecorders(redis, settings, ConversationStore(database), "")
        assert await recorders.give_up(scene.tenant, turn.request)
    assert await tables_with(database, LOST_WORDS) == {"conversation", "message"}
    await erase(database, redis, settings, scene)
    assert await tables_with(database, WORDS) == set()
    assert await tables_with(database, OTHERS) == {"conversation", "message"}


@pytest.mark.parametrize("given_up", [False, True], ids=["unread", "log_lost"])
async def test_what_redis_lost_in_mid_answer_is_exported(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext, turn: Turn, given_up: bool
):
    """Once, and to nobody else."""
    await begin(database, scene, turn)
    if given_up:
        recorders = PoolRecorders(redis, settings, ConversationStore(database), "")
        assert await recorders.give_up(scene.tenant, turn.request)
    ada, bob = [await user_named(database, scene.tenant, name) for name in (NAME, "bob")]
    assert ada is not None
    assert bob is not None
    told = [line async for line in held_of(database, ada)]
    assert repr([each for each in told if each["kind"] == "messages"]).count(LOST_WORDS) == 1
    assert LOST_WORDS not in repr([line async for line in held_of(database, bob)])


async def test_what_a_worker_took_out_of_the_list_still_runs(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext, turn: Turn
):
    """Erasing waits for its end, and takes prompt and answer then, in rows and in Redis."""
    pool = Pool(redis, settings, settings.pool, clock=now_ms)  # pyright: ignore[reportArgumentType]
    await begin(database, scene, turn)
    claim = await pool.running(tenant=scene.tenant, id=turn.request)
    await redis.zrem(open_requests_key(scene.tenant), turn.request)
    await close_user(database, redis, scene.tenant, NAME)
    with pytest.raises(Refused, match="1 requests of theirs are not over yet"):
        await erase_texts(database, redis, settings, scene.tenant, NAME)
    with pytest.raises(Refused, match="1 requests of theirs are not over yet"):
        await erase_texts(database, redis, settings, scene.tenant, None)
    assert await tables_with(database, WORDS) == {"conversation", "message"}
    ended = usage_event(scene.tenant, turn.request)
    await pool.queue.append("w1", [append_to(claim, x=LOST_WORDS, entries=[end_entry(2, 0)], end=ended)])
    await erase_texts(database, redis, settings, scene.tenant, NAME)
    assert await tables_with(database, WORDS) == set()
    assert await redis.keys(f"*{turn.request}*") == []


async def test_what_was_about_to_be_put_in_line_is_not_any_more(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext, turn: Turn
):
    """A gateway had stored the turn, and enqueues it once erasing has looked: every pool refuses it."""
    await begin(database, scene, turn)
    await erase(database, redis, settings, scene)
    queue = PoolQueue(redis, settings.pool, settings)
    placed: Any = await queue.enqueue(
        request(tenant=scene.tenant, id=turn.request, accepted_ms=turn.now_ms, deadline_ms=now_ms() + 600_000)
    )
    assert placed == Refusal("overloaded", "it was admitted too long ago: send it again", True, 1000)
    assert await tables_with(database, WORDS) == set()


async def test_who_is_closed_begins_no_turn(
    database: Database, redis: Redis, scene: ErasureContext, turn: Turn
):
    """Whatever a gateway's caches say: what erasing has looked through gets no new rows."""
    await close_user(database, redis, scene.tenant, NAME)
    with pytest.raises(Refused, match="closed"):
        await begin(database, scene, turn)
    assert await tables_with(database, LOST_WORDS) == set()
    await close_user(database, redis, scene.tenant, NAME, closed=False)
    await close_tenant(database, redis, scene.tenant)
    for user in (NAME, ""):
        with pytest.raises(Refused, match="closed"):
            await begin(database, scene, replace(turn, user=user))
    await close_tenant(database, redis, scene.tenant, closed=False)
    await begin(database, scene, turn)


async def test_erasing_waits_for_turns_that_are_being_stored(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext, turn: Turn
):
    """One that found the user open before they were closed has committed when erasing looks."""
    async with database.transaction() as session:
        assert await is_open(session, scene.tenant, NAME)
        row = store._new_conversation(scene.tenant, ConversationOwner(scene.project, "k1", ""), turn)
        session.add(row)
        session.add_all(store._rows(scene.tenant, turn, 0))
        await session.flush()
        erasing = asyncio.create_task(erase_texts(database, redis, settings, scene.tenant, NAME))
        for _ in range(50):
            async with database.session() as other:
                await (await other.connection()).execute(text("SELECT 1"))
        assert not erasing.done()
        await session.commit()
    await erasing
    assert await tables_with(database, WORDS) == set()


async def test_what_a_hidden_answer_leaves_in_redis_goes_at_its_deadline(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """A worker took it out of the tenant's list, and it is in no conversation: erasing finds it nowhere. It
    ends at its deadline, and its prompt and log leave Redis with its end, not minutes later."""
    user = await user_named(database, scene.tenant, "bob")
    assert user is not None
    pool, id = Pool(redis, settings, settings.pool), uuid7(now_ms())
    of = UsageOwner(project=scene.project, key="k1", user=user.id)
    sent = request_input(owner=of, accepted_ms=pool.clock.ms, deadline_ms=pool.clock.ms + 60_000)
    claim = await pool.running(tenant=scene.tenant, id=id, input=sent, deadline_ms=pool.clock.ms + 60_000)
    await pool.queue.append("w1", [append_to(claim, ids=(1,), x=WORDS)])
    await close_user(database, redis, scene.tenant, "bob")
    await erase_texts(database, redis, settings, scene.tenant, user.id)
    await erase_user(database, scene.tenant, user.id)
    assert await redis_keys_of(redis, id) >= {"req", "in", "log", "tok"}
    reaper = Reaper(pool.queue, Quota(redis, settings), 10)
    for _ in range(3):  # it is told to end, its worker's lease ends, nobody has it
        pool.clock.advance(60_000)
        await reaper.once()
    assert await redis_keys_of(redis, id) == {"req", "log"}
    recorder = PoolRecorders(redis, settings, ConversationStore(database), "gw")[settings.pool]
    await recorder._make_group()
    await recorder._step()
    assert await redis_keys_of(redis, id) == set()


async def redis_keys_of(redis: Redis, id: str) -> set[str]:
    """The kinds of a pool's keys that a request has."""
    return {key.decode().partition("}")[2].partition(":")[0] for key in await redis.keys(f"{{p:*{id}*")}


async def test_a_turn_of_a_named_user_that_redis_lost_is_erased(
    sqlite: Database, redis: Redis, settings: Settings
):
    """As seen live: a service key's send that names a user, and Redis loses all in mid-answer. Its rows
    say who sent it, by the first key of a rotated one's chain."""
    async with running_site(settings, sqlite, redis) as site:
        _, secret = await rotate_key(sqlite, site.tenant, site.key_id, 600)
        async with site.answering(LOST_WORDS * 100, step_seconds=0.05), site.welcomed(secret) as peer:
            fields: Any = {"conversation": uuid7(now_ms()), "metadata": {"user": "ann"}}
            await peer.send(LOST_WORDS, **fields)
            await peer.hear("delta")
            await redis.flushall()
            assert (await peer.hear("end"))["code"] == "log_lost"
        ann = await user_named(sqlite, site.tenant, "ann")
        assert ann is not None
        async with sqlite.session() as session:
            rows = (await session.exec(select(Message).where(Message.tenant_id == site.tenant))).all()
        assert [(row.owner_key, row.user_id, row.parent_id) for row in rows] == [
            (site.key_id, ann.id, "")
        ] * 2
        assert LOST_WORDS in repr([line async for line in held_of(sqlite, ann)])
        await close_user(sqlite, redis, site.tenant, "ann")
        assert await erase_texts(sqlite, redis, settings, site.tenant, ann.id) == (0, 2)
        assert await tables_with(sqlite, LOST_WORDS) == set()
