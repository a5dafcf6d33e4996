"""Loops of gateways, billers and nodes: one bad thing does not end them, nor hold up what is beside it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from billing.api import CONTROL_CHANNEL, TERMS_CHANGED, ControlNews, PoolTerms, create_tenant, set_terms
from billing.enforcement import wallet_watch
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import PoolQueue
from engine.node.reports import NodeReport, PoolNodes
from engine.queue import redis_keys
from engine.trials.server import TrialServer
from server.connection.gateway_connections import GatewayConnections
from server.context import make_context
from server.conversations.erasure import erase_texts
from server.pools.tenant_terms import TenantTermsSync
from tests.security.poisoned_pools import all_live
from tests.server.conversations.purged import conversation, rows
from tests.server.http_site import http_site
from tests.support.redis import Redis

POOL = "default"
REQUEST = "0190aaaa-0000-7000-8000-000000000001"


async def raises(*_: Any, **__: Any) -> Any:
    """What nobody foresaw."""
    raise AttributeError("poison")


async def test_a_door_outlives_what_nobody_foresaw(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Its upkeep fails, news cannot be read, one cannot be obeyed: the next are."""
    edge = make_context(settings, "gw-test", sqlite, redis)
    obeyed = list[int]()

    def changed() -> None:
        obeyed.append(1)
        raise AttributeError("poison")

    monkeypatch.setattr(edge.terms, "changed", changed)
    monkeypatch.setattr("server.connection.gateway_connections.KEEP_SECONDS", 0.0)
    monkeypatch.setattr(GatewayConnections, "_keep_sessions", raises)
    client: Any = redis

    async def twice() -> bool:
        for news in (b"\xff", b"[" * 100_000, ControlNews(kind=TERMS_CHANGED, tenant="t", key="")):
            await client.publish(CONTROL_CHANNEL, news if isinstance(news, bytes) else encoded(news))
        return len(obeyed) > 1

    with capture_logs() as lines:
        await all_live([GatewayConnections(edge).run()], twice)
    said = {line["event"] for line in lines}
    assert said >= {"control_news.obey_failed", "control_news.unreadable", "connection.upkeep_failed"}
    assert "control_news.interrupted" not in said
    assert "poison" not in str(lines)


def encoded(news: ControlNews) -> bytes:
    """As it is published."""
    return msgspec.json.encode(news)


async def test_a_tenant_whose_terms_cannot_be_written_holds_up_no_other(
    sqlite: Database, redis: Redis, settings: Settings
):
    """Its keys in the pool are of another kind: they go, and each has its terms."""
    tenants = [(await create_tenant(sqlite, name)).tenant_id for name in ("acme", "bolt")]
    for tenant in tenants:
        await set_terms(sqlite, redis, PoolTerms(tenant_id=tenant, slots_max=3))
    client: Any = redis
    for poisoned, good in (tenants, tenants[::-1]):
        await client.delete(*[f"{{p:{POOL}}}ten:{each}" for each in tenants])
        await client.set(f"{{p:{POOL}}}ten:{poisoned}", "x")
        with capture_logs() as lines:
            await TenantTermsSync(sqlite, redis, {POOL: PoolQueue(redis, POOL, settings)}, settings).apply()
        assert await client.hget(f"{{p:{POOL}}}ten:{good}", "slots_max") == b"3"
        assert await client.hget(f"{{p:{POOL}}}ten:{poisoned}", "slots_max") == b"3"
        assert not [line for line in lines if line["event"] == "tenant_terms.set_failed"]


async def test_terms_are_brought_again_after_what_nobody_foresaw(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """The next round comes."""
    rounds = list[int]()

    async def fails(_: TenantTermsSync) -> None:
        rounds.append(1)
        raise AttributeError("poison")

    monkeypatch.setattr(TenantTermsSync, "apply", fails)
    terms = TenantTermsSync(sqlite, redis, {}, settings)

    async def again() -> bool:
        terms.changed()
        return len(rounds) > 2

    await all_live([terms.run()], again)


async def test_a_wallet_that_nobody_foresaw_holds_up_no_other(
    sqlite: Database, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    """The others' grants end, in this round and in each that follows."""
    ended = list[str]()

    async def found(*_: Any) -> list[str]:
        return ["poison", "t"]

    async def expire(_: Database, tenant: str, __: int) -> list[Any]:
        if tenant == "poison":
            raise AttributeError(tenant)
        ended.append(tenant)
        return [(SimpleNamespace(id="g"), 1)]

    monkeypatch.setattr(wallet_watch, "tenants_with_expired", found)
    monkeypatch.setattr(wallet_watch, "expire", expire)
    assert await wallet_watch.expire_all(sqlite, redis, 1) == 1
    assert ended == ["t"]
    monkeypatch.setattr(wallet_watch, "tenants_with_expired", raises)
    monkeypatch.setattr(wallet_watch, "LOOK_SECONDS", 0.0)
    rounds = list[int]()
    monkeypatch.setattr(wallet_watch, "now_ms", lambda: rounds.append(1) or 1)

    async def again() -> bool:
        return len(rounds) > 2

    await all_live([wallet_watch.watch_wallets(sqlite, redis, asyncio.Event())], again)


async def test_a_supervisors_name_that_is_none_hides_no_other(redis: Redis, settings: Settings):
    """The others' reports are read."""
    nodes = PoolNodes(PoolQueue(redis, POOL, settings))
    await nodes.report(NodeReport("node", "node", 1, []))
    client: Any = redis
    await client.zadd(f"{{p:{POOL}}}supervisors", {b"\xff": 1})
    assert [report.supervisor for report in await nodes.reports()] == ["node"]


async def test_a_shape_that_is_none_is_tried_by_nobody(redis: Redis, settings: Settings):
    """It is taken away, and the next one is tried."""
    client: Any = redis
    tried = list[str]()

    class FailingTrier:
        async def problem(self, packed: str) -> str:
            tried.append(packed)
            if packed == "strange":
                raise AttributeError("poison")
            return ""

    for name, shape in (("n1", b"\xff"), ("n2", b"strange"), ("n3", b"good")):
        await client.set(redis_keys.trial(settings.pool, "t", name), shape)
        await client.rpush(redis_keys.trials(settings.pool, "f"), f"t:{name}")

    async def good() -> bool:
        return await client.get(redis_keys.verdict(settings.pool, "n3")) is not None

    with capture_logs() as lines:
        await all_live([TrialServer(settings, redis).serve(FailingTrier(), "f")], good)
    assert "good" in tried
    assert not await client.exists(redis_keys.trial(settings.pool, "t", "n1"))
    assert {"trials.format_unreadable", "trials.trial_failed"} <= {line["event"] for line in lines}


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "running"])
async def test_a_conversation_whose_keys_are_broken_holds_up_no_erasing(
    database: Database, redis: Redis, settings: Settings, ended: bool
):
    """All rows go, of an answer that is not stored too, and with the broken record what is in Redis."""
    async with http_site(database, redis, settings) as site:
        await conversation(site, REQUEST, ended=ended)
        await conversation(site)
        client: Any = redis
        key = f"{{p:{POOL}}}req:{site.tenant}:{REQUEST}"
        await client.set(key, "x")
        await erase_texts(site.edge.db, redis, settings, site.tenant, None)
        kinds = ("req", "in", "tok", "log", "rd")
        assert not await client.exists(*[f"{{p:{POOL}}}{kind}:{site.tenant}:{REQUEST}" for kind in kinds])
        assert await rows(database) == (0, 0)
