"""`parley plans`: offers of prices, priority, place in the pools and limits, and their tenants."""

from typing import Any

import click

from billing.cli.run_command import (
    NUMBER_OR_NONE,
    iso_time,
    json_option,
    number_given,
    run_on_database,
    run_with_redis,
    show,
    show_table,
    tenant_named,
)
from billing.enforcement import plans
from billing.enforcement.limit_settings import end_policy, list_policies, set_policy
from billing.limits import Dimension, Mode, Scope
from billing.tables.limits import QuotaPolicy
from billing.tables.tenants import PLATFORM, Plan, PoolTerms, Tenant
from billing.tenants import tenancy
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database
from core.terminal.terminal import print_line

_plan = click.argument("plan")


@click.group("plans")
def plans_command() -> None:
    """Plans: prices, priority, place in the pools and limits under one name.

    What a tenant has of its own (`parley tenants set`, `parley tenants terms`, `parley limits`) goes before
    what its plan says.
    """


@plans_command.command("create")
@click.argument("name")
@click.option("--price-book", default=tenancy.DEFAULT_PRICE_BOOK, show_default=True)
@click.option("--priority-max", type=click.Choice(tenancy.PRIORITIES), default=tenancy.PRIORITIES[0])
@click.option("--weight", type=float, help="Share of a pool against others with waiting work.")
@click.option("--slots-max", type=int, help="Running requests at once.")
@click.option("--tokens-max", type=int, help="Tokens of its requests in the workers' memory at once.")
@click.option("--reserve-tokens", type=int, help="Tokens of each pool that others leave free for a tenant.")
@json_option
def create_command(name: str, price_book: str, priority_max: str, as_json: bool, **place: Any) -> None:
    """Create the plan NAME. Its prices, priority and place never change: another offer is another plan.

    Give it limits next: `parley plans set-limit NAME --dimension tokens_per_minute --limit 60000`.
    """
    given = {what: value for what, value in place.items() if value is not None}
    terms = PoolTerms(tenant_id=PLATFORM, **given) if given else None

    async def create(db: Database) -> Plan:
        return await plans.create_plan(
            db, name, price_book=price_book, priority_max=priority_max, terms=terms
        )

    show(_facts(run_on_database(create)), as_json)


@plans_command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """All plans, oldest first, and how many open tenants have each."""
    found = run_on_database(plans.list_plans)
    rows = [{**_facts(plan), "tenants": tenants} for plan, tenants in found]
    show_table(rows, as_json, "there are no plans: see `parley plans create`")


@plans_command.command("show")
@_plan
@json_option
def show_command(plan: str, as_json: bool) -> None:
    """Show PLAN (name or id) with its limits."""

    async def read(db: Database) -> tuple[Plan, list[dict[str, Any]]]:
        found = await _plan_named(db, plan)
        return found, [_limit_facts(row) for row in await list_policies(db, PLATFORM, plan_id=found.id)]

    found, limits = run_on_database(read)
    if as_json:
        show({**_facts(found), "limits": limits}, as_json)
        return
    show(_facts(found), as_json)
    print_line()
    show_table(limits, as_json, "no limits: see `parley plans set-limit --help`")


@plans_command.command("set-limit")
@_plan
@click.option("--dimension", type=click.Choice([each.value for each in Dimension]), required=True)
@click.option("--limit", type=NUMBER_OR_NONE, required=True, help="`none`: the plan has no such limit.")
@click.option(
    "--scope",
    type=click.Choice([each.value for each in Scope]),
    default=Scope.TENANT.value,
    show_default=True,
)
@click.option("--model", default="*", show_default=True, help="Models that count: a pattern like llama-*.")
@click.option("--burst", type=int, help="At once; by default as much as the limit.")
@click.option(
    "--mode", type=click.Choice([each.value for each in Mode]), default=Mode.ENFORCE.value, show_default=True
)
@json_option
def set_limit_command(
    plan: str,
    dimension: str,
    limit: int | str,
    scope: str,
    model: str,
    burst: int | None,
    mode: str,
    as_json: bool,
) -> None:
    """Set a limit of PLAN (name or id) in place of the one that counts the same.

    Every tenant of the plan has it within a second. With the scope key each of a tenant's keys has the limit
    for itself, and so on. What was counted goes on to count.
    """
    wanted = number_given(limit)

    async def change(db: Database, redis: RedisClient) -> QuotaPolicy:
        found = await _plan_named(db, plan)
        if wanted is not None:
            return await set_policy(
                db,
                redis,
                PLATFORM,
                plan_id=found.id,
                scope=scope,
                dimension=dimension,
                limit=wanted,
                model_glob=model,
                burst=burst,
                mode=mode,
            )
        for row in await list_policies(db, PLATFORM, plan_id=found.id):
            if (row.scope, row.dimension, row.model_glob, row.mode) == (scope, dimension, model, mode):
                ended = await end_policy(db, redis, PLATFORM, row.id)
                return ended or row
        raise StartupError(f"the plan {found.name!r} has no such limit: see `parley plans show`")

    show(_limit_facts(run_with_redis(change)), as_json)


@plans_command.command("assign")
@click.argument("tenant")
@_plan
@json_option
def assign_command(tenant: str, plan: str, as_json: bool) -> None:
    """Move TENANT (name or id) to PLAN (name or id; `none`: to none).

    Its limits and place change within a second, its prices from the next request on. A price book, a priority
    or terms of its own stay; what is printed holds from now on.
    """

    async def change(db: Database, redis: RedisClient) -> Tenant:
        owner = await tenant_named(db, tenant)
        found = None if plan == "none" else await _plan_named(db, plan)
        return await plans.assign_plan(db, redis, owner.tenant_id, found.id if found else None)

    moved = run_with_redis(change)
    facts = {
        "tenant": moved.tenant_id,
        "name": moved.name,
        "plan": moved.plan_id,
        "since": iso_time(moved.plan_since_ms),
        "price_book": moved.price_book_id,
        "priority_max": moved.priority_max,
    }
    show(facts, as_json)


@plans_command.command("end")
@_plan
@json_option
def end_command(plan: str, as_json: bool) -> None:
    """Give PLAN (name or id) to nobody from now on. Tenants who have it keep it."""

    async def end(db: Database) -> Plan:
        return await plans.end_plan(db, (await _plan_named(db, plan)).id)

    show(_facts(run_on_database(end)), as_json)


async def _plan_named(db: Database, name_or_id: str) -> Plan:
    plan = await plans.find_plan(db, name_or_id)
    if plan is None:
        raise StartupError(f"there is no plan {name_or_id!r}: see `parley plans list`")
    return plan


def _facts(plan: Plan) -> dict[str, Any]:
    return {
        "plan": plan.id,
        "name": plan.name,
        "price_book": plan.price_book_id,
        "priority_max": plan.priority_max,
        "weight": plan.weight,
        "slots_max": plan.slots_max,
        "tokens_max": plan.tokens_max,
        "reserve_tokens": plan.reserve_tokens,
        "created": iso_time(plan.created_ms),
        "ended": iso_time(plan.ended_ms),
    }


def _limit_facts(row: QuotaPolicy) -> dict[str, Any]:
    return {
        "limit": row.id,
        "scope": row.scope,
        "model": row.model_glob,
        "dimension": row.dimension,
        "at_most": row.limit_units,
        "burst": row.burst_units,
        "mode": row.mode,
        "ended": iso_time(row.ended_ms),
    }
