"""`parley keys`: API keys of a tenant."""

from typing import Any

import click

from billing import tenancy
from billing.commands.running import iso_time, run_on_database, show, show_row, tenant_named
from billing.tables import ApiKey
from core.clock import now_ms
from core.database import Database
from core.errors import StartupError
from core.redis import connect
from core.settings import Settings

DAY_MS = 86_400_000


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
        owner = await tenant_named(db, tenant)
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

    key, secret = run_on_database(create)
    show({"secret": secret, **_key_facts(key)}, as_json)


@keys_command.command("list")
@_tenant
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one key a line.")
def list_keys_command(tenant: str, as_json: bool) -> None:
    """List a tenant's keys, oldest first, revoked ones too. Secrets cannot be shown again."""

    async def keys(db: Database) -> list[ApiKey]:
        return list(await tenancy.list_keys(db, (await tenant_named(db, tenant)).tenant_id))

    for key in run_on_database(keys):
        show_row(_key_facts(key), as_json)


@keys_command.command("rotate")
@_tenant
@click.argument("key")
@click.option("--overlap-hours", type=click.IntRange(0, 720), default=24, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rotate_key_command(tenant: str, key: str, overlap_hours: int, as_json: bool) -> None:
    """Replace KEY (its id or prefix) by one with the same rights; the old one works for the overlap."""

    async def rotate(db: Database) -> tuple[ApiKey, str]:
        owner = await tenant_named(db, tenant)
        return await tenancy.rotate_key(db, owner.tenant_id, key, overlap_hours * 3600)

    new, secret = run_on_database(rotate)
    show({"secret": secret, **_key_facts(new)}, as_json)


@keys_command.command("revoke")
@_tenant
@click.argument("key")
def revoke_key_command(tenant: str, key: str) -> None:
    """Revoke KEY (its id or prefix) at once; open connections of it are closed."""
    settings = Settings()

    async def revoke(db: Database) -> ApiKey | None:
        redis = connect(settings)
        try:
            return await tenancy.revoke_key(db, redis, (await tenant_named(db, tenant)).tenant_id, key)
        finally:
            await redis.aclose()

    revoked = run_on_database(revoke, settings)
    if revoked is None:
        raise StartupError(f"the tenant {tenant!r} has no key {key!r}")
    click.echo(f"pk_{revoked.prefix}_… is revoked.")


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
        "created": iso_time(key.created_ms),
        "expires": iso_time(key.expires_ms),
        "revoked": iso_time(key.revoked_ms),
        "rotated_from": key.rotated_from,
    }
