"""Database access and output of this package's commands."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

import click

from billing.tables.tenants import Tenant
from billing.tenants import tenancy
from billing.tenants.users import known_users
from core.api_address import require_local
from core.clock import iso_time as iso_time
from core.configuration.settings import Settings
from core.errors import Refused, StartupError
from core.redis import redis_errors
from core.redis.client import RedisClient, connect
from core.sql.database import Database, require_schema
from core.sql.store_errors import redis_failure
from core.terminal.refused_text import refused_text
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks

T = TypeVar("T")

NO_NUMBER = "none"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NUMBER = re.compile(r"[$+-]*[\d,.]+( ?%)?( \([+-]?[\d,.]+ %\))?", re.ASCII)


class _NumberOrNone(click.ParamType[int | str]):
    """A number, or `none`."""

    name = "number|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number, or NO_NUMBER."""
        return NO_NUMBER if value == NO_NUMBER else click.INT.convert(value, param, ctx)


NUMBER_OR_NONE = _NumberOrNone()


def number_given(value: int | str) -> int | None:
    """The number that NUMBER_OR_NONE parsed; None for `none`."""
    return None if value == NO_NUMBER else int(value)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


def run_on_database(
    action: Callable[[Database], Coroutine[Any, Any, T]], settings: Settings | None = None
) -> T:
    """Run `action` on the configured database; a refusal becomes one line and exit code 1."""
    require_local()
    settings = settings or Settings()

    async def with_database() -> T:
        db = Database(settings.database_endpoint)
        try:
            await require_schema(db)
            return await action(db)
        finally:
            await db.close()

    try:
        return asyncio.run(with_database())
    except Refused as refused:
        raise StartupError(refused_text(refused.refusal)) from refused
    except redis_errors.RedisError as error:
        why = redis_failure(error, settings)
        raise StartupError(f"what is in the database may be changed already, but {why}") from error


def run_with_redis(action: Callable[[Database, RedisClient], Coroutine[Any, Any, T]]) -> T:
    """Run `action` with the database and Redis, for commands that also publish their change."""
    settings = Settings()

    async def with_redis(db: Database) -> T:
        redis = connect(settings)
        try:
            return await action(db, redis)
        finally:
            await redis.aclose()

    return run_on_database(with_redis, settings)


async def tenant_named(db: Database, name_or_id: str) -> Tenant:
    """Find a tenant by name or id. Raises StartupError where there is none."""
    tenant = await tenancy.find_tenant(db, name_or_id)
    if tenant is None:
        raise StartupError(f"there is no tenant {name_or_id!r}: see `parley tenants list`")
    return tenant


async def with_user_names(
    db: Database, tenant_id: str, rows: Sequence[dict[str, Any]], *fields: str
) -> list[dict[str, Any]]:
    """Rows with users' names in place of the ids in these fields."""
    ids = {row[field] for row in rows for field in fields if row.get(field)}
    names = await known_users(db, tenant_id, ids)
    return [
        row | {field: names.get(row[field], row[field]) for field in fields if row.get(field)} for row in rows
    ]


def show(facts: dict[str, Any], as_json: bool) -> None:
    """Print one thing: a line for each fact that is not empty, or a JSON object."""
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        if value not in (None, ""):
            print_line(f"{name:<14} {_text(value)}")


def show_table(rows: Sequence[dict[str, Any]], as_json: bool, empty: str) -> None:
    """Print things with the same facts: a table, or a JSON object a line. `empty`: text for an empty list.

    A fact that is empty in all rows has no column; an id is never broken over lines, so that it can be
    copied.
    """
    if as_json:
        for facts in rows:
            print_json(facts)
        return
    if not rows:
        print_line(empty)
        return
    table = Table()
    names = [name for name in rows[0] if any(facts[name] not in (None, "") for facts in rows)]
    for name in names:
        values = [facts[name] for facts in rows if facts[name] not in (None, "")]
        right = name != "version" and all(map(_is_number, values))
        table.columns(name, right=right, whole=any(UUID.fullmatch(str(value)) for value in values))
    for facts in rows:
        table.row(*("" if facts[name] is None else _text(facts[name]) for name in names))
    print_blocks(table)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and NUMBER.fullmatch(value) is not None)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(cast(list[str], value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
