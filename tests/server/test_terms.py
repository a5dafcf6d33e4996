"""What operators set for a tenant reaches the pools: at once, and again after Redis lost it."""

import asyncio

import pytest
from pydantic import SecretStr

from billing.api import PoolTerms, create_tenant, set_terms
from core.database import Database
from core.errors import Refused
from core.redis import Client
from core.settings import Settings
from engine.api import PoolQueue
from server.terms import Terms
from tests.support.patience import wait_until

POOL = "terms"


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """A pool of its own; looked at rarely, so that only news explains a fast change."""
    return Settings(
        redis_url=SecretStr(redis_url), pool=POOL, terms_seconds=600, reserve_interactive_tokens=4096
    )


@pytest.fixture
def terms(database: Database, redis: Client, settings: Settings) -> Terms:
    """A gateway's keeper."""
    return Terms(database, redis, {POOL: PoolQueue(redis, POOL, settings)}, settings)


async def in_the_pool(redis: Client, tenant: str) -> dict[bytes, bytes]:
    """The tenant's record in the pool."""
    return await redis.hgetall(f"{{p:{POOL}}}ten:{tenant}")  # type: ignore[no-any-return, misc]


async def test_terms_and_reserves_are_written_to_the_pool(
    database: Database, redis: Client, terms: Terms
) -> None:
    """A cap that is taken away again is gone from the pool too."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await set_terms(database, redis, PoolTerms(tenant_id=tenant, weight=4.0, slots_max=3, tokens_max=900))
    await terms.apply()
    record = await in_the_pool(redis, tenant)
    assert (float(record[b"weight"]), record[b"slots_max"], record[b"tokens_max"]) == (4.0, b"3", b"900")
    assert await redis.hget(f"{{p:{POOL}}}sys", "reserve:interactive") == b"4096"  # type: ignore[misc]
    await set_terms(database, redis, PoolTerms(tenant_id=tenant, reserve_tokens=512))
    await terms.apply()
    record = await in_the_pool(redis, tenant)
    assert float(record[b"weight"]) == 1.0
    assert not {b"slots_max", b"tokens_max"} & set(record)
    assert await redis.hget(f"{{p:{POOL}}}reserves", tenant) == b"512"  # type: ignore[misc]


async def test_news_bring_them_at_once_and_a_new_redis_gets_all(
    database: Database, redis: Client, terms: Terms, settings: Settings
) -> None:
    """The keeper looks every ten minutes here: what comes sooner came by the news."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    running = asyncio.create_task(terms.run())
    try:
        await set_terms(database, redis, PoolTerms(tenant_id=tenant, weight=2.0))
        terms.changed()

        async def weight_is(value: float) -> bool:
            record = await in_the_pool(redis, tenant)
            return float(record.get(b"weight", b"0")) == value

        await wait_until(lambda: weight_is(2.0))
        await redis.delete(f"{{p:{POOL}}}ten:{tenant}")
        await Terms(database, redis, {POOL: PoolQueue(redis, POOL, settings)}, settings).apply()
        assert await weight_is(2.0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    "bad",
    [
        {"weight": 0.0},
        {"weight": float("nan")},
        {"slots_max": 0},
        {"tokens_max": -5},
        {"reserve_tokens": 2**60},
    ],
)
async def test_terms_that_are_none_are_refused(
    database: Database, redis: Client, bad: dict[str, float]
) -> None:
    """Nothing is stored."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    with pytest.raises(Refused):
        await set_terms(database, redis, PoolTerms(tenant_id=tenant, **bad))  # type: ignore[arg-type]
