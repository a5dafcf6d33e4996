"""Operations on plans: who may, what a dry run leaves, and that a tenant is moved as it was seen."""

import pytest

from billing.enforcement.limit_settings import list_policies
from billing.limits import Dimension
from billing.operations import plans, tenants
from billing.operations.plans import AssignPlan, CreatePlan, NamePlan, SetPlanLimit
from billing.operations.tenants import NameTenant, SetTenant
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.listing import ListQuestion
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from core.errors import Refused
from core.operations import operation_of
from tests.billing.operations.acting import OWNER
from tests.billing.operations.acting import stores as stores  # the fixture

DRY = Terms(dry_run=True)
LIMITED = SetPlanLimit(plan="gold", dimension=Dimension.CONCURRENCY, limit=3)
UNLIMITED = SetPlanLimit(plan="gold", dimension=Dimension.CONCURRENCY, limit=None)


async def test_a_limit_of_a_plan_is_set_and_ended_by_what_it_counts(stores: Stores) -> None:
    """A dry run does neither; what is not there cannot end."""
    made = await answer_of(plans.create_plan, stores, OWNER, CreatePlan(name="gold"))
    await answer_of(plans.set_plan_limit, stores, OWNER, LIMITED, DRY)
    assert await list_policies(stores.db, PLATFORM, plan_id=made.plan) == []
    limit = await answer_of(plans.set_plan_limit, stores, OWNER, LIMITED)
    await answer_of(plans.set_plan_limit, stores, OWNER, UNLIMITED, DRY)
    shown = await answer_of(plans.show_plan, stores, OWNER, NamePlan(plan="gold"))
    assert shown.limits == [limit]
    ended = await answer_of(plans.set_plan_limit, stores, OWNER, UNLIMITED)
    assert ended.limit_id == limit.limit_id
    with pytest.raises(Refused, match="no such limit"):
        await answer_of(plans.set_plan_limit, stores, OWNER, UNLIMITED)


async def test_a_tenant_that_changed_meanwhile_is_not_moved(stores: Stores) -> None:
    """Its plan is one of its facts: the version is the tenant's."""
    made = await answer_of(plans.create_plan, stores, OWNER, CreatePlan(name="gold"))
    acme = NameTenant(tenant="acme")
    seen = await perform(stores, OWNER, operation_of(tenants.show_tenant), acme)
    await answer_of(tenants.set_tenant, stores, OWNER, SetTenant(tenant="acme", shows_costs=True))
    move = AssignPlan(tenant="acme", plan="gold")
    with pytest.raises(Refused, match="changed since you read it"):
        await answer_of(plans.assign_plan, stores, OWNER, move, Terms(version=seen.version))
    moved = await answer_of(plans.assign_plan, stores, OWNER, move)
    assert (moved.plan, moved.plan_id) == ("gold", made.plan)
    (listed,) = (await answer_of(plans.list_plans, stores, OWNER, ListQuestion())).items
    assert listed.tenants == 1
    none = AssignPlan(tenant="acme", plan=None)
    assert (await answer_of(plans.assign_plan, stores, OWNER, none)).plan is None


async def test_an_unknown_plan_is_refused_by_its_field(stores: Stores) -> None:
    """Wherever it is named."""
    for run, ask in (
        (plans.show_plan, NamePlan(plan="tin")),
        (plans.end_plan, NamePlan(plan="tin")),
        (plans.assign_plan, AssignPlan(tenant="acme", plan="tin")),
    ):
        with pytest.raises(Refused, match="there is no plan 'tin'") as refused:
            await answer_of(run, stores, OWNER, ask)
        assert (refused.value.refusal.field, refused.value.refusal.unknown) == ("plan", True)
