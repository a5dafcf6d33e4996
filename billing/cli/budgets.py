"""`parley budgets`: limits on money, and their spending."""

from collections.abc import Sequence
from datetime import datetime
from shlex import quote
from typing import Any
from zoneinfo import ZoneInfo

import click

from billing.cli.arguments import instant_of, nano_of
from billing.cli.limited import with_whom
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
from billing.enforcement.scope_ids import counted_id_of
from billing.limits import Mode, Scope
from billing.money import to_display
from billing.periods import LAST_MS, Period
from billing.quota.client import Quota
from billing.quota.types import MoneySum
from billing.tables.limits import Budget
from billing.wallets.budgets import EACH_MAX, BudgetStanding, budget_standings, check_budgets
from core.actor import current_author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.sql.database import Database

UNKNOWN = "unknown"


@click.group("budgets")
def budgets_command() -> None:
    """Limits on what may be spent in a day, week or month of the tenant's time zone, or ever.

    \b
        parley budgets set --tenant acme --limit "250.00 USD"
        parley budgets set --tenant acme --limit "5 USD" --scope user --period day --soft
        parley budgets set --tenant acme --limit "40 USD" --scope project --id web --thresholds 50,90,100
        parley budgets override --tenant acme BUDGET --limit "400 USD" --until 2026-12-01

    Without --id, each project, key, user or model has the budget for itself; one that is named has its own
    in its place. A key and what it is rotated into have one.
    A hard budget ends answers at the limit; a soft one only alerts (`parley alerts`). A request
    counts in the window in which it was accepted. An edit gives a budget a new id; old ones still name it.
    """


_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")
_limit = click.option("--limit", required=True, help="Like '250.00 USD'; at most nine decimals.")


class _PerCents(click.ParamType[tuple[int, ...]]):
    """Whole numbers, separated by commas."""

    name = "n,n,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]  (the default)
        try:
            return tuple(int(each) for each in str(value).split(",") if each.strip())
        except ValueError:
            self.fail(f"{value!r}: write per cents like 50,80,100", param, ctx)


@budgets_command.command("set")
@_tenant
@_limit
@click.option("--scope", type=click.Choice([*map(str, Scope)]), default="tenant", show_default=True)
@click.option("--id", "named", default="", help="One project, key, user or model; by default each of them.")
@click.option("--period", type=click.Choice([*map(str, Period)]), default="month", show_default=True)
@click.option("--soft", is_flag=True, help="Alert only, refuse nothing.")
@click.option(
    "--thresholds",
    type=_PerCents(),
    default=limit_settings.DEFAULT_THRESHOLDS,
    help="Per cents of the limit that alert; by default 50,80,100.",
)
@click.option("--shadow", is_flag=True, help="Count what would be refused, and refuse nothing.")
@json_option
def set_command(
    tenant: str,
    limit: str,
    scope: str,
    named: str,
    period: str,
    soft: bool,
    thresholds: tuple[int, ...],
    shadow: bool,
    as_json: bool,
) -> None:
    """Set a budget, in place of the one that counts the same. What is spent already counts."""
    limit_nano = nano_of(limit)

    async def change(db: Database, redis: RedisClient) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        row = await limit_settings.set_budget(
            db,
            redis,
            owner,
            scope=scope,
            scope_id=await counted_id_of(db, owner, scope, named),
            period=period,
            limit_nano=limit_nano,
            hard=not soft,
            mode=Mode.SHADOW if shadow else Mode.ENFORCE,
            thresholds=thresholds,
            author=current_author().name,
        )
        await check_budgets(db, owner)
        return await with_whom(db, owner, _facts(row, as_json), row.scope_id, "of")

    show(run_with_redis(change), as_json)


@budgets_command.command("list")
@_tenant
@click.option("--ended", is_flag=True, help="All that ever were, without what was spent.")
@json_option
def list_command(tenant: str, ended: bool, as_json: bool) -> None:
    """List each budget's money spent, held by open requests and left now, and when it begins anew.

    Of a budget that each has for itself, whoever spent the most: `parley budgets show` tells more.
    """
    _print(tenant, None, 1, ended, as_json)


@budgets_command.command("show")
@_tenant
@click.argument("budget")
@json_option
def show_command(tenant: str, budget: str, as_json: bool) -> None:
    """Show BUDGET (its id); where each has it for itself, those who spent the most."""
    _print(tenant, budget, EACH_MAX, False, as_json)


@budgets_command.command("override")
@_tenant
@click.argument("budget")
@click.option("--limit", help="The limit that holds meanwhile, like '400.00 USD'.")
@click.option("--until", help="When it ends by itself, like 2026-12-01, in the tenant's time zone.")
@click.option("--end", "ends", is_flag=True, help="End the override that there is.")
@json_option
def override_command(
    tenant: str, budget: str, limit: str | None, until: str | None, ends: bool, as_json: bool
) -> None:
    """Put another limit in the place of BUDGET's (its id) for some time."""
    if ends == bool(limit) or bool(limit) != bool(until):
        raise StartupError("give --limit and --until, or --end")

    async def change(db: Database, redis: RedisClient) -> dict[str, Any]:
        owner = await tenant_named(db, tenant)
        budget_id = await _newest(db, owner.tenant_id, budget)
        until_ms = instant_of(until, ZoneInfo(owner.time_zone)) if until else 0
        limit_nano = nano_of(limit) if limit else None
        author = current_author().name
        row = await limit_settings.override_budget(
            db, redis, owner.tenant_id, budget_id, limit_nano, until_ms, author
        )
        await check_budgets(db, owner.tenant_id)
        found = _found(row, budget, tenant)
        return await with_whom(db, owner.tenant_id, _facts(found, as_json), found.scope_id, "of")

    show(run_with_redis(change), as_json)


@budgets_command.command("end")
@_tenant
@click.argument("budget")
@json_option
def end_command(tenant: str, budget: str, as_json: bool) -> None:
    """End BUDGET (its id) at once. What was spent is not forgotten, should it be set again."""

    async def end(db: Database, redis: RedisClient) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        row = await limit_settings.end_budget(db, redis, owner, await _newest(db, owner, budget))
        found = _found(row, budget, tenant)
        return await with_whom(db, owner, _facts(found, as_json), found.scope_id, "of")

    show({**run_with_redis(end), "done": "ended"}, as_json)


async def _newest(db: Database, tenant_id: str, budget: str) -> str:
    """The present id of BUDGET: each edit gives a new id, and alerts name old ones."""
    rows = await limit_settings.list_budgets(db, tenant_id, ended=True)
    for old in rows:  # oldest first, so that one pass follows all edits
        if old.id == budget and old.ended_ms is not None:
            budget = next((row.id for row in rows if _replaces(row, old)), budget)
    return budget


def _replaces(row: Budget, old: Budget) -> bool:
    same = (row.scope, row.scope_id, row.period, row.mode) == (old.scope, old.scope_id, old.period, old.mode)
    return same and row.created_ms == old.ended_ms and row.id != old.id


def _found(row: Budget | None, budget: str, tenant: str) -> Budget:
    if row is None:
        raise StartupError(_no_budget(budget, tenant))
    return row


def _no_budget(budget: str, tenant: str) -> str:
    return f"there is no open budget {budget!r}: see `parley budgets list --tenant {quote(tenant)}`"


def _print(tenant: str, budget: str | None, each_max: int, ended: bool, as_json: bool) -> None:
    async def read(db: Database, redis: RedisClient) -> list[dict[str, Any]]:
        owner = await tenant_named(db, tenant)
        if ended:
            rows = await limit_settings.list_budgets(db, owner.tenant_id, ended=True)
            return await with_user_names(db, owner.tenant_id, [_facts(row, as_json) for row in rows], "of")
        shown = budget and await _newest(db, owner.tenant_id, budget)
        held = await _held(redis, owner.tenant_id)
        found: list[dict[str, Any]] = []
        for row, stands in await budget_standings(db, owner.tenant_id, now_ms(), each_max):
            if shown in (None, row.id):
                zone = ZoneInfo(owner.time_zone)
                found += [_facts(row, as_json) | _standing(each, held, zone, as_json) for each in stands] or [
                    _facts(row, as_json)
                ]
        if budget is not None and not found:
            raise StartupError(_no_budget(budget, tenant))
        return await with_user_names(db, owner.tenant_id, found, "of")

    rows = run_with_redis(read)
    names = list(dict.fromkeys(name for row in rows for name in row))
    full = [{name: row.get(name) for name in names} for row in rows]
    show_table(full, as_json, "no budgets: see `parley budgets set --help`")


async def _held(redis: RedisClient, tenant_id: str) -> Sequence[MoneySum] | None:
    """Redis' counts; None where it does not answer."""
    try:
        return await Quota(redis, Settings()).budget_sums(tenant_id)
    except (redis_errors.RedisError, OSError):
        return None


def _facts(row: Budget, as_json: bool) -> dict[str, Any]:
    overridden = row.override_nano is not None and now_ms() < (row.override_until_ms or 0)
    return {
        "budget": row.id,
        "scope": row.scope,
        "of": row.scope_id or ("" if row.scope == Scope.TENANT else "each"),
        "period": row.period,
        "kind": "hard" if row.hard else "soft",
        "mode": row.mode,
        **_money("limit", row.limit_nano, as_json),
        **(_override(row, as_json) if overridden else {}),
        "thresholds": ",".join(str(each) for each in row.thresholds),
        "author": row.author,
    }


def _override(row: Budget, as_json: bool) -> dict[str, Any]:
    limit = _money("override", row.override_nano or 0, as_json)
    return {**limit, "override_until": iso_time(row.override_until_ms)}


def _standing(
    found: BudgetStanding, counts: Sequence[MoneySum] | None, zone: ZoneInfo, as_json: bool
) -> dict[str, Any]:
    shadow = found.budget.mode == Mode.SHADOW
    whose = (found.counted.scope, found.counted.scope_id, found.budget.period, found.window.start_ms, shadow)
    held: int | None = None if counts is None else 0
    for each in counts or ():
        if (each.scope, each.scope_id, each.period, each.window_start_ms, each.shadow) == whose:
            held = each.held_nano + each.unbooked_nano
    unknown: dict[str, Any] = {"held_nano": None} if as_json else {"held": UNKNOWN}
    return {
        "of": found.counted.scope_id,
        **_money("spent", found.spent_nano, as_json),
        **(unknown if held is None else _money("held", held, as_json)),
        **_money("left", max(0, found.left_nano - (held or 0)), as_json),
        "percent": found.percent,
        "resets": _local(found.window.end_ms, zone) if found.window.end_ms < LAST_MS else None,
        "exhausted": _local(found.exhausted_ms, zone),
    }


def _money(name: str, nano: int, as_json: bool) -> dict[str, int | str]:
    return {f"{name}_nano": nano} if as_json else {name: to_display(nano)}


def _local(unix_ms: int | None, zone: ZoneInfo) -> str | None:
    return None if unix_ms is None else datetime.fromtimestamp(unix_ms // 1000, zone).isoformat()
