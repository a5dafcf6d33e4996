"""How a tenant does, by operation: now, in its last hour, and in its month; and who should be looked at."""

from typing import Any

import pytest

from billing.limits import Mode
from billing.operations import budgets, statement, tenant_figures, tenants, wallets
from billing.operations.budgets import SetBudget
from billing.operations.statement import AskStatement, show_statement
from billing.operations.tenant_figures import ListNeeds
from billing.operations.tenants import ListTenants, NameTenant, SetTenant
from billing.operations.wallets import GrantMoney, VoidGrant
from billing.posting.biller import post
from billing.reports import tenant_figures as reports
from billing.reports.tenant_needs import TenantNeed
from billing.reports.usage_report import GroupBy
from billing.tenants.tenancy import find_project, find_tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from core.actor import Author
from core.clock import now_ms
from core.operations import MoneyAmount, Role
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.redis import Redis

WHY = Terms(reason="a test's")
FINANCE = OperationActor(Author("Fin", "command"), Role.FINANCE)


async def tenant_id(stores: Stores, name: str) -> str:
    """A tenant's id."""
    found = await find_tenant(stores.db, name)
    assert found is not None
    return found.tenant_id


async def used(stores: Stores, name: str = "acme", **changes: Any) -> int:
    """Three requests that ended now, one of them an error, with a first token after 100, 200 and 900 ms:
    their cost."""
    owner = await tenant_id(stores, name)
    project = await find_project(stores.db, owner, "default")
    assert project is not None
    now = now_ms()
    facts: dict[str, Any] = {"accepted_ms": now - 1000, "ended_ms": now}
    facts |= {"owner": UsageOwner(project.id, "k1", "u1"), **changes}
    events = [
        an_event("r1", owner, first_token_ms=now - 900, **facts),
        an_event("r2", owner, first_token_ms=now - 800, **facts | {"reason": "error"}),
        an_event("r3", owner, first_token_ms=now - 100, **facts),
    ]
    await post(stores.db, "default", [encode(event) for event in events])
    return sum(event.cost_nano for event in events)


async def test_a_tenant_now_its_hour_and_its_month(stores: Stores, redis: Redis) -> None:
    """Of one tenant: what it runs by pool, how the last hour went, what it costs: nobody else's use."""
    cost, acme = await used(stores), await tenant_id(stores, "acme")
    await used(stores, "other")
    await redis.sadd(f"{{p:default}}run:{acme}", "r4", "r5")
    await redis.zadd(f"{{t:{acme}}}live", {"r4": 1, "r5": 2, "r6": 3})
    now = await answer_of(tenant_figures.show_now, stores, OWNER, NameTenant(tenant="acme"))
    assert (now.running, now.open, [(each.pool, each.running) for each in now.pools or []]) == (
        2,
        3,
        [("default", 2)],
    )
    assert (now.ended, now.errors, now.first_token_p95_ms, now.more) == (3, 1, 900, False)
    assert (now.month_cost.value, now.day_cost.value) == (cost, cost)
    assert (len(now.hours), sum(each.ended for each in now.hours)) == (24, 3)
    assert sum(each.cost.value for each in now.hours) == cost
    assert (await refusal_of(tenant_figures.show_now, stores, OWNER, NameTenant(tenant="x"))).unknown


async def test_finance_sees_the_money_and_no_requests(stores: Stores, redis: Redis) -> None:
    """In both views."""
    cost, acme = await used(stores), await tenant_id(stores, "acme")
    await redis.zadd(f"{{t:{acme}}}live", {"r4": 1})
    now = await answer_of(tenant_figures.show_now, stores, FINANCE, NameTenant(tenant="acme"))
    assert (now.running, now.open, now.pools, now.month_cost.value) == (None, None, None, cost)
    listed = await answer_of(tenant_figures.list_figures, stores, FINANCE, ListTenants(name="acme"))
    assert [(each.open, each.month_cost.value) for each in listed.items] == [(None, cost)]


async def test_only_the_newest_of_an_hour_are_looked_at(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant with a million of them costs no more; that there were more is said."""
    await used(stores)
    monkeypatch.setattr(reports, "ENDS_MAX", 2)
    now = await answer_of(tenant_figures.show_now, stores, OWNER, NameTenant(tenant="acme"))
    assert (now.ended, now.more) == (2, True)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
async def test_the_list_has_the_same_figures_in_its_order(stores: Stores, redis: Redis, zone: str) -> None:
    """Also where a month begins within an hour; a page at a time, with the list's own cursor."""
    cost, acme = await used(stores), await tenant_id(stores, "acme")
    await answer_of(tenants.set_tenant, stores, OWNER, SetTenant(tenant="acme", time_zone=zone), WHY)
    await redis.zadd(f"{{t:{acme}}}live", {"r4": 1})
    first = await answer_of(tenant_figures.list_figures, stores, OWNER, ListTenants(limit=1))
    (found,) = first.items
    assert (found.tenant, found.open, found.ended, found.errors) == (acme, 1, 3, 1)
    assert found.month_cost.value == cost
    after = ListTenants(limit=1, after=first.next or "")
    (other,) = (await answer_of(tenant_figures.list_figures, stores, OWNER, after)).items
    assert (other.open, other.ended, other.month_cost.value) == (0, 0, 0)


async def test_who_should_be_looked_at_and_why(stores: Stores) -> None:
    """A budget that is spent, but neither a shadow one nor a user's; a wallet with nothing left. A closed
    tenant needs nobody."""
    for mode in (Mode.ENFORCE, Mode.SHADOW):
        small = SetBudget(tenant="acme", limit=MoneyAmount.of(1), mode=mode)
        await answer_of(budgets.set_budget, stores, OWNER, small, WHY)
    await used(stores)
    each = SetBudget(tenant="other", limit=MoneyAmount.of(10**12))
    await answer_of(budgets.set_budget, stores, OWNER, each, WHY)
    await answer_of(
        wallets.grant, stores, OWNER, GrantMoney(tenant="other", amount=MoneyAmount.of(5), key="g"), WHY
    )
    needs = await answer_of(tenant_figures.list_needs, stores, OWNER, ListNeeds())
    assert [(found.name, found.needs) for found in needs.items] == [("acme", [TenantNeed.OVER_BUDGET])]
    await answer_of(wallets.void_grant, stores, OWNER, VoidGrant(tenant="other", grant="g"), WHY)
    needs = await answer_of(tenant_figures.list_needs, stores, OWNER, ListNeeds(limit=1))
    assert ([found.name for found in needs.items], needs.needy, needs.tenants) == (["acme"], 2, 2)
    after = ListNeeds(after=needs.next or "")
    (other,) = (await answer_of(tenant_figures.list_needs, stores, OWNER, after)).items
    assert other.name == "other"
    await answer_of(tenants.close_tenant, stores, OWNER, NameTenant(tenant="acme"), WHY)
    needs = await answer_of(tenant_figures.list_needs, stores, OWNER, ListNeeds())
    assert [(found.name, found.needs) for found in needs.items] == [("other", [TenantNeed.EMPTY_WALLET])]


async def test_a_statement_adds_up_whatever_is_listed(stores: Stores) -> None:
    """By each grouping the lines and what is not listed make the total; a member reads its own only."""
    cost = await used(stores)
    acme = await tenant_id(stores, "acme")
    for by in GroupBy:
        found = await answer_of(show_statement, stores, OWNER, AskStatement(tenant="acme", by=by, limit=1))
        assert found.total.cost.value == cost, by
        assert sum(each.sums.cost.value for each in found.lines) + found.others.cost.value == cost, by
        assert (found.total.requests, found.total.errors) == (3, 1), by
        behind = AskStatement(tenant="acme", by=by, limit=1, skip=1)
        rest = await answer_of(show_statement, stores, OWNER, behind)
        assert (len(rest.lines), rest.more, rest.total) == (
            min(1, found.more),
            max(0, found.more - 1),
            found.total,
        )
        assert not {each.of for each in rest.lines} & {each.of for each in found.lines}, by
    (line,) = (await answer_of(show_statement, stores, OWNER, AskStatement(tenant="acme"))).lines
    assert line.name == "default"
    payer = member_of(acme, Role.BILLING)
    assert (await answer_of(show_statement, stores, payer, AskStatement(tenant=acme))).total.requests == 3
    assert (await refusal_of(show_statement, stores, payer, AskStatement(tenant="other"))).unknown


async def test_a_month_that_is_none_is_said_of_its_field(stores: Stores) -> None:
    """And one without use is empty, or before the tenant's first one refused."""
    wrong = await refusal_of(statement.show_statement, stores, OWNER, AskStatement(tenant="acme", month="x"))
    assert wrong.field == "month"
    before = AskStatement(tenant="acme", month="2020-01")
    assert (await refusal_of(statement.show_statement, stores, OWNER, before)).field == "month"
    empty = await answer_of(show_statement, stores, OWNER, AskStatement(tenant="acme"))
    early = AskStatement(tenant="acme", as_of="2020-01-01")
    assert (await answer_of(show_statement, stores, OWNER, early)).lines == []
    by_day = AskStatement(tenant="acme", as_of="2020-01-01", by=GroupBy.DAY)
    assert (await refusal_of(show_statement, stores, OWNER, by_day)).field == "as_of"
    assert (empty.lines, empty.total.cost.value, empty.closed) == ([], 0, False)
