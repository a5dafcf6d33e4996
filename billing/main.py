"""This package's commands: the biller process, and an operator's view of tenants, keys and the schema."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from redis.exceptions import RedisError

from billing import biller, tenancy
from billing.tables import ApiKey, PoolTerms, Tenant
from billing.terms import find_terms, set_terms
from core import service
from core.clock import now_ms
from core.database import Database, migrate, require_schema
from core.errors import Refused, StartupError
from core.redis import connect
from core.settings import Settings

T = TypeVar("T")
DAY_MS = 86_400_000
NO_CAP = "none"


@click.command("biller")
def biller_command() -> None:
    """Post the usage of ended requests to the database, each exactly once.

    Reads the pools named by PARLEY_POOL (several: separated by commas). Any number of billers may run.
    """
    service.run(Settings(), "biller", biller.main)


@click.group("db")
def db_command() -> None:
    """The database."""


@db_command.command("migrate")
def migrate_command() -> None:
    """Bring the schema to the newest version.

    The database is PARLEY_DATABASE_URL, by default SQLite under PARLEY_HOME. Safe to run at any time, also by
    several processes at once.
    """
    asyncio.run(migrate(Settings().database_endpoint))
    click.echo("The database schema is up to date.")


@click.group("tenants")
def tenants_command() -> None:
    """Tenants: the customers of this installation."""


@tenants_command.command("create")
@click.argument("name")
@click.option("--priority-max", type=click.Choice(tenancy.PRIORITIES), default=tenancy.PRIORITIES[0])
@click.option("--price-book", default=tenancy.DEFAULT_PRICE_BOOK, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_tenant_command(name: str, priority_max: str, price_book: str, as_json: bool) -> None:
    """Create the tenant NAME with one project, `default`.

    Give it a key next: `parley keys create --tenant NAME`.
    """

    async def create(db: Database) -> Tenant:
        return await tenancy.create_tenant(db, name, price_book=price_book, priority_max=priority_max)

    tenant = _run(create)
    _show(_tenant_facts(tenant), as_json)


@tenants_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one tenant a line.")
def list_tenants_command(as_json: bool) -> None:
    """List all tenants, oldest first."""
    for tenant in _run(tenancy.list_tenants):
        _show_row(_tenant_facts(tenant), as_json)


class _Cap(click.ParamType[int | str]):
    """A number, or `none` for no cap."""

    name = "number|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or NO_CAP."""
        return NO_CAP if value == NO_CAP else click.INT.convert(value, param, ctx)


@tenants_command.command("terms")
@click.argument("tenant")
@click.option("--weight", type=float, help="Share against other tenants with waiting work; 1 by default.")
@click.option("--slots-max", type=_Cap(), help="Running requests at once.")
@click.option("--tokens-max", type=_Cap(), help="Tokens of its requests in the workers' memory at once.")
@click.option("--reserve-tokens", type=int, help="Tokens of each pool that others leave free for it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def terms_command(tenant: str, as_json: bool, **changes: float | str | None) -> None:
    """Show what TENANT (name or id) may take of the pools, or change it.

    Changes hold within a second, for requests that wait too. A share counts only while others wait: an idle
    pool is anybody's. Example: `parley tenants terms acme --weight 4 --slots-max 16 --tokens-max none`.
    """
    settings = Settings()
    wanted = {name: value for name, value in changes.items() if value is not None}

    async def change(db: Database) -> PoolTerms:
        terms = await find_terms(db, (await _find_tenant(db, tenant)).tenant_id)
        for name, value in wanted.items():
            setattr(terms, name, None if value == NO_CAP else value)
        if wanted:
            redis = connect(settings)
            try:
                await set_terms(db, redis, terms)
            finally:
                await redis.aclose()
        return terms

    _show(_terms_facts(_run(change, settings)), as_json)


@click.group("keys")
def keys_command() -> None:
    """API keys of a tenant."""


_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")


@keys_command.command("create")
@_tenant
@click.option("--project", default=tenancy.DEFAULT_PROJECT, show_default=True, help="Its name or id.")
@click.option("--name", default="", help="What the key is for.")
@click.option(
    "--user", default="", help="Bind the key to this user. Without it the key may name users itself."
)
@click.option("--scope", "scopes", multiple=True, type=click.Choice(sorted(tenancy.SCOPES)))
@click.option("--priority-max", type=click.Choice(tenancy.PRIORITIES), default=tenancy.PRIORITIES[0])
@click.option("--expires-days", type=click.IntRange(1, 3650), help="By default a key does not expire.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_key_command(
    tenant: str,
    project: str,
    name: str,
    user: str,
    scopes: tuple[str, ...],
    priority_max: str,
    expires_days: int | None,
    as_json: bool,
) -> None:
    """Create a key and print its secret.

    The secret is shown this once: only a hash of it is stored.
    """

    async def create(db: Database) -> tuple[ApiKey, str]:
        owner = await _find_tenant(db, tenant)
        found = await tenancy.find_project(db, owner.tenant_id, project)
        if found is None:
            raise StartupError(f"the tenant {owner.name!r} has no project {project!r}")
        return await tenancy.create_key(
            db,
            owner.tenant_id,
            found.id,
            name=name,
            scopes=scopes or tenancy.DEFAULT_SCOPES,
            user=user,
            priority_max=priority_max,
            expires_ms=None if expires_days is None else now_ms() + expires_days * DAY_MS,
        )

    key, secret = _run(create)
    _show({"secret": secret, **_key_facts(key)}, as_json)


@keys_command.command("list")
@_tenant
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one key a line.")
def list_keys_command(tenant: str, as_json: bool) -> None:
    """List a tenant's keys, oldest first, revoked ones too. Secrets cannot be shown again."""

    async def keys(db: Database) -> list[ApiKey]:
        return list(await tenancy.list_keys(db, (await _find_tenant(db, tenant)).tenant_id))

    for key in _run(keys):
        _show_row(_key_facts(key), as_json)


@keys_command.command("rotate")
@_tenant
@click.argument("key")
@click.option("--overlap-hours", type=click.IntRange(0, 720), default=24, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rotate_key_command(tenant: str, key: str, overlap_hours: int, as_json: bool) -> None:
    """Replace KEY (its id or prefix) by one with the same rights; the old one works for the overlap."""

    async def rotate(db: Database) -> tuple[ApiKey, str]:
        owner = await _find_tenant(db, tenant)
        return await tenancy.rotate_key(db, owner.tenant_id, key, overlap_hours * 3600)

    new, secret = _run(rotate)
    _show({"secret": secret, **_key_facts(new)}, as_json)


@keys_command.command("revoke")
@_tenant
@click.argument("key")
def revoke_key_command(tenant: str, key: str) -> None:
    """Revoke KEY (its id or prefix) at once; open connections of it are closed."""
    settings = Settings()

    async def revoke(db: Database) -> ApiKey | None:
        redis = connect(settings)
        try:
            return await tenancy.revoke_key(db, redis, (await _find_tenant(db, tenant)).tenant_id, key)
        finally:
            await redis.aclose()

    revoked = _run(revoke, settings)
    if revoked is None:
        raise StartupError(f"the tenant {tenant!r} has no key {key!r}")
    click.echo(f"pk_{revoked.prefix}_… is revoked.")


def _run(action: Callable[[Database], Coroutine[Any, Any, T]], settings: Settings | None = None) -> T:
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


async def _find_tenant(db: Database, name_or_id: str) -> Tenant:
    tenant = await tenancy.find_tenant(db, name_or_id)
    if tenant is None:
        raise StartupError(f"there is no tenant {name_or_id!r}: see `parley tenants list`")
    return tenant


def _tenant_facts(tenant: Tenant) -> dict[str, Any]:
    return {
        "tenant": tenant.tenant_id,
        "name": tenant.name,
        "price_book": tenant.price_book_id,
        "priority_max": tenant.priority_max,
        "created": _time(tenant.created_ms),
        "closed": _time(tenant.closed_ms),
    }


def _terms_facts(terms: PoolTerms) -> dict[str, Any]:
    return {
        "tenant": terms.tenant_id,
        "weight": terms.weight,
        "slots_max": terms.slots_max,
        "tokens_max": terms.tokens_max,
        "reserve_tokens": terms.reserve_tokens,
    }


def _key_facts(key: ApiKey) -> dict[str, Any]:
    return {
        "key": key.id,
        "prefix": f"pk_{key.prefix}",
        "name": key.name,
        "tenant": key.tenant_id,
        "project": key.project_id,
        "user": key.user_id,
        "scopes": key.scopes,
        "priority_max": key.priority_max,
        "created": _time(key.created_ms),
        "expires": _time(key.expires_ms),
        "revoked": _time(key.revoked_ms),
        "rotated_from": key.rotated_from,
    }


def _time(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else datetime.fromtimestamp(unix_ms // 1000, UTC).isoformat()


def _show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        if value not in (None, ""):
            click.echo(f"{name:15}{_text(value)}")


def _show_row(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo("  ".join(_text(value) for value in facts.values() if value not in (None, "")))


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
