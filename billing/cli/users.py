"""`parley users`: the users that a tenant's keys act for."""

from typing import Any

import click

from billing.cli.cancel import Cancelled, cancel_option, cancel_requests, facts_of
from billing.cli.erasure import erase_user_command, export_user_command
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show,
    show_table,
    tenant_named,
)
from billing.quota.open_requests import OwnerFilter
from billing.tables.tenants import TenantUser
from billing.tenants import users
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.sql.database import Database

_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")


@click.group("users")
def users_command() -> None:
    """Users of a tenant, by the names that the tenant gives them.

    A key may be bound to one user; a key without a user names users itself, and nobody has to make those
    known. A closed user is refused either way.
    """


users_command.add_command(export_user_command)
users_command.add_command(erase_user_command)


@users_command.command("create")
@_tenant
@click.argument("user")
@json_option
def create_user_command(tenant: str, user: str, as_json: bool) -> None:
    """Make USER known. `parley keys create --user` does it too."""
    settings = Settings()

    async def create(db: Database) -> TenantUser:
        owner = (await tenant_named(db, tenant)).tenant_id
        return await users.create_user(db, owner, user, settings.users_per_tenant_max)

    show(_facts(run_on_database(create, settings)), as_json)


@users_command.command("list")
@_tenant
@json_option
def list_users_command(tenant: str, as_json: bool) -> None:
    """The users who are known: named by keys or tickets, or made by `parley users create`."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = (await tenant_named(db, tenant)).tenant_id
        return [_facts(user) for user in await users.list_users(db, owner)]

    show_table(run_on_database(read), as_json, "there are no users")


@users_command.command("close")
@_tenant
@click.argument("user")
@cancel_option
@json_option
def close_user_command(tenant: str, user: str, cancel: bool, as_json: bool) -> None:
    """Refuse USER from now on: keys bound to them, and keys and tickets that name them.

    Open connections are closed. What they used stays in the books. `reopen` undoes it. What they have queued
    and running goes on unless --cancel ends it, now or by closing again.
    """
    closed, cancelled = _close(tenant, user, closed=True, cancel=cancel)
    show(_facts(closed) | facts_of(cancelled), as_json)


@users_command.command("reopen")
@_tenant
@click.argument("user")
@json_option
def reopen_user_command(tenant: str, user: str, as_json: bool) -> None:
    """Let USER in again."""
    show(_facts(_close(tenant, user, closed=False)[0]), as_json)


def _close(tenant: str, user: str, closed: bool, cancel: bool = False) -> tuple[TenantUser, Cancelled | None]:
    async def change(db: Database, redis: RedisClient) -> tuple[TenantUser, Cancelled | None]:
        owner = (await tenant_named(db, tenant)).tenant_id
        account = await users.close_user(db, redis, owner, user, closed)
        whose = OwnerFilter(owner, user=account.id)
        return account, await cancel_requests(db, redis, whose) if cancel else None

    return run_with_redis(change)


def _facts(user: TenantUser) -> dict[str, Any]:
    return {
        "user": users.shown_name(user),
        "id": user.id,
        "created": iso_time(user.created_ms),
        "closed": iso_time(user.closed_ms),
    }
