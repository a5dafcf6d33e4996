"""Requests of two tenants at one gateway: each goes to the pool that serves its tenant, or is refused."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from billing.dedicated_pools.pools import create_pool, delete_pool, drain_pool
from billing.dedicated_pools.versions import tell_routes
from billing.tables.pools import PoolRow
from billing.usage import ENDED_FIELD, decode, ended_stream
from chaos.injected.scripted import ScriptedEngine
from engine.api import PoolQueue, list_models
from server.models import catalogue
from tests.engine.workers import PoolWorkers
from tests.server.site import Site, saying
from tests.support.patience import wait_until
from tests.system.wire import wired

OWN = "own"


async def is_refused(gateway: Site, key: str, words: str) -> bool:
    """Whether a send of this key is refused in these words, to be tried again later."""
    async with gateway.welcomed(key) as asking:
        await asking.send()
        while (answer := await asking.hear())["t"] not in ("accepted", "error"):
            pass
    return answer.get("code") == "overloaded" and answer["message"].startswith(words)


async def test_a_tenants_requests_go_to_its_own_pool_and_no_strangers_do(gateway: Site):
    """Within the two seconds for which a gateway keeps routes. Once all pools of the model are another's or
    drain, a stranger is refused and nothing of it reaches a pool."""
    (model,) = await list_models(gateway.database)
    facts: dict[str, Any] = {"model": model.name, "version": model.version, "workers": 1, "labels": {}}
    redis: Any = gateway.redis

    async def ended_in(pool: str) -> set[str]:
        events = await redis.xrange(ended_stream(pool))
        return {decode(fields[ENDED_FIELD.encode()]).tenant for _, fields in events}

    async with AsyncExitStack() as stack:
        for crew in (gateway.crew, PoolWorkers(gateway.redis, gateway.settings, OWN, as_worker=True)):
            await stack.enter_async_context(crew.worker(ScriptedEngine(saying("Hi."))))
        mine = await stack.enter_async_context(wired(gateway.url, gateway.key))
        theirs = await stack.enter_async_context(wired(gateway.url, await gateway.foreign_key()))
        await create_pool(gateway.database, PoolRow(pool=OWN, tenant_id=gateway.tenant, made_ms=1, **facts))

        async def goes_to_its_own() -> bool:
            await mine.finish(await mine.send("hello"))
            return gateway.tenant in await ended_in(OWN)

        await wait_until(goes_to_its_own)
        await theirs.finish(await theirs.send("hello"))
        assert len(await ended_in("default") - {gateway.tenant}) == 1
        assert await ended_in(OWN) == {gateway.tenant}

        await drain_pool(gateway.database, "default")
        key = await gateway.foreign_key()

        await wait_until(lambda: is_refused(gateway, key, "no pool takes requests for tiny"))
        await mine.finish(await mine.send("hello"))
        assert await ended_in(OWN) == {gateway.tenant}


async def test_a_model_that_no_pool_serves_is_refused(gateway: Site):
    """Its name is in the message, and how the operator helps."""
    await drain_pool(gateway.database, "default")
    await delete_pool(gateway.database, "default")
    told = (
        "no pool serves the model tiny: the operator makes one with `parley pools create POOL --model tiny`"
    )
    await wait_until(lambda: is_refused(gateway, gateway.key, told))


async def test_news_of_routes_count_at_once(gateway: Site, monkeypatch: pytest.MonkeyPatch):
    """However long a gateway keeps what it read, as a pool that has switched its version tells it."""
    monkeypatch.setattr(catalogue, "KEEP_SECONDS", 3_600.0)
    async with gateway.answering("ok"), gateway.welcomed() as peer:
        await peer.hear("accepted", id=await peer.send())
        await drain_pool(gateway.database, "default")
        await peer.hear("accepted", id=await peer.send())
    await tell_routes(gateway.redis)
    await wait_until(lambda: is_refused(gateway, gateway.key, "no pool takes requests for tiny"))


async def test_a_send_follows_its_tenant_that_has_just_moved(gateway: Site):
    """A gateway that still has the old route asks anew where the old pool refuses, and its client notices
    nothing; where the route stays, the pool's refusal is the answer."""
    (model,) = await list_models(gateway.database)
    facts: dict[str, Any] = {"model": model.name, "version": model.version, "workers": 1, "labels": {}}
    own = PoolWorkers(gateway.redis, gateway.settings, OWN, as_worker=True)
    async with AsyncExitStack() as stack:
        for crew in (gateway.crew, own):
            await stack.enter_async_context(crew.worker(ScriptedEngine(saying("Hi."))))
        client = await stack.enter_async_context(wired(gateway.url, gateway.key))
        await client.finish(await client.send("hello"))
        old = PoolQueue(gateway.redis, "default", gateway.settings)
        assert await old.admit(["another"])
        with pytest.raises(AssertionError, match="takes no requests of this tenant"):
            await client.send("hello")
        await create_pool(gateway.database, PoolRow(pool=OWN, tenant_id=gateway.tenant, made_ms=1, **facts))
        await client.finish(await client.send("hello"))
        redis: Any = gateway.redis
        assert len(await redis.xrange(ended_stream(OWN))) == 1
