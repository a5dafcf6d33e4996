"""Plans: what a tenant gets by being moved to one, and what stays its own."""

import msgspec
import pytest

from billing.audit.log import list_rows
from billing.enforcement.limit_cache import read_rows
from billing.enforcement.limit_settings import set_policy
from billing.enforcement.plans import (
    PlanAssignment,
    assign_plan,
    assignment_under_plan,
    create_plan,
    end_plan,
    find_plan,
    list_plans,
)
from billing.limits import RequestFacts, limits_of
from billing.prices.book import NewVersion, add_version, pinned_prices
from billing.prices.files import FlatPrices
from billing.tables.noisy import NoisyFinding
from billing.tables.tenants import PLATFORM, Plan, PoolTerms
from billing.tenants.pool_terms import find_terms, list_terms, set_terms, throttled_terms
from billing.tenants.tenancy import CONTROL_CHANNEL, ControlNews, create_tenant, find_tenant, set_tenant
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.support.patience import soon
from tests.support.redis import Redis


def a_plan(book: str, priority: str = "standard") -> Plan:
    """A plan that is nowhere stored."""
    return Plan(id=book, name=book, price_book_id=book, priority_max=priority, created_ms=1)


@pytest.fixture
async def cheap(database: Database) -> Plan:
    """A plan with a book of its own and a place in the pools."""
    prices = {"*": FlatPrices(1_000_000, 500_000, 2_000_000, 0)}
    await add_version(database, NewVersion("cheap", prices))
    return await create_plan(
        database,
        "cheap",
        price_book="cheap",
        priority_max="standard",
        terms=PoolTerms(tenant_id=PLATFORM, weight=2.0, slots_max=4),
    )


def test_what_is_a_tenants_own_goes_before_its_plans() -> None:
    """From nothing to a plan, to another, and to none again."""
    silver, gold = a_plan("silver"), a_plan("gold", "interactive")
    assert assignment_under_plan(PlanAssignment(), None, silver) == PlanAssignment("silver", "standard")
    assert assignment_under_plan(PlanAssignment("silver", "standard"), silver, gold) == PlanAssignment(
        "gold", "interactive"
    )
    assert assignment_under_plan(PlanAssignment("own", "standard"), silver, gold) == PlanAssignment(
        "own", "interactive"
    )
    assert assignment_under_plan(PlanAssignment("silver", "bulk"), silver, gold) == PlanAssignment(
        "gold", "bulk"
    )
    assert assignment_under_plan(PlanAssignment("silver", "standard"), silver, None) == PlanAssignment()


async def test_a_tenant_that_is_moved_pays_by_the_plans_book_from_the_next_request_on(
    database: Database, redis: Redis, cheap: Plan
) -> None:
    """And has its priority and its place in the pools; gateways hear of limits, place and access."""
    tenant = await create_tenant(database, "acme")
    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        await soon(listener.get_message(timeout=None))
        await assign_plan(database, redis, tenant.tenant_id, cheap.id)
        heard = {await _news(listener) for _ in range(3)}
    assert heard == {
        ControlNews(kind, tenant.tenant_id) for kind in ("limits_changed", "terms_changed", "access_changed")
    }
    assert (await pinned_prices(database, tenant.tenant_id, "any")).book == "cheap"
    found = await find_tenant(database, "acme")
    assert found is not None
    assert (found.plan_id, found.priority_max) == (cheap.id, "standard")
    in_force = {row.tenant_id: (row.weight, row.slots_max) for row in await list_terms(database)}
    assert in_force == {tenant.tenant_id: (2.0, 4)}
    assert [(plan.name, tenants) for plan, tenants in await list_plans(database)] == [("cheap", 1)]
    await assign_plan(database, redis, tenant.tenant_id, None)
    assert (await pinned_prices(database, tenant.tenant_id, "any")).book == "default"
    assert [(row.weight, row.slots_max) for row in await list_terms(database)] == [(1.0, None)]


async def test_a_tenants_own_limit_stands_in_place_of_its_plans(
    database: Database, redis: Redis, cheap: Plan
) -> None:
    """The plan's other limits hold, and whoever has no plan has none of them."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    other = (await create_tenant(database, "other")).tenant_id
    for dimension, limit in (("requests_per_minute", 10), ("tokens_per_minute", 1_000)):
        await set_policy(
            database, redis, PLATFORM, plan_id=cheap.id, scope="tenant", dimension=dimension, limit=limit
        )
    await set_policy(database, redis, tenant, scope="tenant", dimension="requests_per_minute", limit=99)
    await assign_plan(database, redis, tenant, cheap.id)

    async def limits(of: str) -> dict[str, int]:
        rows = await read_rows(database, of, now_ms())
        found = limits_of(rows, RequestFacts(of, "p", "k", "", "m"), now_ms())
        return {each.dimension.value: each.limit for each in found.units}

    assert await limits(tenant) == {"requests_per_minute": 99, "tokens_per_minute": 1_000}
    assert await limits(other) == {}


async def test_own_terms_go_before_the_plans(sqlite: Database, redis: Redis) -> None:
    """Also those that were set before the plan was given."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    plan = await create_plan(sqlite, "p", terms=PoolTerms(tenant_id=PLATFORM, weight=2.0))
    await assign_plan(sqlite, redis, tenant, plan.id)
    assert (await find_terms(sqlite, tenant)).weight == 2.0
    await set_terms(sqlite, redis, PoolTerms(tenant_id=tenant, weight=7.0))
    assert (await find_terms(sqlite, tenant)).weight == 7.0
    assert [row.weight for row in await list_terms(sqlite)] == [7.0]


async def test_an_ended_plan_is_given_to_nobody(sqlite: Database, redis: Redis) -> None:
    """Who has it keeps it."""
    first, second = [(await create_tenant(sqlite, name)).tenant_id for name in ("acme", "other")]
    plan = await create_plan(sqlite, "p")
    await assign_plan(sqlite, redis, first, plan.id)
    await end_plan(sqlite, plan.id)
    with pytest.raises(Refused, match="has ended"):
        await assign_plan(sqlite, redis, second, plan.id)
    await assign_plan(sqlite, redis, first, plan.id)
    rows = await list_rows(sqlite, first)
    assert [row.action for row in rows] == ["tenant.assign_plan", "tenant.create"]
    assert [row.action for row in await list_rows(sqlite, PLATFORM)][:2] == ["plan.end", "plan.create"]


async def test_what_is_no_plan_is_refused(sqlite: Database, redis: Redis) -> None:
    """A name that is taken or none, another tenant's book, a weight of zero, a plan that nobody made."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    prices = {"*": FlatPrices(1, 1, 1, 0)}
    await add_version(sqlite, NewVersion("own", prices, tenant_id=tenant))
    await create_plan(sqlite, "p")
    assert await find_plan(sqlite, "q") is None
    for name, options, match in (
        ("p", {}, "already"),
        (" p", {}, "plan: expected a name"),
        ("q", {"price_book": "own"}, "the platform has no price book"),
        ("q", {"terms": PoolTerms(tenant_id=PLATFORM, weight=0.0)}, "a weight is above 0"),
        ("q", {"priority_max": "urgent"}, "choose from"),
    ):
        with pytest.raises(Refused, match=match):
            await create_plan(sqlite, name, **options)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="there is no plan"):
        await assign_plan(sqlite, redis, tenant, "nothing")
    with pytest.raises(Refused, match="no price book"):
        await set_tenant(sqlite, tenant, price_book_id="nothing")


def test_a_throttle_is_the_lowest_cap_until_it_is_lifted() -> None:
    """A tenant's own cap may be lower; the rest of its terms stay."""

    def finding(slots: int, lifted_ms: int | None = None) -> NoisyFinding:
        return NoisyFinding(
            tenant_id="t",
            id="f",
            pool="p",
            opened_ms=1,
            updated_ms=1,
            share_permille=900,
            fair_permille=500,
            used_tokens=1,
            others_wait_ms=1,
            baseline_wait_ms=1,
            slots_max=slots,
            throttled_ms=5,
            lifted_ms=lifted_ms,
            proposal={},
        )

    terms = PoolTerms(tenant_id="t", slots_max=8, tokens_max=500, reserve_tokens=300, updated_ms=2)

    def caps(*findings: NoisyFinding) -> tuple[int | None, int | None, int, int]:
        under = throttled_terms(terms, findings)
        return under.slots_max, under.tokens_max, under.reserve_tokens, under.updated_ms

    assert caps() == (8, 500, 300, 2)
    assert caps(finding(4)) == (4, 500, 300, 5)
    assert caps(finding(16), finding(5)) == (5, 500, 300, 5)
    assert caps(finding(16)) == (8, 500, 300, 5)
    assert caps(finding(4, lifted_ms=9)) == (8, 500, 300, 9)


async def _news(listener: object) -> ControlNews:
    message = await soon(listener.get_message(timeout=None))  # type: ignore[attr-defined]
    assert message is not None
    return msgspec.json.decode(bytes(message["data"]), type=ControlNews)
