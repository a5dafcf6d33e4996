"""Operations on budgets: old ids, edits of one version, alerts at once, and what dry runs leave."""

import asyncio

import pytest
from msgspec.structs import replace

from billing.audit.log import list_rows
from billing.enforcement.limit_settings import list_budgets
from billing.limits import Scope
from billing.operations import budgets
from billing.operations.budget_facts import BudgetFor
from billing.operations.budgets import ListBudgets, NameBudget, OverrideBudget, SetBudget
from billing.periods import Period
from billing.posting.biller import post
from billing.tables.wallets import BudgetAlert
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import Performed, answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from billing.usage import encode
from core.errors import Refused
from core.operations import MoneyAmount, Role, operation_of
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

DRY = Terms(dry_run=True)
AT_ONCE = 8
UNTIL = "2099-01-01"


async def acme(stores: Stores) -> str:
    """The tenant's id."""
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    return found.tenant_id


async def set_one(stores: Stores, nano: int = 5, tenant: str = "acme") -> BudgetFor:
    """A budget of the whole tenant for a month."""
    ask = SetBudget(tenant=tenant, limit=MoneyAmount.of(nano))
    return await answer_of(budgets.set_budget, stores, OWNER, ask)


def raised(budget: str, nano: int = 9) -> OverrideBudget:
    """Another limit for long."""
    return OverrideBudget(tenant="acme", budget=budget, limit=MoneyAmount.of(nano), until=UNTIL)


async def test_a_budget_is_named_by_the_id_that_it_had(stores: Stores) -> None:
    """Alerts name old ids: to show, to edit and to end."""
    first = (await set_one(stores)).budget
    second = await answer_of(budgets.override_budget, stores, OWNER, raised(first))
    assert (second.override, second.budget == first) == (MoneyAmount.of(9), False)
    named = NameBudget(tenant="acme", budget=first)
    (shown,) = (await answer_of(budgets.show_budget, stores, OWNER, named)).standings
    assert (shown.budget, shown.spent) == (second.budget, MoneyAmount.of(0))
    back = OverrideBudget(tenant="acme", budget=first)
    assert not (await answer_of(budgets.override_budget, stores, OWNER, back)).override
    await answer_of(budgets.end_budget, stores, OWNER, named)
    with pytest.raises(Refused, match="there is no open budget"):
        await answer_of(budgets.end_budget, stores, OWNER, named)


async def test_of_overrides_of_one_version_one_is_done(stores: Stores) -> None:
    """Though the id that all of them name still names the budget."""
    first = (await set_one(stores)).budget
    show = operation_of(budgets.show_budget)
    seen = await perform(stores, OWNER, show, NameBudget(tenant="acme", budget=first))

    async def once(nano: int) -> Performed:
        terms = Terms(version=seen.version)
        return await perform(stores, OWNER, operation_of(budgets.override_budget), raised(first, nano), terms)

    done = await asyncio.gather(*map(once, range(10, 10 + AT_ONCE)), return_exceptions=True)
    assert sum(isinstance(each, Refused) for each in done) == AT_ONCE - 1
    (edited,) = [each for each in done if isinstance(each, Performed)]
    now = await perform(stores, OWNER, show, NameBudget(tenant="acme", budget=first))
    assert (now.version, now.answer.standings[0].budget) == (edited.version, edited.answer.budget)


async def test_a_budget_that_is_spent_alerts_at_once_but_not_in_a_dry_run(stores: Stores) -> None:
    """No usage may follow that would."""
    tenant = await acme(stores)
    await post(stores.db, "default", [encode(an_event(tenant=tenant))])
    small = SetBudget(tenant="acme", limit=MoneyAmount.of(1), period=Period.LIFETIME)
    await answer_of(budgets.set_budget, stores, OWNER, small, DRY)
    assert await read(stores.db, BudgetAlert, tenant) == []
    assert await list_budgets(stores.db, tenant, ended=True) == []
    await answer_of(budgets.set_budget, stores, OWNER, small)
    assert len(await read(stores.db, BudgetAlert, tenant)) == 3


async def test_dry_runs_leave_budgets_as_they_are(stores: Stores) -> None:
    """And nothing stands in the audit log."""
    budget = (await set_one(stores)).budget
    tenant = await acme(stores)
    before, said = await list_budgets(stores.db, tenant, ended=True), await list_rows(stores.db, tenant)
    await answer_of(budgets.override_budget, stores, OWNER, raised(budget), DRY)
    await answer_of(budgets.end_budget, stores, OWNER, NameBudget(tenant="acme", budget=budget), DRY)
    assert await list_budgets(stores.db, tenant, ended=True) == before
    assert await list_rows(stores.db, tenant) == said


async def test_anothers_budget_is_unknown(stores: Stores) -> None:
    """As one that never was."""
    theirs = (await set_one(stores, tenant="other")).budget
    for run, ask in (
        (budgets.show_budget, NameBudget(tenant="acme", budget=theirs)),
        (budgets.override_budget, raised(theirs)),
        (budgets.end_budget, NameBudget(tenant="acme", budget=theirs)),
    ):
        with pytest.raises(Refused, match="there is no open budget") as refused:
            await answer_of(run, stores, OWNER, ask)
        assert (refused.value.refusal.field, refused.value.refusal.unknown) == ("budget", True)


async def test_what_is_wrong_is_said_of_its_field(stores: Stores) -> None:
    """A time without a limit, a time that is none, per cents that are none."""
    budget = (await set_one(stores)).budget
    late = OverrideBudget(tenant="acme", budget=budget, limit=MoneyAmount.of(1), until="soon")
    alone = OverrideBudget(tenant="acme", budget=budget, until=UNTIL)
    cents = SetBudget(tenant="acme", limit=MoneyAmount.of(1), thresholds=[0])
    whom = SetBudget(tenant="acme", limit=MoneyAmount.of(1), scope=Scope.USER, of="nobody")
    for run, ask, field in (
        (budgets.override_budget, late, "until"),
        (budgets.override_budget, alone, "until"),
        (budgets.set_budget, cents, "thresholds"),
        (budgets.set_budget, whom, "of"),
    ):
        with pytest.raises(Refused) as refused:
            await answer_of(run, stores, OWNER, ask)
        assert refused.value.refusal.field == field


async def test_budgets_are_listed_page_by_page(stores: Stores) -> None:
    """Open ones with what is spent, ended ones without."""
    await set_one(stores)
    await answer_of(
        budgets.set_budget, stores, OWNER, SetBudget(tenant="acme", limit=MoneyAmount.of(5), scope=Scope.USER)
    )
    first = await answer_of(budgets.list_all_budgets, stores, OWNER, ListBudgets(tenant="acme", limit=1))
    assert [(each.of, each.spent) for each in first.items] == [("", MoneyAmount.of(0))]
    rest = ListBudgets(tenant="acme", limit=1, after=first.next or "")
    second = await answer_of(budgets.list_all_budgets, stores, OWNER, rest)
    assert ([each.of for each in second.items], second.next) == (["each"], None)
    ended = await answer_of(budgets.list_all_budgets, stores, OWNER, ListBudgets(tenant="acme", ended=True))
    assert len(ended.items) == 2


async def test_an_admin_sets_budgets_below_the_operators(stores: Stores) -> None:
    """Their own stand beside the operators', lower; what is spent already is told. The operators' they
    neither override nor end, and who only reads sets none."""
    theirs, owner = await set_one(stores, 8), await acme(stores)
    admin = member_of(owner, Role.ADMIN)
    refused = await refusal_of(budgets.set_budget, stores, admin, of_acme(9))
    assert (refused.field, "yours can only be lower" in refused.message) == ("limit", True)
    made = await answer_of(budgets.set_budget, stores, admin, of_acme(3))
    assert (made.by_tenant, made.spent, theirs.by_tenant) == (True, MoneyAmount.of(0), False)
    assert [each.id for each in await list_budgets(stores.db, owner)] == [theirs.budget, made.budget]
    end = NameBudget(tenant="acme", budget=theirs.budget)
    for run, ask in ((budgets.end_budget, end), (budgets.override_budget, raised(made.budget))):
        assert (await refusal_of(run, stores, admin, ask)).code == "forbidden"
    for role in (Role.BILLING, Role.DEVELOPER, Role.VIEWER):
        who = member_of(owner, role)
        assert (await refusal_of(budgets.set_budget, stores, who, of_acme(1))).code == "forbidden"
    await answer_of(budgets.end_budget, stores, admin, NameBudget(tenant="acme", budget=made.budget))
    assert [each.id for each in await list_budgets(stores.db, owner)] == [theirs.budget]


def of_acme(nano: int) -> SetBudget:
    """A month's budget of the whole tenant."""
    return SetBudget(tenant="acme", limit=MoneyAmount.of(nano))


async def test_of_two_who_replace_one_budget_the_second_is_told(stores: Stores) -> None:
    """Whoever says which one they saw: by whom, when, from what to what; a budget that stands there no more
    is told, too."""
    first = (await set_one(stores, 6)).budget
    seen = replace(of_acme(4), seen=first)
    second = (await answer_of(budgets.set_budget, stores, OWNER, seen)).budget
    for ask in (seen, replace(seen, period=Period.DAY)):
        refused = await refusal_of(budgets.set_budget, stores, OWNER, ask)
        assert (refused.code, refused.field, "meanwhile" in refused.message) == ("conflict", "seen", True)
    (since,) = (await refusal_of(budgets.set_budget, stores, OWNER, seen)).changes
    assert (since.author, since.before, since.after) == (
        OWNER.author.name,
        {"limit": "0.000000006"},
        {"limit": "0.000000004"},
    )
    assert 0 <= stores.now_ms() - since.at_ms < 60_000
    await answer_of(budgets.set_budget, stores, OWNER, replace(seen, seen=second))
