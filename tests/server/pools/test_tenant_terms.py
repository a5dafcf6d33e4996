"""What operators set for a tenant reaches the pools: at once, and again after Redis lost it."""

import asyncio
from typing import Any

import pytest
from pydantic import SecretStr
from redis.exceptions import ConnectionError as GoneError
from redis.exceptions import ResponseError
from structlog.testing import capture_logs

from billing.api import PoolTerms, create_tenant, set_terms
from core.configuration.settings import Settings
from core.errors import Refused
from core.redis.client import RedisClient
from core.sql.database import Database
from engine.api import PoolQueue, PriorityClass, TenantTerms
from server.pools import tenant_terms as module
from server.pools.tenant_terms import TenantTermsSync, terms_of
from tests.server.virtual.loop import passed, passing, played
from tests.support.patience import wait_until
from tests.support.watch import StubClock

POOL = "terms"


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """A pool of its own; looked at rarely, so that only news explains a fast change."""
    return Settings(
        redis_url=SecretStr(redis_url), pool=POOL, terms_seconds=600, reserve_interactive_tokens=4096
    )


@pytest.fixture
def terms(database: Database, redis: RedisClient, settings: Settings) -> TenantTermsSync:
    """A gateway's keeper."""
    return TenantTermsSync(database, redis, {POOL: PoolQueue(redis, POOL, settings)}, settings)


async def in_the_pool(redis: RedisClient, tenant: str) -> dict[bytes, bytes]:
    """The tenant's record in the pool."""
    return await redis.hgetall(f"{{p:{POOL}}}ten:{tenant}")  # type: ignore[no-any-return, misc]


async def test_terms_and_reserves_are_written_to_the_pool(
    database: Database, redis: RedisClient, terms: TenantTermsSync
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
    database: Database, redis: RedisClient, terms: TenantTermsSync, settings: Settings
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
        await TenantTermsSync(database, redis, {POOL: PoolQueue(redis, POOL, settings)}, settings).apply()
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
    database: Database, redis: RedisClient, bad: dict[str, float]
) -> None:
    """Nothing is stored."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    with pytest.raises(Refused):
        await set_terms(database, redis, PoolTerms(tenant_id=tenant, **bad))  # type: ignore[arg-type]


SETTINGS = Settings(reserve_interactive_tokens=11, reserve_standard_tokens=22, terms_seconds=100)


class TermsWorld:
    """The tables, Redis, and its pools `a` and `b`; `wrote`: what pools were told."""

    def __init__(self) -> None:
        self.rows = [PoolTerms(tenant_id="t", weight=2.0), PoolTerms(tenant_id="u", slots_max=3)]
        self.run_id = "1"
        self.wrote: list[tuple[Any, ...]] = []
        self.looks: list[float] = []
        self.errors: dict[tuple[str, str], Exception] = {}
        self.full = set[str]()

    async def info(self, section: str) -> dict[str, str]:
        """As Redis'."""
        assert section == "server"
        return {"run_id": self.run_id}

    async def list_terms(self, _: object) -> list[PoolTerms]:
        """As billing's."""
        return self.rows

    def keeper(self) -> TenantTermsSync:
        """A gateway's."""
        world: Any = self
        pools: Any = {name: TermsPool(self, name) for name in "ab"}
        return TenantTermsSync(world, world, pools, SETTINGS)

    def told(self) -> list[tuple[Any, ...]]:
        """What was written since it was last asked."""
        wrote, self.wrote = self.wrote, []
        return wrote


class TermsPool:
    """As engine's queue."""

    def __init__(self, world: TermsWorld, name: str) -> None:
        self._world, self._name = world, name

    async def set_reserve(self, priority: PriorityClass, tokens: int) -> None:
        """Of a class."""
        self._world.wrote.append((self._name, priority.value, tokens))

    async def set_tenant(self, tenant: str, terms: TenantTerms) -> bool:
        """False: it has no room for another's reserve."""
        self._world.wrote.append((self._name, tenant, terms.weight))
        if error := self._world.errors.get((self._name, tenant)):
            raise error
        return self._name not in self._world.full


RESERVES = [(pool, *of) for pool in "ab" for of in (("interactive", 11), ("standard", 22))]
TERMS = [(pool, *of) for of in (("t", 2.0), ("u", 1.0)) for pool in "ab"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> TermsWorld:
    """In place of SQL and Redis."""
    made = TermsWorld()
    monkeypatch.setattr(module, "list_terms", made.list_terms)
    return made


async def test_what_is_new_is_written(world: TermsWorld, watch: StubClock):
    """All to a Redis or a pool that is new, and after a minute."""
    keeper = world.keeper()
    await keeper.apply()
    assert world.told() == RESERVES + TERMS
    watch.ms += 59_999
    await keeper.apply()
    assert world.told() == []
    world.rows[0].weight = 4.0
    await keeper.apply()
    assert world.told() == [("a", "t", 4.0), ("b", "t", 4.0)]
    world.rows[0].weight = 2.0
    watch.ms += 1
    for passed_ms, change in ((0, None), (0, "2"), (59_999, None), (1, None), (0, "pool")):
        watch.ms += passed_ms
        if change == "pool":
            keeper.pool_added()
        elif change:
            world.run_id = change
        await keeper.apply()
        assert world.told() == ([] if passed_ms > 1 else RESERVES + TERMS)


async def test_one_pool_or_tenant_keeps_no_other_from_its_terms(world: TermsWorld, watch: StubClock):
    """What could not be written is tried again; what a pool has no room for is said."""
    keeper = world.keeper()
    world.errors["a", "t"] = ResponseError("WRONGTYPE x")
    world.full = {"b"}
    with capture_logs() as logs:
        await keeper.apply()
    assert world.told() == RESERVES + TERMS
    assert [(each["event"], each["pool"], each["tenant"]) for each in logs] == [
        ("tenant_terms.set_failed", "a", "t"),
        ("tenant_terms.reserves_over_limit", "b", "t"),
        ("tenant_terms.reserves_over_limit", "b", "u"),
    ]
    world.errors.clear()
    for wrote in ([("a", "t", 2.0), ("b", "t", 2.0)], []):
        await keeper.apply()
        assert world.told() == wrote


async def test_a_redis_that_is_away_ends_the_round(world: TermsWorld, watch: StubClock):
    """Nobody's keys are to blame for it."""
    world.errors["a", "t"] = GoneError("x")
    with pytest.raises(GoneError):
        await world.keeper().apply()
    assert world.told() == [*RESERVES, ("a", "t", 2.0)]


def test_it_looks_at_news_and_now_and_then(world: TermsWorld):
    """Whatever happens."""

    async def day() -> list[float]:
        keeper, looks = world.keeper(), list[float]()

        async def apply() -> None:
            looks.append(passed())
            raise ValueError

        keeper.apply = apply
        running = asyncio.create_task(keeper.run())
        for tell in (keeper.changed, keeper.pool_added):
            await passing(110)
            tell()
        await passing(110)
        running.cancel()
        return looks

    assert played(day()) == [0, 100, 110, 210, 220, 320]


def test_terms_are_what_the_queue_takes():
    """Each in its place."""
    row = PoolTerms(tenant_id="t", weight=2.0, slots_max=3, tokens_max=4, reserve_tokens=5)
    assert terms_of(row) == TenantTerms(weight=2.0, slots_max=3, tokens_max=4, reserve_tokens=5)
