"""Operations on plans: offers of prices, priority, place in the pools and limits, and their tenants."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.enforcement import plans
from billing.enforcement.limit_settings import (
    list_policies,
    policies_of,
    tell_limits,
    write_policy,
    write_policy_end,
)
from billing.limits import Dimension, Mode, Scope
from billing.operations.shared_fields import AUDIT, CONTROL, NameTenant, Priority
from billing.tables.limits import QuotaPolicy
from billing.tables.tenants import PLATFORM, Plan, PoolTerms, Tenant
from billing.tenants import tenancy
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import see, unknown
from core.operations import MONEY, OPERATORS, STAFF, ListedPage, Uses, operation
from core.sql.database import Database

PLANNERS = OPERATORS | MONEY

PlanName = Annotated[str, Meta(description="The plan's name or id.")]


class CreatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A new plan. Where nothing of its place in the pools is named it says nothing of them."""

    name: Annotated[str, Meta(description="Its name, which no other plan has.")]
    price_book: str = tenancy.DEFAULT_PRICE_BOOK
    priority_max: Priority = Priority.INTERACTIVE
    weight: Annotated[float | None, Meta(description="Share of a pool against others with waiting work.")] = (
        None
    )
    slots_max: Annotated[int | None, Meta(description="Running requests at once.")] = None
    tokens_max: Annotated[
        int | None, Meta(description="Tokens of its requests in the workers' memory at once.")
    ] = None
    reserve_tokens: Annotated[
        int | None, Meta(description="Tokens of each pool that others leave free for a tenant.")
    ] = None


class NamePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which plan."""

    plan: PlanName


class SetPlanLimit(NamePlan, frozen=True, kw_only=True):
    """A limit of a plan, in place of the one that counts the same."""

    dimension: Dimension
    limit: Annotated[int | None, Meta(description="`none`: the plan has no such limit.")]
    scope: Scope = Scope.TENANT
    models: Annotated[str, Meta(description="The models that are counted, as `gpt-*`.")] = "*"
    burst: Annotated[int | None, Meta(description="At once; by default as much as the limit.")] = None
    mode: Mode = Mode.ENFORCE


class AssignPlan(NameTenant, frozen=True, kw_only=True):
    """A tenant, and the plan that it is to have; `null`: none."""

    plan: Annotated[str | None, Meta(description="The plan's name or id.")]


class PlanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A plan. `weight` None: it says nothing of the pools."""

    plan: str
    name: str
    price_book: str
    priority_max: Priority
    weight: float | None
    slots_max: int | None
    tokens_max: int | None
    reserve_tokens: int | None
    created: str | None
    ended: str | None


class ListedPlan(PlanFacts, frozen=True, kw_only=True):
    """A plan and how many open tenants have it."""

    tenants: int


class PlanLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of a plan."""

    limit_id: str
    scope: Scope
    dimension: Dimension
    models: str
    limit: int
    burst: int | None
    mode: Mode
    ended: str | None

    @classmethod
    def of(cls, row: QuotaPolicy) -> "PlanLimit":
        """The facts of a row."""
        return cls(
            limit_id=row.id,
            scope=Scope(row.scope),
            dimension=Dimension(row.dimension),
            models=row.model_glob,
            limit=row.limit_units,
            burst=row.burst_units,
            mode=Mode(row.mode),
            ended=iso_time(row.ended_ms),
        )


class ShownPlan(PlanFacts, frozen=True, kw_only=True):
    """A plan with its limits."""

    limits: list[PlanLimit]


class PlanOfTenant(msgspec.Struct, frozen=True):
    """What a tenant has from now on. `plan`: the plan's name, whose id is `plan_id`; None: none."""

    tenant: str
    name: str
    plan: str | None
    plan_id: str | None
    since: str | None
    price_book: str
    priority_max: Priority


@operation(
    "plans.create",
    "POST /plans",
    may=PLANNERS,
    audit="plan.create",
    reason=True,
    uses=Uses(reads="price_book", writes=f"plan {AUDIT}"),
)
async def create_plan(change: Change, ask: CreatePlan) -> PlanFacts:
    """Create a plan. Its prices, priority and place never change: another offer is another plan."""
    names = ("weight", "slots_max", "tokens_max", "reserve_tokens")
    given = {name: value for name in names if (value := getattr(ask, name)) is not None}
    row = await plans.create_plan(
        change.db,
        ask.name,
        price_book=ask.price_book,
        priority_max=ask.priority_max,
        terms=PoolTerms(tenant_id=PLATFORM, **given) if given else None,
    )
    return PlanFacts(**_facts(row))


@operation("plans.list", "GET /plans", may=STAFF, uses=Uses(reads="plan tenant"))
async def list_plans(look: Look, ask: ListQuestion) -> ListedPage[ListedPlan]:
    """List all plans, oldest first, and how many open tenants have each."""
    tenants = await plans.tenants_by_plan(look.db)

    def listed(row: Plan) -> ListedPlan:
        return ListedPlan(**_facts(row), tenants=tenants.get(row.id, 0))

    return await listed_page(look, ask, select(Plan), col(Plan.id), listed)


@operation(
    "plans.show", "GET /plans/{plan}", may=STAFF, uses=Uses(reads="plan quota_policy api_key audit_state")
)
async def show_plan(look: Look, ask: NamePlan) -> ShownPlan:
    """Show a plan with its limits."""
    plan = await _plan(look.db, ask.plan)
    await look.seen(Plan, PLATFORM, plan.id)
    rows = await list_policies(look.db, PLATFORM, plan_id=plan.id)
    return ShownPlan(**_facts(plan), limits=[PlanLimit.of(row) for row in rows])


@operation(
    "plans.set_limit",
    "POST /plans/{plan}/limits",
    may=PLANNERS,
    audit="limit.set limit.end",
    reason=True,
    uses=Uses(reads="plan", writes=f"quota_policy {AUDIT}", keys=CONTROL),
)
async def set_plan_limit(change: Change, ask: SetPlanLimit) -> PlanLimit:
    """Set a limit of a plan in place of the one that counts the same, or end that one. Every tenant of the
    plan has it within a second."""
    plan = await _plan(change.db, ask.plan)
    change.after(tell_limits, PLATFORM)
    if ask.limit is None:
        return PlanLimit.of(await _end_limit(change.db, plan, ask))
    row = await write_policy(
        change.db,
        PLATFORM,
        plan_id=plan.id,
        scope=ask.scope,
        dimension=ask.dimension,
        limit=ask.limit,
        model_glob=ask.models,
        burst=ask.burst,
        mode=ask.mode,
    )
    return PlanLimit.of(row)


async def _end_limit(db: Database, plan: Plan, ask: SetPlanLimit) -> QuotaPolicy:
    same = policies_of(PLATFORM, plan_id=plan.id).where(
        col(QuotaPolicy.scope) == ask.scope,
        col(QuotaPolicy.dimension) == ask.dimension,
        col(QuotaPolicy.model_glob) == ask.models,
        col(QuotaPolicy.mode) == ask.mode,
    )
    async with db.session() as session:
        row = (await session.exec(same)).first()
    ended = row and await write_policy_end(db, PLATFORM, row.id)
    if ended is None:
        message = f"the plan {plan.name!r} has no such limit"
        raise unknown(message, field="limit", see=see("plans.show"))
    return ended


@operation(
    "plans.assign",
    "PUT /tenants/{tenant}/plan",
    may=PLANNERS,
    audit="tenant.assign_plan",
    reason=True,
    edits=True,
    uses=Uses(reads="plan", writes=f"tenant {AUDIT}", keys=CONTROL),
)
async def assign_plan(change: Change, ask: AssignPlan) -> PlanOfTenant:
    """Move a tenant to a plan, or to none. Its limits and place change within a second, its prices from the
    next request on; a price book, a priority or terms of its own stay."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    plan = None if ask.plan is None else await _plan(change.db, ask.plan)
    await change.editing(Tenant, owner, owner)
    row = await plans.write_assignment(change.db, owner, plan.id if plan else None)
    change.after(plans.tell_assignment, owner)
    return PlanOfTenant(
        row.tenant_id,
        row.name,
        plan.name if plan else None,
        row.plan_id,
        iso_time(row.plan_since_ms),
        row.price_book_id,
        Priority(row.priority_max),
    )


@operation(
    "plans.end",
    "POST /plans/{plan}/end",
    may=PLANNERS,
    audit="plan.end",
    reason=True,
    uses=Uses(writes=f"plan {AUDIT}"),
)
async def end_plan(change: Change, ask: NamePlan) -> PlanFacts:
    """Give a plan to nobody from now on. Tenants who have it keep it."""
    plan = await _plan(change.db, ask.plan)
    return PlanFacts(**_facts(await plans.end_plan(change.db, plan.id)))


async def _plan(db: Database, named: str) -> Plan:
    plan = await plans.find_plan(db, named)
    if plan is None:
        raise plans.no_such_plan(named)
    return plan


def _facts(plan: Plan) -> dict[str, Any]:
    return {
        "plan": plan.id,
        "name": plan.name,
        "price_book": plan.price_book_id,
        "priority_max": Priority(plan.priority_max),
        "weight": plan.weight,
        "slots_max": plan.slots_max,
        "tokens_max": plan.tokens_max,
        "reserve_tokens": plan.reserve_tokens,
        "created": iso_time(plan.created_ms),
        "ended": iso_time(plan.ended_ms),
    }


OPERATIONS = (create_plan, list_plans, show_plan, set_plan_limit, assign_plan, end_plan)
