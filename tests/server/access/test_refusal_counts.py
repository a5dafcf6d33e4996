"""What a gateway refuses is told to who counts it, by whom and why, and holds nobody up."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from billing.api import Principal, RefusalMatch, RefusalSearch, find_refusals, set_policy
from billing.requests.refusal_counter import RefusalCounter
from billing.requests.refusal_stream import ROWS_MAX, rows_of, stream_key
from billing.tenants.users import user_named
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.ids import uuid7
from core.sql.database import Database
from server.access.refusal_counts import RefusalNotes
from tests.server.requests.refusals import refusal
from tests.server.site import Site, running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis

WHO = Principal("acme", "p1", "k1", "", frozenset({"chat"}), "bulk", None, False, "k1")
ID = uuid7(now_ms())
WORDS = "what nobody but its reader may see"


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A whole gateway, which lets a caller send thrice at once."""
    async with running_site(settings, sqlite, redis, sends_per_caller_per_second=3) as site:
        yield site


async def counted(site: Site, number: int) -> list[RefusalMatch]:
    """All that is stored, once it is so many."""
    counter = RefusalCounter(site.database, site.redis, site.settings)

    async def found() -> list[RefusalMatch]:
        await counter.step(now_ms())
        sought = RefusalSearch(since_ms=0, until_ms=now_ms() + 60_000)
        page = (await find_refusals(site.database, sought)).found
        return page if sum(each.number for each in page) >= number else []

    return await wait_until(found)


async def test_what_is_refused_at_admission_is_told_with_who_and_why(gateway: Site):
    """A bad request, an unknown model, a rate of the key, one of a user, and one of this gateway alone."""
    async with gateway.welcomed() as peer:
        await peer.send(["none"])
        await peer.hear("error")
        unknown = await peer.send(model="nobodys", content=WORDS)
        await peer.hear("error", id=unknown)
        await set_policy(
            gateway.database,
            gateway.redis,
            gateway.tenant,
            scope="user",
            dimension="requests_per_minute",
            limit=0,
        )
        limited = await refusal(peer, metadata={"user": "ann"})
        sent = 3
        while (await peer.hear("error", id=await peer.send(model="nobodys")))["code"] == "unknown_model":
            sent += 1
    found = await counted(gateway, sent + 1)
    ann = await user_named(gateway.database, gateway.tenant, "ann")
    assert ann is not None
    by_code = {each.code: each for each in found if each.user_id != ann.id}
    assert set(by_code) == {"bad_request", "unknown_model", "rate_limited"}, found
    assert all((each.tenant, each.key) == (gateway.tenant, gateway.key_id) for each in found)
    (hers,) = [each for each in found if each.user_id == ann.id and each.code == "insufficient_quota"]
    assert (hers.user, hers.why, hers.last_ids[-1]) == ("ann", "user requests_per_minute", limited["id"])
    assert unknown in by_code["unknown_model"].last_ids or by_code["unknown_model"].number > 3
    assert by_code["rate_limited"].why == "caller"
    assert WORDS not in repr(found)


class AwayRedis:
    """A Redis that does not answer, at once or ever."""

    def __init__(self, hangs: bool) -> None:
        self._hangs = hangs

    async def xlen(self, _key: str) -> int:
        if self._hangs:
            await asyncio.Event().wait()
        raise RedisConnectionError("away")


async def test_memory_is_bounded_while_redis_is_away_and_nothing_is_lost(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A flood of tens of thousands of users of many tenants; it is told when Redis is back."""
    refusals = RefusalNotes(redis, settings)
    stores: list[Any] = [AwayRedis(hangs=False), AwayRedis(hangs=True), redis]
    for round, store in enumerate(stores):
        refusals._tally._redis = store  # pyright: ignore[reportPrivateUsage]
        for number in range(10_000):
            who = Principal(f"t{number % 97}", "p1", "k1", "", frozenset(), "bulk", None, False, "k1")
            refusals.note(who, uuid7(now_ms()), f"u{round}-{number}", Refusal("overloaded", WORDS))
            assert refusals.rows <= 2 * ROWS_MAX
        with monkeypatch.context() as hasty:
            if store is not redis:
                hasty.setattr("server.access.refusal_counts.FLUSH_SECONDS_MAX", 0.01)
            await refusals.flush()
    assert refusals.rows == 0
    client: Any = redis
    (entry,) = await client.xrange(stream_key(settings.installation))
    told = rows_of(entry[1][b"c"])
    assert isinstance(told, list)
    assert len(told) <= ROWS_MAX
    assert sum(row.number for row in told) == 30_000
    assert WORDS.encode() not in entry[1][b"c"]


def test_noting_one_is_cheap(redis_url: str, settings: Settings) -> None:
    """A flood of users costs each refusal some microseconds, folding included."""
    refusals = RefusalNotes(Redis.from_url(redis_url), settings)
    who, refused = WHO, Refusal("rate_limited", "", scope="user", dimension="requests_per_minute")
    began = time.thread_time()
    for number in range(50_000):
        refusals.note(who, ID, f"u{number}", refused)
    assert time.thread_time() - began < 50_000 * 200e-6
