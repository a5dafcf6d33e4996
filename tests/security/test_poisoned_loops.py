"""One poisoned entry before good ones stops no loop that serves others: it is said and set aside, and they
are served."""

import asyncio
from typing import Any

import pytest
from sqlmodel import select
from structlog.testing import capture_logs

from billing.booking import assess
from billing.posting.biller import Biller
from billing.quota.client import Quota
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.usage import ENDED_FIELD, UsageEvent, encode, ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import PoolQueue
from engine.lifecycle.reaper import Reaper
from engine.lifecycle.stale_admissions import release_stale_admissions
from engine.node.reports import PoolNodes, WorkerOrderKind
from server.context import make_context
from server.conversations.purge import Purge
from tests.billing.events import an_event
from tests.security.poisoned_pools import all_live
from tests.server.conversations.purged import conversation, rows
from tests.server.http_site import http_site, subscriptions_of
from tests.support.redis import Redis

POOL = "default"


def failing(real: Any, poison: str, error: type[Exception]) -> Any:
    """`real`, but for what names the poison."""

    def instead(*arguments: Any, **named: Any) -> Any:
        if poison in repr(arguments):
            raise error(poison)
        return real(*arguments, **named)

    return instead


@pytest.mark.parametrize("error", [KeyError, RecursionError, AssertionError])
async def test_an_event_that_nobody_foresaw_is_held_alone(
    error: type[Exception],
    sqlite: Database,
    redis: Redis,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
):
    """What stands before and behind it is billed."""
    monkeypatch.setattr(assess, "_unstorable", failing(assess._unstorable, "poison", error))
    for request in ("r1", "poison", "r2"):
        await redis.xadd(ended_stream(POOL), {ENDED_FIELD: encode(an_event(request))})

    async def done() -> bool:
        async with sqlite.session() as session:
            held = (await session.exec(select(UsageQuarantine.detail))).all()
            billed = (await session.exec(select(UsageRow.request_id))).all()
        return set(billed) == {"r1", "r2"} and [error.__name__ in detail for detail in held] == [True]

    stop = asyncio.Event()
    await all_live([Biller(sqlite, redis, settings, [POOL]).run(stop)], done)


async def test_a_settlement_that_nobody_foresaw_holds_up_no_other(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """All are billed, and acknowledged."""
    real, settled = Quota.settle_all, list[str]()

    async def settle_all(self: Quota, ended: list[tuple[UsageEvent, int | None]], now: int = 0) -> Any:
        if "poison" in repr(ended):
            raise KeyError("poison")
        settled.extend(event.request for event, _ in ended)
        return await real(self, ended, now)

    monkeypatch.setattr(Quota, "settle_all", settle_all)
    for request in ("poison", "r1", "r2"):
        await redis.xadd(ended_stream(POOL), {ENDED_FIELD: encode(an_event(request))})

    async def done() -> bool:
        return settled == ["r1", "r2"]

    await all_live([Biller(sqlite, redis, settings, [POOL]).run(asyncio.Event())], done)


async def test_a_tenant_whose_keys_are_broken_holds_up_no_sweep(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """The others are swept."""
    seen = list[str]()

    async def stale(self: Quota, tenant: str, older_ms: int) -> Any:
        seen.append(tenant)
        if tenant == "a":
            raise KeyError(tenant)
        return []

    async def open_tenants(self: Quota) -> set[str]:
        return {"a", "b"}

    monkeypatch.setattr(Quota, "stale", stale)
    monkeypatch.setattr(Quota, "open_tenants", open_tenants)
    queue, quota = PoolQueue(redis, POOL, settings), Quota(redis, settings)
    with capture_logs() as lines:
        assert await release_stale_admissions(queue, quota) == 0
    assert seen == ["a", "b"]
    assert [line["event"] for line in lines] == ["admission.release_failed"]


@pytest.mark.parametrize("loop", ["reaper", "hub"])
async def test_a_round_that_fails_is_not_the_last(
    loop: str, sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Whatever is raised in it."""
    rounds = 0

    async def fails(*_: Any, **__: Any) -> Any:
        nonlocal rounds
        rounds += 1
        raise AttributeError("poison")

    monkeypatch.setattr(PoolQueue, "reap" if loop == "reaper" else "renew_gateway", fails)
    monkeypatch.setattr("server.reading.subscriptions.RENEW_SECONDS", 0.01)
    if loop == "reaper":
        running = Reaper(PoolQueue(redis, POOL, settings), Quota(redis, settings), 10).run()
    else:
        hub = subscriptions_of(make_context(settings, "gw-test", sqlite, redis))
        hub._joined.add(POOL)  # pyright: ignore[reportPrivateUsage]
        running = hub.run()

    async def again() -> bool:
        return rounds > 2

    await all_live([running], again)


async def test_a_conversation_whose_keys_are_broken_holds_up_no_purge(
    database: Database, redis: Redis, settings: Settings
):
    """It goes, as do those that were deleted after it: a broken record holds nothing."""
    async with http_site(database, redis, settings) as site:
        poison = await conversation(site, "0190aaaa-0000-7000-8000-000000000001")
        good = await conversation(site)
        for each in (poison, good):
            await site.client.delete(f"/v1/conversations/{each}", headers=site.bearer)
        await redis.set(f"{{p:{POOL}}}req:{site.tenant}:0190aaaa-0000-7000-8000-000000000001", "x")
        purge = Purge(site.edge.db, site.edge.pools.recorders, settings)
        later = now_ms() + settings.deleted_keep_seconds * 1000 + 1_000
        with capture_logs() as lines:
            while await purge.step(later):
                pass
        assert not [line for line in lines if line["event"] == "purge.delete_failed"]
        assert await rows(database) == (0, 0)


async def test_an_order_that_is_none_is_passed_over(redis: Redis, settings: Settings):
    """The next one is obeyed."""
    nodes = PoolNodes(PoolQueue(redis, POOL, settings))
    await redis.rpush(f"{{p:{POOL}}}orders:node", b"\xff", b"dance w1")  # pyright: ignore
    await nodes.order("node", WorkerOrderKind.KILL, "w1")
    found = [await nodes.next_order("node", 1) for _ in range(3)]
    assert [order.kind if order else None for order in found] == [None, None, WorkerOrderKind.KILL]
