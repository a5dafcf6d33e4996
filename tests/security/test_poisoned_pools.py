"""What a worker that was taken over may write to Redis ends no process that serves others."""

import asyncio
from typing import Any

import msgspec
import pytest

from billing.posting.biller import Biller
from billing.quota.client import Quota
from billing.usage import ENDED_FIELD, ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.pools import known_pools
from core.sql.database import Database
from engine.api import PoolQueue
from engine.lifecycle.reaper import Reaper
from server.access.authorization import ConversationOwner
from server.context import GatewayContext, make_context
from server.conversations.store import ConversationStore, Turn
from server.pool_services import PoolServices
from server.reading.subscriptions import RequestName
from tests.billing.events import an_event
from tests.security.poisoned_pools import END, all_live, recorded
from tests.server.http_site import subscriptions_of
from tests.support.redis import Redis

TENANT, PROJECT = "t1", "p1"


@pytest.fixture
async def edge(sqlite: Database, redis: Redis, settings: Settings) -> GatewayContext:
    """A gateway's."""
    return make_context(settings, "gw-test", sqlite, redis)


async def poison(redis: Redis, request: str, value: str, fields: dict[str, Any]) -> None:
    """A request that has ended, whose log's last entry is this."""
    record: dict[str, Any] = {
        "status": "ended",
        "epoch": 1,
        "o": 1,
        "n": 1,
        "control": 0,
        "worker": "w",
        "deadline": 1,
    }
    whole: Any = {**record, "dest": "", "class": "bulk"} | fields
    await redis.hset(f"{{p:default}}req:{TENANT}:{request}", mapping=whole)
    await redis.xadd(f"{{p:default}}log:{TENANT}:{request}", {"k": "end", "v": value}, id="1-0")
    owner = msgspec.structs.replace(an_event().owner, conversation=uuid7(now_ms()))
    event = an_event(request, TENANT, owner=owner)
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: msgspec.msgpack.encode(event)})


ENDS = {
    "no object": "[]",
    "a text": '"x"',
    "deep": "[" * 100_000,
    "no reason": msgspec.json.encode({**END, "reason": None}).decode(),
    "a cost that is a text": msgspec.json.encode({**END, "cost": {"nano": "x", "currency": "usd"}}).decode(),
    "a cost below nothing": msgspec.json.encode({**END, "cost": {"nano": -1, "currency": "usd"}}).decode(),
    "a cost of many digits": msgspec.json.encode(
        {**END, "cost": {"nano": 1 << 63, "currency": "usd"}}
    ).decode(),
    "usage that is none": msgspec.json.encode({**END, "usage": 7}).decode(),
}


@pytest.mark.parametrize("name", ENDS)
async def test_an_end_that_is_none_is_recorded_as_lost(
    name: str, edge: GatewayContext, redis: Redis, sqlite: Database
):
    """The recorder lives, and the conversation goes on."""
    request = uuid7(now_ms())
    conversations = ConversationStore(sqlite)
    turn = Turn(uuid7(now_ms()), request, "hello", "tiny", now_ms())
    await conversations.open_turn(TENANT, ConversationOwner(PROJECT, "k1", ""), turn)
    await poison(redis, request, ENDS[name], {})
    await all_live([edge.pools.recorders["default"].run()], lambda: recorded(redis))
    found = await conversations.answer_row(TENANT, request)
    assert found is not None
    assert (found[0].status, found[0].code) == ("ended", "log_lost")


@pytest.mark.parametrize(
    "fields", [{"status": "none"}, {"control": "99999999999999999999"}, {"class": "none"}, {"epoch": "x"}]
)
async def test_a_record_that_is_none_ends_no_gateway(
    fields: dict[str, str], edge: GatewayContext, redis: Redis
):
    """Neither its recorder, nor its hub, which looks at what is read there."""
    request = uuid7(now_ms())
    await poison(redis, request, "{}", fields)
    hub = subscriptions_of(edge)
    await hub.start()
    hub.join(RequestName("default", TENANT, request), object())
    works = [edge.pools.recorders["default"].run(), hub.run(), PoolServices(edge).run()]
    await all_live(works, lambda: recorded(redis))


async def test_news_that_are_none_end_no_listening(edge: GatewayContext, redis: Redis):
    """What comes after them is heard."""
    hub = subscriptions_of(edge)
    await hub.start()
    request = uuid7(now_ms())
    followed = hub.join(RequestName("default", TENANT, request), object())
    entry = ["t", "x", 0, 1, 1, ""]

    async def told() -> bool:
        for bad in (
            b"",
            b"\xc1",
            b"\x91" * 100_000,
            msgspec.msgpack.encode([1]),
            msgspec.msgpack.encode([[1, 2]]),
        ):
            await redis.spublish("{p:default}gw:gw-test", bad)
        for fields in (["?", *entry[1:]], [*entry, 1], 7):
            bad = [[TENANT, request, 1, [fields], 1]]
            await redis.spublish("{p:default}gw:gw-test", msgspec.msgpack.encode(bad))
        good = [[TENANT, request, 1, [entry], 1]]
        await redis.spublish("{p:default}gw:gw-test", msgspec.msgpack.encode(good))
        return followed.head == 1

    followed.heard_at += 3_600
    await all_live([hub.run()], told)


async def test_pools_whose_names_are_none_are_left_out(
    edge: GatewayContext, redis: Redis, settings: Settings, sqlite: Database
):
    """Nobody who serves all pools ends of them."""
    await redis.sadd("parley:pools", b"\xff", b"", b"a}b", b"a\nb", b"x" * 1_000, b"big")
    assert await known_pools(redis, settings) == {"big"}
    queue, quota = PoolQueue(redis, "default", settings), Quota(redis, settings, sqlite)
    stop = asyncio.Event()
    biller = Biller(sqlite, redis, settings, ["default"])

    async def joined() -> bool:
        return bool(await redis.exists(ended_stream("big")))

    await all_live([PoolServices(edge).run(), biller.run(stop), Reaper(queue, quota, 10).run()], joined)
