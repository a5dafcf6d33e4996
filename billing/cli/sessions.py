"""`parley sessions`: browsers that are signed in."""

from shlex import quote
from typing import Any

import click

from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show_table,
    tenant_named,
)
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import PLATFORM
from billing.tenants import sessions
from billing.tenants.session_ends import end_session
from billing.tenants.users import user_named, user_names
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database
from core.terminal.terminal import print_line


@click.group("sessions")
def sessions_command() -> None:
    """Browsers that are signed in."""


_tenant = click.option("--tenant", help="The tenant's name or id.")
_operators = click.option("--operators", is_flag=True, help="Those of the console instead of a tenant's.")


@sessions_command.command("list")
@_tenant
@_operators
@json_option
def list_command(tenant: str | None, operators: bool, as_json: bool) -> None:
    """List who is signed in, newest first."""
    _require_one(tenant, operators)

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = await _owner(db, tenant)
        found = await sessions.list_sessions(db, owner)
        names = await user_names(db, owner, {row.user_id for row in found})
        return [{**_facts(row), "user": names[row.user_id]} for row in found]

    show_table(run_on_database(read), as_json, "nobody is signed in")


@sessions_command.command("revoke")
@_tenant
@_operators
@click.argument("session", required=False)
@click.option("--user", help="All browsers of this user.")
def revoke_command(tenant: str | None, operators: bool, session: str | None, user: str | None) -> None:
    """Sign the browser of SESSION out, or all of a user; their connections close within a second."""
    _require_one(tenant, operators)
    whose = f"--tenant {quote(tenant)}" if tenant is not None else "--operators"
    if (session is None) == (user is None):
        raise click.UsageError(f"name a SESSION (see `parley sessions list {whose}`) or --user")

    async def end(db: Database, redis: RedisClient) -> int:
        owner = await _owner(db, tenant)
        known = await user_named(db, owner, user) if user is not None else None
        whom = known.id if known is not None else user
        ended = 0
        while wanted := await sessions.list_sessions(db, owner, session, whom):
            ended += sum([await end_session(db, redis, owner, row.id) for row in wanted])
        return ended

    ended = run_with_redis(end)
    if ended == 0:
        raise StartupError(f"nobody is signed in by that: see `parley sessions list {whose}`")
    print_line(f"signed out: {ended}")


def _require_one(tenant: str | None, operators: bool) -> None:
    if (tenant is None) != operators:
        raise click.UsageError("name --tenant or --operators")


async def _owner(db: Database, tenant: str | None) -> str:
    return PLATFORM if tenant is None else (await tenant_named(db, tenant)).tenant_id


def _facts(row: BrowserSession) -> dict[str, Any]:
    return {
        "session": row.id,
        "user": row.user_id,
        "key": row.key_id,
        "address": row.address,
        "agent": row.agent,
        "made": iso_time(row.made_ms),
        "seen": iso_time(row.seen_ms),
        "ends": iso_time(row.ends_ms),
    }
