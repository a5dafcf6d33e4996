"""`parley limits`: rates and concurrency of a tenant, and their use."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import click

from billing.cli.limited import counted_id_of, with_whom
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_with_redis,
    show,
    show_table,
    tenant_named,
    with_user_names,
)
from billing.enforcement import limit_settings
from billing.limits import Dimension, Mode, RequestLimits, Scope, UnitLimit
from billing.quota.client import Quota
from billing.quota.shadow_counts import shadow_refusals
from billing.quota.types import LimitUse
from billing.tables.limits import QuotaPolicy
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database


@click.group("limits")
def limits_command() -> None:
    """Limits on what a tenant may ask at once and a minute. Money is limited by `parley budgets`.

    \b
        parley limits set --tenant acme --scope tenant --dimension tokens_per_minute --limit 200000
        parley limits set --tenant acme --scope user --dimension concurrency --limit 4
        parley limits set --tenant acme --scope project --id web --dimension requests_per_minute --limit 60
        parley limits set --tenant acme --scope key --dimension requests_per_minute --limit 30 --shadow
        parley limits set --tenant acme --scope tenant --dimension answer_tokens --limit 1000

    Without --id, each project, key, user or model has the limit for itself; a key with those that it is
    rotated into has one. An edit counts within a second
    and forgets nothing of what was used. A limit in shadow mode refuses nobody: `list` says how often it
    would have. `answer_tokens` is how long an answer gets whose sender does not say: the least of all that
    apply, the plan's and the model's (`parley models answers`) too.
    """


_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")


@limits_command.command("set")
@_tenant
@click.option(
    "--scope", required=True, type=click.Choice([each.value for each in Scope]), help="Whom it is for."
)
@click.option("--id", "named", default="", help="One project, key, user or model; by default each of them.")
@click.option(
    "--dimension",
    required=True,
    type=click.Choice([each.value for each in Dimension]),
    help="What is counted.",
)
@click.option(
    "--limit", required=True, type=click.IntRange(0), help="Units a minute, or at once; 0: nothing passes."
)
@click.option("--burst", type=click.IntRange(1), help="Units that may come at once; by default the limit.")
@click.option("--models", default="*", show_default=True, help="The models that are counted, as `gpt-*`.")
@click.option("--shadow", is_flag=True, help="Only count what would be refused.")
@json_option
def set_limit_command(
    tenant: str,
    scope: str,
    named: str,
    dimension: str,
    limit: int,
    burst: int | None,
    models: str,
    shadow: bool,
    as_json: bool,
) -> None:
    """Set a limit, in place of the one that counts the same."""

    async def set_limit(db: Database, redis: RedisClient) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        row = await limit_settings.set_policy(
            db,
            redis,
            owner,
            scope=scope,
            scope_id=await counted_id_of(db, owner, scope, named),
            dimension=dimension,
            limit=limit,
            burst=burst,
            model_glob=models,
            mode=Mode.SHADOW if shadow else Mode.ENFORCE,
        )
        return await with_whom(db, owner, _facts(row), row.scope_id, "id")

    show(run_with_redis(set_limit), as_json)


@limits_command.command("list")
@_tenant
@click.option("--ended", is_flag=True, help="Those that were, too.")
@json_option
def list_limits_command(tenant: str, ended: bool, as_json: bool) -> None:
    """List a tenant's limits with what is used of them now.

    Use is shown where a limit is of one: the tenant, or the one that --id named. For one that each has for
    itself, see `parley limits show --help`."""

    async def read(db: Database, redis: RedisClient) -> list[dict[str, Any]]:
        owner = (await tenant_named(db, tenant)).tenant_id
        rows = await limit_settings.list_policies(db, owner, ended=ended)
        counted = [row for row in rows if row.ended_ms is None and _is_of_one(row)]
        used = dict(zip((row.id for row in counted), await _use(redis, owner, counted), strict=True))
        shadowed = await shadow_refusals(redis, owner)
        shown = [_facts(row) | _used(used.get(row.id)) | _would_refuse(row, shadowed) for row in rows]
        return await with_user_names(db, owner, shown, "id")

    show_table(run_with_redis(read), as_json, "no limits: see `parley limits set --help`")


@limits_command.command("show")
@_tenant
@click.argument("limit")
@click.option(
    "--id", "named", default="", help="Whose use is to be shown, where each has the limit for itself."
)
@json_option
def show_limit_command(tenant: str, limit: str, named: str, as_json: bool) -> None:
    """Show LIMIT (its id) and how much of it is used."""

    async def read(db: Database, redis: RedisClient) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        row = await _row(db, owner, limit)
        shadowed = await shadow_refusals(redis, owner)
        facts = _facts(row) | _would_refuse(row, shadowed)
        if named:
            row.scope_id = await counted_id_of(db, owner, row.scope, named, must_exist=False)
        if row.ended_ms is None and _is_of_one(row):
            (used,) = await _use(redis, owner, [row])
            facts |= {"of": row.scope_id} | _used(used)
        return await with_whom(db, owner, facts, row.scope_id, "id", "of")

    show(run_with_redis(read), as_json)


@limits_command.command("end")
@_tenant
@click.argument("limit")
@json_option
def end_limit_command(tenant: str, limit: str, as_json: bool) -> None:
    """End LIMIT (its id) at once. What it counted is not forgotten, should it be set again."""

    async def end(db: Database, redis: RedisClient) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        ended = await limit_settings.end_policy(db, redis, owner, limit)
        if ended is None:
            raise StartupError(f"there is no limit {limit!r}: see `parley limits list --tenant {owner}`")
        return await with_whom(db, owner, _facts(ended), ended.scope_id, "id")

    show(run_with_redis(end), as_json)


async def _row(db: Database, tenant: str, id: str) -> QuotaPolicy:
    rows = await limit_settings.list_policies(db, tenant, ended=True)
    found = next((row for row in rows if row.id == id), None)
    if found is None:
        raise StartupError(f"there is no limit {id!r}: see `parley limits list --tenant {quote(tenant)}`")
    return found


def _is_of_one(row: QuotaPolicy) -> bool:
    """True where something is counted, of one alone."""
    return row.dimension != Dimension.ANSWER and (row.scope == Scope.TENANT or row.scope_id != "")


async def _use(redis: RedisClient, tenant: str, rows: Sequence[QuotaPolicy]) -> Sequence[LimitUse]:
    limits = RequestLimits(tuple(_limit(row) for row in rows))
    return await Quota(redis, Settings()).use(tenant, limits, now_ms())


def _limit(row: QuotaPolicy) -> UnitLimit:
    burst = row.limit_units if row.burst_units is None else row.burst_units
    return UnitLimit(
        Scope(row.scope),
        row.scope_id,
        row.model_glob,
        Dimension(row.dimension),
        row.limit_units,
        burst,
        row.mode == Mode.SHADOW,
    )


def _facts(row: QuotaPolicy) -> dict[str, Any]:
    return {
        "limit_id": row.id,
        "scope": row.scope,
        "id": row.scope_id or ("each" if row.scope != Scope.TENANT else ""),
        "dimension": row.dimension,
        "models": row.model_glob,
        "limit": row.limit_units,
        "burst": row.burst_units,
        "mode": row.mode,
        "set": iso_time(row.created_ms),
        "ended": iso_time(row.ended_ms),
    }


def _used(use: LimitUse | None) -> dict[str, Any]:
    if use is None:
        return {"used": None, "remaining": None}
    return {"used": use.spent, "remaining": use.remaining}


def _would_refuse(row: QuotaPolicy, shadowed: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """Number of refusals that limits in shadow mode of its scope and dimension would have given."""
    counted = shadowed.get((row.scope, row.dimension), 0)
    return {"would_refuse": counted if row.mode == Mode.SHADOW else None}
