"""Which limits apply to a request, and the rows that say so, on SQLite and Postgres."""

import asyncio
from collections.abc import AsyncGenerator
from zoneinfo import ZoneInfo

import msgspec
import pytest
from sqlalchemy.exc import OperationalError

from billing.enforcement import limit_cache
from billing.enforcement.limit_cache import KEPT_MS, LimitCache, read_rows
from billing.enforcement.limit_settings import (
    ROWS_MAX,
    end_budget,
    end_policy,
    list_budgets,
    list_policies,
    override_budget,
    set_budget,
    set_policy,
)
from billing.limits import (
    LIMIT_NANO_MAX,
    UNITS_MAX,
    Dimension,
    Mode,
    RequestFacts,
    RequestLimits,
    Scope,
    TenantRows,
    limits_of,
)
from billing.periods import Period, window_at
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.tenants import PLATFORM, Plan, Tenant
from billing.tenants.tenancy import CONTROL_CHANNEL, ControlNews, create_tenant
from core.errors import Refused
from core.sql.database import Database
from tests.support.patience import wait_until
from tests.support.redis import Redis

BERLIN = ZoneInfo("Europe/Berlin")
AT = 1_790_000_000_000
FACTS = RequestFacts("t1", "p1", "k1", "u1", "llama-8b")
A = {"tenant_id": "t1", "id": "a", "created_ms": 1}


def policy(scope: str = "tenant", limit: int = 60, **facts: object) -> QuotaPolicy:
    """An open row."""
    of = {"dimension": "requests_per_minute", "scope": scope, "limit_units": limit, **A}
    return QuotaPolicy(**{**of, **facts})  # type: ignore[arg-type]


def budget(scope: str = "tenant", limit: int = 10, **facts: object) -> Budget:
    """An open row."""
    of = {"scope": scope, "period": "month", "limit_nano": limit, "thresholds": [], **A}
    return Budget(**{**of, **facts})  # type: ignore[arg-type]


def of(*rows: QuotaPolicy | Budget, facts: RequestFacts = FACTS, wallet: int | None = None) -> RequestLimits:
    """What these rows mean for a request."""
    policies = [row for row in rows if isinstance(row, QuotaPolicy)]
    budgets = [row for row in rows if isinstance(row, Budget)]
    return limits_of(TenantRows("t1", BERLIN, policies, budgets, wallet), facts, AT)


def test_a_limit_for_all_is_one_for_each() -> None:
    """Two users of one limit do not share it, and a request without a user has none. A user
    whom nobody has seen yet has it from the first request on."""
    (unit,) = of(policy("user")).units
    assert (unit.scope, unit.scope_id) == (Scope.USER, "u1")
    other = RequestFacts("t1", "p1", "k1", "u:2", "llama-8b")
    assert of(policy("user"), facts=other).units[0].key != unit.key
    assert of(policy("user"), facts=RequestFacts("t1", "p1", "k1", "", "m")) == RequestLimits()


def test_what_is_counted_has_one_key_whatever_the_limit_is() -> None:
    """An edit resets nothing; names with any characters do not meet."""
    assert of(policy(limit=1)).units[0].key == of(policy(limit=2, id="b")).units[0].key
    assert of(budget(limit=1)).money[0].key == of(budget(limit=2, id="b")).money[0].key
    keys = {
        of(policy("user"), facts=RequestFacts("t1", "p", "k", user, "m")).units[0].key
        for user in ("a", "a:*", "a%3A*", "a*", "é", "~", "")
        if user
    }
    assert len(keys) == 6


def test_the_row_that_names_it_holds_then_the_tenant_s_own_then_the_plan_s() -> None:
    """Each for what it counts: scope, models and dimension."""
    plan = policy("project", 1, tenant_id=PLATFORM, id="p")
    own = policy("project", 2, id="o")
    named = policy("project", 3, id="n", scope_id="p1")
    assert [unit.limit for unit in of(plan).units] == [1]
    assert [unit.limit for unit in of(plan, own).units] == [2]
    assert [unit.limit for unit in of(named, own, plan).units] == [3]
    assert of(policy("project", scope_id="p2")) == RequestLimits()
    both = of(own, policy("project", 4, id="x", dimension="concurrency"), policy("key", 5, id="y")).units
    assert sorted(unit.limit for unit in both) == [2, 4, 5]
    assert [money.limit_nano for money in of(budget("user", 1), budget("user", 2, scope_id="u1")).money] == [
        2
    ]


def test_a_shadow_row_stands_beside_the_one_that_holds() -> None:
    """A stricter limit is tried out while the old one is in force."""
    units = of(policy(limit=60), policy(limit=6, id="s", mode="shadow")).units
    assert [(unit.limit, unit.shadow) for unit in units] == [(60, False), (6, True)]
    assert units[0].key != units[1].key
    money = of(budget(limit=60), budget(limit=6, id="s", mode="shadow")).money
    assert len({each.key for each in money}) == 2


def test_models_are_chosen_by_their_names() -> None:
    """A pattern that matches nothing is seen by `parley limits`, and one that matches counts
    under itself, whatever alias was asked for."""
    assert of(policy(model_glob="llama-*")).units[0].model_glob == "llama-*"
    assert of(policy(model_glob="gpt-*")) == RequestLimits()
    (each,) = of(policy("model")).units
    assert (each.scope, each.scope_id) == (Scope.MODEL, "llama-8b")


def test_a_budget_is_counted_in_the_window_of_the_tenant_s_zone() -> None:
    """A month is the calendar's, in the tenant's zone, and its end is said."""
    for period in Period:
        (money,) = of(budget(period=period.value)).money
        assert money.window == window_at(period, BERLIN, AT)


def test_an_override_holds_until_its_time() -> None:
    """Then the limit is what it was."""
    (money,) = of(budget(limit=10, override_nano=30, override_until_ms=AT + 1)).money
    assert (money.limit_at(AT), money.limit_at(AT + 1)) == (30, 10)


def test_a_prepaid_tenant_has_a_limit_of_its_wallet() -> None:
    """One more limit of money, for the whole tenant."""
    (money,) = of(wallet=5).money
    assert (money.period, money.scope, money.limit_nano, money.hard) == ("wallet", Scope.TENANT, 5, True)


@pytest.fixture
async def tenant(database: Database) -> str:
    """A tenant's id."""
    return (await create_tenant(database, "acme")).tenant_id


@pytest.fixture
async def news(redis: Redis) -> AsyncGenerator[list[ControlNews]]:
    """What gateways hear."""
    heard: list[ControlNews] = []
    listener = redis.pubsub()
    await listener.subscribe(CONTROL_CHANNEL)

    def hear(data: bytes) -> None:
        heard.append(msgspec.json.decode(data, type=ControlNews))

    async def listen() -> None:
        async for message in listener.listen():
            if message["type"] == "message":
                hear(message["data"])

    task = asyncio.create_task(listen())
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await listener.aclose()


async def test_an_edit_ends_a_row_and_adds_another(
    database: Database, redis: Redis, tenant: str, news: list[ControlNews]
) -> None:
    """What held at any time stays known, and everybody is told."""
    first = await set_policy(
        database, redis, tenant, scope="user", dimension="concurrency", limit=4, author="ann"
    )
    second = await set_policy(database, redis, tenant, scope="user", dimension="concurrency", limit=8)
    other = await set_policy(
        database, redis, tenant, scope="user", dimension="concurrency", limit=1, mode="shadow"
    )
    assert [row.id for row in await list_policies(database, tenant)] == [second.id, other.id]
    all_rows = await list_policies(database, tenant, ended=True)
    assert [(row.id, row.limit_units, row.ended_ms is None) for row in all_rows][:2] == [
        (first.id, 4, False),
        (second.id, 8, True),
    ]
    assert await end_policy(database, redis, tenant, second.id) is not None
    assert await end_policy(database, redis, tenant, second.id) is None
    stranger = (await create_tenant(database, "stranger")).tenant_id
    assert await end_policy(database, redis, stranger, other.id) is None
    assert [row.id for row in await list_policies(database, tenant)] == [other.id]
    assert await list_policies(database, stranger) == []
    await wait_until(lambda: len(news) >= 4)
    assert news == [ControlNews(kind="limits_changed", tenant=tenant)] * 4


async def test_a_plan_s_limits_are_everybody_s_news(
    database: Database, redis: Redis, tenant: str, news: list[ControlNews]
) -> None:
    """And belong to no tenant."""
    await set_policy(
        database, redis, PLATFORM, scope="tenant", dimension="concurrency", limit=4, plan_id="gold"
    )
    assert [row.plan_id for row in await list_policies(database, PLATFORM, plan_id="gold")] == ["gold"]
    assert await list_policies(database, PLATFORM, plan_id="iron") == []
    await wait_until(lambda: bool(news))
    assert news == [ControlNews(kind="limits_changed", tenant=PLATFORM)]
    assert (await read_rows(database, tenant, AT)).policies == []
    with pytest.raises(Refused):
        await set_policy(
            database, redis, tenant, scope="tenant", dimension="concurrency", limit=4, plan_id="x"
        )


async def test_a_budget_is_set_overridden_and_ended(database: Database, redis: Redis, tenant: str) -> None:
    """Each step leaves its row; the open one is what holds."""
    first = await set_budget(
        database, redis, tenant, scope="tenant", period="month", limit_nano=100, thresholds=[90, 50, 50]
    )
    assert (first.hard, first.mode, first.thresholds) == (True, Mode.ENFORCE, [50, 90])
    later = await override_budget(database, redis, tenant, first.id, 300, until_ms=1 << 42)
    assert later is not None
    assert (later.limit_nano, later.override_nano, later.thresholds) == (100, 300, [50, 90])
    assert await override_budget(database, redis, tenant, first.id, 300, until_ms=1 << 42) is None
    back = await override_budget(database, redis, tenant, later.id, None)
    assert back is not None
    assert (back.override_nano, back.override_until_ms) == (None, None)
    assert [row.id for row in await list_budgets(database, tenant)] == [back.id]
    assert await end_budget(database, redis, tenant, back.id) is not None
    assert await list_budgets(database, tenant) == []
    assert len(await list_budgets(database, tenant, ended=True)) == 3


@pytest.mark.parametrize(
    "facts",
    [
        {"limit": -1},
        {"limit": UNITS_MAX + 1},
        {"limit": 2**63},
        {"burst": 0},
        {"burst": 2**63},
        {"scope": "planet"},
        {"scope_id": "me"},
        {"dimension": "tokens"},
        {"mode": "maybe"},
        {"model_glob": ""},
        {"model_glob": "x" * 201},
        {"dimension": "concurrency", "burst": 2},
        {"dimension": "answer_tokens", "limit": 0},
        {"dimension": "answer_tokens", "burst": 2},
        {"dimension": "answer_tokens", "mode": "shadow"},
    ],
)
async def test_a_limit_that_cannot_be_is_refused(
    sqlite: Database, redis: Redis, facts: dict[str, object]
) -> None:
    """Before anything is written: 2^63 units, or a burst of nothing."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    good: dict[str, object] = {"scope": "tenant", "dimension": Dimension.REQUESTS, "limit": 5}
    with pytest.raises(Refused):
        await set_policy(sqlite, redis, tenant, **{**good, **facts})  # type: ignore[arg-type]
    assert await list_policies(sqlite, tenant, ended=True) == []


@pytest.mark.parametrize(
    "facts",
    [
        {"limit_nano": LIMIT_NANO_MAX + 1},
        {"limit_nano": 2**63},
        {"limit_nano": -1},
        {"period": "year"},
        {"thresholds": [0]},
        {"thresholds": [101]},
        {"thresholds": list(range(1, 30))},
        {"mode": "maybe"},
        {"scope": "planet"},
    ],
)
async def test_a_budget_that_cannot_be_is_refused(
    sqlite: Database, redis: Redis, facts: dict[str, object]
) -> None:
    """Above 4,000,000 USD a window a script could not count to the nano. There are bounds."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    good: dict[str, object] = {"scope": "tenant", "period": "month", "limit_nano": LIMIT_NANO_MAX}
    with pytest.raises(Refused):
        await set_budget(sqlite, redis, tenant, **{**good, **facts})  # type: ignore[arg-type]
    assert await list_budgets(sqlite, tenant, ended=True) == []
    kept = await set_budget(sqlite, redis, tenant, **good)  # type: ignore[arg-type]
    for limit, until_ms in ((LIMIT_NANO_MAX + 1, 1 << 42), (5, 1)):
        with pytest.raises(Refused):
            await override_budget(sqlite, redis, tenant, kept.id, limit, until_ms)


async def test_a_tenant_has_so_many_limits_and_no_more(
    sqlite: Database, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each admission looks at all of them. An edit is always possible."""
    assert ROWS_MAX >= 100
    monkeypatch.setattr("billing.enforcement.limit_settings.ROWS_MAX", 3)
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    for user in "abc":
        await set_policy(sqlite, redis, tenant, scope="user", scope_id=user, dimension="concurrency", limit=1)
    with pytest.raises(Refused, match="end one first"):
        await set_policy(sqlite, redis, tenant, scope="user", scope_id="d", dimension="concurrency", limit=1)
    await set_policy(sqlite, redis, tenant, scope="user", scope_id="a", dimension="concurrency", limit=2)
    with pytest.raises(Refused, match="there is no tenant 'nobody'"):
        await set_policy(sqlite, redis, "nobody", scope="tenant", dimension="concurrency", limit=1)


class Book:
    """A tenant's book, and how often it looked at SQL."""

    def __init__(self, database: Database, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.book = LimitCache(database)
        self.tenant = tenant
        monkeypatch.setattr(limit_cache, "read_rows", self._read)

    async def _read(self, db: Database, tenant_id: str, now_ms: int) -> TenantRows:
        self.looks += 1
        return await read_rows(db, tenant_id, now_ms)

    async def limits(self, now_ms: int) -> list[int]:
        """The limits that apply."""
        found = await self.book.limits_for(self.tenant, "p", "k", "u", "m", now_ms)
        return [unit.limit for unit in found.units]


async def test_rows_are_kept_until_news_come_or_some_seconds_have_passed(
    sqlite: Database, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request does not ask SQL; an edit is seen at once where the news come, soon where they are lost."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    book = Book(sqlite, tenant, monkeypatch)
    assert await asyncio.gather(*(book.limits(AT) for _ in range(5))) == [[]] * 5
    assert book.looks == 1
    await set_policy(sqlite, redis, tenant, scope="tenant", dimension="concurrency", limit=1)
    assert await book.limits(AT + KEPT_MS - 1) == []
    assert await book.limits(AT + KEPT_MS) == [1]
    await set_policy(sqlite, redis, tenant, scope="tenant", dimension="concurrency", limit=2)
    book.book.changed("another")
    assert await book.limits(AT + KEPT_MS) == [1]
    book.book.changed(tenant)
    assert await book.limits(AT + KEPT_MS) == [2]
    book.book.changed(PLATFORM)
    assert await book.limits(AT + KEPT_MS) == [2]
    assert book.looks == 4


async def test_limits_outlive_a_database_that_does_not_answer(
    sqlite: Database, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was known holds on; of whom nothing was ever known is refused, not let through."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    await set_policy(sqlite, redis, tenant, scope="tenant", dimension="concurrency", limit=1)
    book = LimitCache(sqlite)
    known = await book.limits_for(tenant, "p", "k", "u", "m", AT)

    async def broken(*_: object) -> TenantRows:
        raise OperationalError("select", {}, OSError("gone"))

    monkeypatch.setattr(limit_cache, "read_rows", broken)
    book.changed(tenant)
    assert await book.limits_for(tenant, "p", "k", "u", "m", AT + 10 * KEPT_MS) == known
    with pytest.raises(Refused) as caught:
        await book.limits_for("t2", "p", "k", "u", "m", AT)
    assert (caught.value.refusal.code, caught.value.refusal.retry) == ("overloaded", True)


async def test_a_tenant_gets_its_plan_s_limits(database: Database, redis: Redis, tenant: str) -> None:
    """Another plan's mean nothing to it."""
    for plan, limit in (("gold", 7), ("iron", 3)):
        await set_policy(
            database, redis, PLATFORM, scope="tenant", dimension="concurrency", limit=limit, plan_id=plan
        )
    async with database.transaction() as session:
        row = await session.get(Tenant, tenant)
        assert row is not None
        plan = Plan(id="gold", name="g", price_book_id=row.price_book_id, priority_max="bulk", created_ms=1)
        session.add(plan)
        await session.flush()
        row.plan_id = plan.id
    limits = await LimitCache(database).limits_for(tenant, "p", "k", "u", "m", AT)
    assert [unit.limit for unit in limits.units] == [7]
