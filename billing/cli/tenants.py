"""`parley tenants`: the customers of an installation, and their terms in the pools."""

from typing import Any

import click

from billing.cli.cancel import Cancelled, cancel_option, cancel_requests, facts_of
from billing.cli.erasure import erase_tenant_command, wallet_facts
from billing.cli.run_command import (
    NO_NUMBER,
    NUMBER_OR_NONE,
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show,
    show_table,
    tenant_named,
)
from billing.enforcement.limit_settings import publish_limits_changed
from billing.money import to_display
from billing.quota.open_requests import OwnerFilter
from billing.tables.tenants import PoolTerms, Tenant
from billing.tenants import tenancy
from billing.tenants.pool_terms import change_terms, find_terms
from billing.wallets.owed import owed_by
from billing.wallets.wallets import wallet_state
from core.clock import now_ms
from core.redis.client import RedisClient
from core.sql.database import Database


@click.group("tenants")
def tenants_command() -> None:
    """Tenants: the customers of this installation."""


tenants_command.add_command(erase_tenant_command)


@tenants_command.command("create")
@click.argument("name")
@click.option("--priority-max", type=click.Choice(tenancy.PRIORITIES), default=tenancy.PRIORITIES[0])
@click.option("--price-book", default=tenancy.DEFAULT_PRICE_BOOK, show_default=True)
@json_option
def create_tenant_command(name: str, priority_max: str, price_book: str, as_json: bool) -> None:
    """Create the tenant NAME with one project, `default`.

    Give it a key next: `parley keys create --tenant NAME`.
    """

    async def create(db: Database) -> Tenant:
        return await tenancy.create_tenant(db, name, price_book=price_book, priority_max=priority_max)

    tenant = run_on_database(create)
    show(_tenant_facts(tenant), as_json)


@tenants_command.command("list")
@json_option
def list_tenants_command(as_json: bool) -> None:
    """List all tenants, oldest first."""
    tenants = [_tenant_facts(tenant) for tenant in run_on_database(tenancy.list_tenants)]
    show_table(tenants, as_json, "there are no tenants: see `parley tenants create`")


@tenants_command.command("show")
@click.argument("tenant")
@json_option
def show_tenant_command(tenant: str, as_json: bool) -> None:
    """Show TENANT (name or id): its terms, and of a prepaid one its money."""

    async def read(db: Database) -> dict[str, Any]:
        owner = await tenant_named(db, tenant)
        state = await wallet_state(db, owner.tenant_id, now_ms())
        facts = _tenant_facts(owner) | {"pays": "postpaid" if state is None else "prepaid"}
        if state is None:
            return facts
        owed = await owed_by(db, owner.tenant_id)
        money = {"left": state.limit_nano - state.posted_nano, "used": state.posted_nano, "owed": owed}
        if as_json:
            return facts | {f"{name}_nano": nano for name, nano in money.items()}
        return facts | {name: to_display(nano) for name, nano in money.items()}

    show(run_on_database(read), as_json)


@tenants_command.command("set")
@click.argument("tenant")
@click.option("--price-book", help="The book that it pays by, from the next request on.")
@click.option("--time-zone", help="Where its days and months begin: an IANA name like Europe/Berlin.")
@click.option("--priority-max", type=click.Choice(tenancy.PRIORITIES))
@click.option("--regex", type=click.Choice(["on", "off"]), help="Whether its answers may follow patterns.")
@click.option(
    "--show-costs/--hide-costs",
    "shows_costs",
    default=None,
    help="Whether its users are told what requests cost, and how much of a prompt was cached.",
)
@click.option(
    "--prefix-cache-scope",
    "cache_by",
    type=click.Choice(["tenant", "owner"]),
    help="Who shares cached prefixes: all of it, or each user and key alone, which costs more.",
)
@json_option
def set_command(
    tenant: str,
    price_book: str | None,
    time_zone: str | None,
    priority_max: str | None,
    regex: str | None,
    shows_costs: bool | None,
    cache_by: str | None,
    as_json: bool,
) -> None:
    """Change TENANT (name or id). What is not named stays as it is."""
    given = {
        "price_book_id": price_book,
        "time_zone": time_zone,
        "priority_max": priority_max,
        "regex": None if regex is None else regex == "on",
        "shows_costs": shows_costs,
        "cache_by_owner": None if cache_by is None else cache_by == "owner",
    }
    facts = {name: value for name, value in given.items() if value is not None}

    async def change(db: Database, redis: RedisClient) -> Tenant:
        tenant_id = (await tenant_named(db, tenant)).tenant_id
        changed = await tenancy.set_tenant(db, tenant_id, **facts)
        await tenancy.publish_news(redis, tenant_id)
        await publish_limits_changed(redis, tenant_id)  # windows of budgets depend on its time zone
        return changed

    show(_tenant_facts(run_with_redis(change)), as_json)


@tenants_command.command("close")
@click.argument("tenant")
@cancel_option
@json_option
def close_command(tenant: str, cancel: bool, as_json: bool) -> None:
    """Refuse all keys of TENANT (name or id) from now on, and close its connections.

    What it used stays in the books, and what it still runs is finished and billed, unless --cancel ends it,
    now or by closing again. `reopen` lets it in again. Money left in its wallet stays there, and is told.
    """
    closed, cancelled = _close(tenant, closed=True, cancel=cancel)
    left = run_on_database(lambda db: wallet_facts(db, closed.tenant_id, as_json))
    show(_tenant_facts(closed) | facts_of(cancelled) | left, as_json)


@tenants_command.command("reopen")
@click.argument("tenant")
@json_option
def reopen_command(tenant: str, as_json: bool) -> None:
    """Let the keys of TENANT (name or id) in again."""
    show(_tenant_facts(_close(tenant, closed=False)[0]), as_json)


def _close(tenant: str, closed: bool, cancel: bool = False) -> tuple[Tenant, Cancelled | None]:
    async def change(db: Database, redis: RedisClient) -> tuple[Tenant, Cancelled | None]:
        owner = (await tenant_named(db, tenant)).tenant_id
        changed = await tenancy.close_tenant(db, redis, owner, closed)
        return changed, await cancel_requests(db, redis, OwnerFilter(owner)) if cancel else None

    return run_with_redis(change)


@tenants_command.command("terms")
@click.argument("tenant")
@click.option("--weight", type=float, help="Share against other tenants with waiting work; 1 by default.")
@click.option("--slots-max", type=NUMBER_OR_NONE, help="Running requests at once.")
@click.option(
    "--tokens-max", type=NUMBER_OR_NONE, help="Tokens of its requests in the workers' memory at once."
)
@click.option("--reserve-tokens", type=int, help="Tokens of each pool that others leave free for it.")
@json_option
def terms_command(tenant: str, as_json: bool, **changes: float | str | None) -> None:
    """Show what TENANT (name or id) may take of the pools, or change it.

    Changes hold within a second, for requests that wait too. A share counts only while others wait: an idle
    pool is anybody's. Example: `parley tenants terms acme --weight 4 --slots-max 16 --tokens-max none`.
    """
    wanted = {name: value for name, value in changes.items() if value is not None}

    async def change(db: Database, redis: RedisClient) -> PoolTerms:
        tenant_id = (await tenant_named(db, tenant)).tenant_id
        given = {name: None if value == NO_NUMBER else value for name, value in wanted.items()}
        return await (change_terms(db, redis, tenant_id, given) if given else find_terms(db, tenant_id))

    show(_terms_facts(run_with_redis(change)), as_json)


def _tenant_facts(tenant: Tenant) -> dict[str, Any]:
    return {
        "tenant": tenant.tenant_id,
        "name": tenant.name,
        "price_book": tenant.price_book_id,
        "priority_max": tenant.priority_max,
        "time_zone": tenant.time_zone,
        "regex": "on" if tenant.regex else "off",
        "shows_costs": tenant.shows_costs,
        "cache_by": "owner" if tenant.cache_by_owner else "tenant",
        "created": iso_time(tenant.created_ms),
        "closed": iso_time(tenant.closed_ms),
        "plan": tenant.plan_id,
    }


def _terms_facts(terms: PoolTerms) -> dict[str, Any]:
    return {
        "tenant": terms.tenant_id,
        "weight": terms.weight,
        "slots_max": terms.slots_max,
        "tokens_max": terms.tokens_max,
        "reserve_tokens": terms.reserve_tokens,
    }
