"""How this package's commands reach the database, and how they show what they found."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from redis.exceptions import RedisError

from billing import tenancy
from billing.tables import Tenant
from core.database import Database, require_schema
from core.errors import Refused, StartupError
from core.settings import Settings

T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


def run_on_database(
    action: Callable[[Database], Coroutine[Any, Any, T]], settings: Settings | None = None
) -> T:
    """Run `action` on the configured database; what it refuses becomes one line and exit code 1."""

    async def with_database() -> T:
        db = Database((settings or Settings()).database_endpoint)
        try:
            await require_schema(db)
            return await action(db)
        finally:
            await db.close()

    try:
        return asyncio.run(with_database())
    except Refused as refused:
        raise StartupError(refused.refusal.message) from refused
    except RedisError as error:
        raise StartupError(f"the database is changed, but Redis does not answer: {error}") from error


async def tenant_named(db: Database, name_or_id: str) -> Tenant:
    """Raises StartupError where there is none."""
    tenant = await tenancy.find_tenant(db, name_or_id)
    if tenant is None:
        raise StartupError(f"there is no tenant {name_or_id!r}: see `parley tenants list`")
    return tenant


def iso_time(unix_ms: int | None) -> str | None:
    """Unix ms as ISO 8601 in UTC, without fractions."""
    return None if unix_ms is None else datetime.fromtimestamp(unix_ms // 1000, UTC).isoformat()


def show(facts: dict[str, Any], as_json: bool) -> None:
    """One thing: a line a fact, those that are empty left out; or a JSON object."""
    if as_json:
        click.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        if value not in (None, ""):
            click.echo(f"{name:15}{_text(value)}")


def show_row(facts: dict[str, Any], as_json: bool) -> None:
    """One of several things, on a line."""
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo("  ".join(_text(value) for value in facts.values() if value not in (None, "")))


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
