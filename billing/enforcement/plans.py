"""Plans: offers of prices, priority, a place in the pools and limits under one name.

Only the limits of a plan change: another offer is another plan, and tenants are moved. A tenant's own values
override its plan's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, func, select

from billing.audit.log import record
from billing.enforcement.limit_settings import publish_limits_changed
from billing.tables.tenants import PLATFORM, Plan, PoolTerms, PriceBook, Tenant
from billing.tenants.edits import lock_settings
from billing.tenants.pool_terms import TERMS_CHANGED, check_terms
from billing.tenants.tenancy import DEFAULT_PRICE_BOOK, PRIORITIES, check_priority, publish_news
from core.clock import now_ms
from core.errors import Refused, bad_request, see, unknown
from core.ids import uuid7
from core.names import checked_name
from core.redis.client import RedisClient
from core.sql.database import Database, id_first

PLANS_MAX = 1_000


@dataclass(frozen=True)
class PlanAssignment:
    """Price book of a tenant, and the highest priority of its requests."""

    price_book_id: str = DEFAULT_PRICE_BOOK
    priority_max: str = PRIORITIES[0]


def assignment_under_plan(now: PlanAssignment, old: Plan | None, new: Plan | None) -> PlanAssignment:
    """A tenant's assignment under another plan. Pure.

    Values that differ from its old plan (without one, from the defaults) are its own and stay."""
    before, after = (_standing(plan) for plan in (old, new))
    own_book = now.price_book_id != before.price_book_id
    own_priority = now.priority_max != before.priority_max
    return replace(
        after,
        **({"price_book_id": now.price_book_id} if own_book else {}),
        **({"priority_max": now.priority_max} if own_priority else {}),
    )


def _standing(plan: Plan | None) -> PlanAssignment:
    return PlanAssignment() if plan is None else PlanAssignment(plan.price_book_id, plan.priority_max)


async def create_plan(
    db: Database,
    name: str,
    *,
    price_book: str = DEFAULT_PRICE_BOOK,
    priority_max: str = PRIORITIES[0],
    terms: PoolTerms | None = None,
) -> Plan:
    """Create a plan without limits. `terms`: its place in the pools, None where it says nothing of them.

    Raises Refused where the name is taken or invalid, or the book is not the platform's."""
    name = checked_name("plan", name, "name")
    check_priority(priority_max)
    if terms is not None:
        check_terms(terms)
    place = terms.model_dump(include={"weight", "slots_max", "tokens_max", "reserve_tokens"}) if terms else {}
    now = now_ms()
    plan = Plan(
        id=uuid7(now),
        tenant_id=PLATFORM,
        name=name,
        price_book_id=price_book,
        priority_max=priority_max,
        created_ms=now,
        **place,
    )
    try:
        async with db.transaction() as session:
            await lock_settings(session, PLATFORM)
            book = await session.get(PriceBook, price_book)
            if book is None or book.tenant_id != PLATFORM:
                message = f"the platform has no price book {price_book!r}"
                raise unknown(message, field="price_book", see=see("prices.show"))
            if (await session.exec(select(func.count(col(Plan.id))))).one() >= PLANS_MAX:
                raise bad_request(f"there are {PLANS_MAX} plans already")
            session.add(plan)
            await record(session, PLATFORM, "plan.create", plan.id, None, plan)
    except IntegrityError as error:
        raise bad_request(f"there is a plan {name!r} already", field="name") from error
    return plan


async def list_plans(db: Database) -> Sequence[tuple[Plan, int]]:
    """All plans, oldest first, with the number of open tenants of each. For operators."""
    tenants = await tenants_by_plan(db)
    async with db.session() as session:
        plans = (await session.exec(select(Plan).order_by(col(Plan.id)))).all()
    return [(plan, tenants.get(plan.id, 0)) for plan in plans]


async def tenants_by_plan(db: Database) -> Mapping[str, int]:
    """Numbers of open tenants by the id of their plan; none where nobody has it. For operators."""
    counts = (
        select(Tenant.plan_id, func.count(col(Tenant.tenant_id)))
        .where(col(Tenant.closed_ms).is_(None), col(Tenant.plan_id).is_not(None))
        .group_by(col(Tenant.plan_id))
    )
    async with db.session() as session:
        return {plan: number for plan, number in (await session.exec(counts)).all() if plan is not None}


async def plan_names(db: Database, ids: Iterable[str | None]) -> Mapping[str, str]:
    """Names of plans by their ids."""
    wanted = {each for each in ids if each is not None}
    if not wanted:
        return {}
    statement = select(Plan).where(col(Plan.tenant_id) == PLATFORM, col(Plan.id).in_(wanted))
    async with db.session() as session:
        return {plan.id: plan.name for plan in (await session.exec(statement)).all()}


async def find_plan(db: Database, name_or_id: str) -> Plan | None:
    """Find a plan by its id or its name."""
    id, name = col(Plan.id), col(Plan.name)
    statement = select(Plan).where((name == name_or_id) | (id == name_or_id))
    async with db.session() as session:
        return (await session.exec(statement.order_by(*id_first(id, name, [name_or_id])))).first()


async def end_plan(db: Database, plan_id: str) -> Plan:
    """End a plan: it can no longer be assigned. Tenants that have it keep it."""
    async with db.transaction() as session:
        await lock_settings(session, PLATFORM)
        plan = await session.get(Plan, plan_id)
        if plan is None:
            raise no_such_plan(plan_id)
        before = plan.model_dump()
        plan.ended_ms = now_ms() if plan.ended_ms is None else plan.ended_ms
        await record(session, PLATFORM, "plan.end", plan_id, before, plan)
    return plan


def no_such_plan(named: str) -> Refused:
    """The refusal of an unknown plan."""
    return unknown(f"there is no plan {named!r}", field="plan", see=see("plans.list"))


async def assign_plan(db: Database, redis: RedisClient, tenant_id: str, plan_id: str | None) -> Tenant:
    """Move a tenant to a plan, or to none. Its limits and its place in the pools change within a second, its
    prices from its next request on.

    Raises Refused where there is no such tenant or plan, or the plan has ended."""
    tenant = await write_assignment(db, tenant_id, plan_id)
    await tell_assignment(db, redis, tenant_id)
    return tenant


async def write_assignment(db: Database, tenant_id: str, plan_id: str | None) -> Tenant:
    """As `assign_plan`, without telling gateways."""
    async with db.transaction() as session:
        tenant = await lock_settings(session, tenant_id)
        assert tenant is not None, "plans are assigned to tenants"
        before = tenant.model_dump()
        new = await session.get(Plan, plan_id) if plan_id else None
        if plan_id and new is None:
            raise no_such_plan(plan_id)
        if new is not None and new.ended_ms is not None and new.id != tenant.plan_id:
            message = f"the plan {new.name!r} has ended: it is given to nobody any more"
            raise bad_request(message, field="plan")
        old = await session.get(Plan, tenant.plan_id) if tenant.plan_id else None
        if (old and old.id) != (new and new.id):
            standing = assignment_under_plan(
                PlanAssignment(tenant.price_book_id, tenant.priority_max), old, new
            )
            tenant.price_book_id, tenant.priority_max = standing.price_book_id, standing.priority_max
            tenant.plan_id, tenant.plan_since_ms = plan_id or None, now_ms()
        await record(session, tenant_id, "tenant.assign_plan", tenant_id, before, tenant)
    return tenant


async def tell_assignment(_: Database, redis: RedisClient, tenant_id: str) -> None:
    """Tell gateways that a tenant has another plan, or none."""
    await publish_limits_changed(redis, tenant_id)
    await publish_news(redis, tenant_id, TERMS_CHANGED)
    await publish_news(redis, tenant_id)
