"""`parley keys`: API keys of a tenant."""

from datetime import datetime
from typing import Any

import click

from billing.cli.cancel import Cancelled, cancel_option, cancel_requests, facts_of
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show,
    show_table,
    tenant_named,
    with_user_name,
    with_user_names,
)
from billing.quota.open_requests import OwnerFilter
from billing.tables.tenants import ApiKey
from billing.tenants import keys, tenancy
from billing.tenants.keys import KeyState, key_state, successors
from billing.tenants.sign_in_links import make_link_code
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database
from core.terminal.terminal import print_line
from core.web.local_urls import gateway_url

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
@click.option(
    "--users-optional",
    "shared",
    is_flag=True,
    help="Its tickets need not name a user: all browsers that have them are one, and see each other's chats.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(sorted(keys.SCOPES)),
    help="Several: once each. By default chat. usage:read: the usage of its project over the usage API, "
    "usage:read:tenant: of all projects.",
)
@click.option("--priority-max", type=click.Choice(tenancy.PRIORITIES), default=tenancy.PRIORITIES[0])
@click.option("--expires-days", type=click.IntRange(1, 3650), help="By default a key does not expire.")
@click.option("--expires", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), help="As 2027-01-31T00:00:00Z.")
@json_option
def create_key_command(
    tenant: str,
    project: str,
    name: str,
    user: str,
    shared: bool,
    scopes: tuple[str, ...],
    priority_max: str,
    expires_days: int | None,
    expires: datetime | None,
    as_json: bool,
) -> None:
    """Create a key and print its secret.

    The secret is shown this once: only a hash of it is stored.
    """
    if expires is not None and expires_days is not None:
        raise click.UsageError("name --expires or --expires-days, not both")
    ends = now_ms() + expires_days * DAY_MS if expires_days else None
    settings = Settings()

    async def create(db: Database) -> dict[str, Any]:
        owner = await tenant_named(db, tenant)
        found = await tenancy.find_project(db, owner.tenant_id, project)
        if found is None:
            raise StartupError(f"the tenant {owner.name!r} has no project {project!r}")
        key, secret = await keys.create_key(
            db,
            owner.tenant_id,
            found.id,
            name=name,
            scopes=scopes or keys.DEFAULT_SCOPES,
            user=user,
            shared=shared,
            priority_max=priority_max,
            expires_ms=int(expires.timestamp() * 1000) if expires else ends,
            keys_max=settings.keys_per_tenant_max,
            users_max=settings.users_per_tenant_max,
        )
        return await with_user_name(db, key.tenant_id, {"secret": secret, **_key_facts(key)}, "user")

    show(run_on_database(create, settings), as_json)


@keys_command.command("list")
@_tenant
@json_option
def list_keys_command(tenant: str, as_json: bool) -> None:
    """List a tenant's keys, oldest first, revoked ones too. Secrets cannot be shown again.

    A rotated key works until it expires; its successor is named.
    """

    shared: list[str] = []

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = (await tenant_named(db, tenant)).tenant_id
        found = await keys.list_keys(db, owner)
        followed, now = successors(found), now_ms()
        rows: list[dict[str, Any]] = []
        for key in found:
            successor = followed.get(key.id)
            state = key_state(key, followed, now).value
            if key.shared and state in (KeyState.ACTIVE, KeyState.ROTATED):
                shared.append(f"pk_{key.prefix}")
            if as_json:
                rows.append({**_key_facts(key), "successor": successor and successor.id, "state": state})
            else:
                rows.append(_key_line(key, successor, state))
        return await with_user_names(db, owner, rows, "user")

    show_table(run_on_database(read), as_json, "there are no keys: see `parley keys create --help`")
    if shared:
        print_line(
            f"warning: browsers with tickets of {', '.join(shared)} that name no user are one, and see each "
            "other's chats; let tickets name users, and make keys without --users-optional",
            err=True,
        )


@keys_command.command("rotate")
@_tenant
@click.argument("key")
@click.option("--overlap-hours", type=click.IntRange(0, 720), default=24, show_default=True)
@json_option
def rotate_key_command(tenant: str, key: str, overlap_hours: int, as_json: bool) -> None:
    """Replace KEY (its id or prefix) by one with the same rights; the old one works for the overlap."""

    async def rotate(db: Database, redis: RedisClient) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        new, secret = await keys.rotate_key(db, owner, key, overlap_hours * 3600, redis)
        return await with_user_name(db, owner, {"secret": secret, **_key_facts(new)}, "user")

    show(run_with_redis(rotate), as_json)


@keys_command.command("revoke")
@_tenant
@click.argument("key")
@cancel_option
@json_option
def revoke_key_command(tenant: str, key: str, cancel: bool, as_json: bool) -> None:
    """Revoke KEY (its id or prefix) at once; open connections of it are closed.

    What it has queued and running goes on unless --cancel ends it, now or by revoking again.
    """

    async def revoke(db: Database, redis: RedisClient) -> tuple[dict[str, Any], Cancelled | None]:
        owner = (await tenant_named(db, tenant)).tenant_id
        revoked = await keys.revoke_key(db, redis, owner, key)
        if revoked is None:
            raise StartupError(keys.key_not_found_text(key, owner))
        cancelled = await cancel_requests(db, redis, OwnerFilter(owner, key=revoked.id)) if cancel else None
        return await with_user_name(db, owner, _key_facts(revoked), "user"), cancelled

    revoked, cancelled = run_with_redis(revoke)
    if as_json:
        show(revoked | facts_of(cancelled), as_json)
        return
    print_line(f"{revoked['prefix']}_… is revoked.")
    show(facts_of(cancelled), as_json)


@keys_command.command("sign-in-link")
@_tenant
@click.argument("key")
@click.option("--user", default="", help="Whom it signs in. A key that is bound to a user names them itself.")
@click.option("--url", help="Where browsers reach Parley. By default as `parley up` or the settings say.")
@json_option
def link_command(tenant: str, key: str, user: str, url: str | None, as_json: bool) -> None:
    """Print a link that signs one browser in with KEY (its id or prefix), once, within an hour.

    The same user finds the same chats in every browser that they sign in.
    """
    settings = Settings()

    async def found(db: Database) -> tuple[ApiKey, str]:
        return await keys.key_for_link(
            db, (await tenant_named(db, tenant)).tenant_id, key, user, settings.users_per_tenant_max
        )

    row, whom = run_on_database(found, settings)
    code = make_link_code(settings.keyring, row.tenant_id, row.id, whom, now_ms())
    link = f"{(url or gateway_url(settings)).rstrip('/')}/#c={code}"
    if as_json:
        show({"link": link}, as_json)
    else:
        print_line(link)


def _key_facts(key: ApiKey) -> dict[str, Any]:
    return {
        "key": key.id,
        "prefix": f"pk_{key.prefix}",
        "name": key.name,
        "tenant": key.tenant_id,
        "project": key.project_id,
        "user": key.user_id,
        "shared": key.shared,
        "scopes": key.scopes,
        "priority_max": key.priority_max,
        "created": iso_time(key.created_ms),
        "expires": iso_time(key.expires_ms),
        "revoked": iso_time(key.revoked_ms),
        "rotated_from": key.rotated_from,
    }


def _key_line(key: ApiKey, successor: ApiKey | None, state: str) -> dict[str, Any]:
    return {
        "key": key.id,
        "prefix": f"pk_{key.prefix}",
        "name": key.name,
        "user": key.user_id,
        "shared": "shared" if key.shared else "",
        "scopes": key.scopes,
        "created": iso_time(key.created_ms),
        "expires": iso_time(key.expires_ms),
        "successor": f"pk_{successor.prefix}" if successor else "",
        "state": state,
    }
