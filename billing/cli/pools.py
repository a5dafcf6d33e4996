"""`parley pools`: owners of pools, use of their GPUs, tenants' commitments, and the platform's costs of
GPUs."""

from typing import Any

import click

from billing.cli.arguments import TAKEN_BACK, end_state, nano_of
from billing.cli.months import month_window
from billing.cli.run_command import iso_time, json_option, run_on_database, show, show_table, tenant_named
from billing.dedicated_pools.commitments import (
    NOTICE_DAYS_MAX,
    PAYMENTS,
    GpuTerms,
    commit_gpus,
    end_gpu_commitment,
    gpu_commitments_of,
    gpu_costs,
    set_gpu_cost,
)
from billing.dedicated_pools.owners import assign_pool, owners_of, share_pool
from billing.dedicated_pools.reports import PoolUse, pool_usage, whole_hours
from billing.money import to_display
from billing.periods import HOUR_MS, UTC_ZONE, Calendar, PeriodWindow
from billing.prices.book import ANY_MODEL, gpu_price, pinned_prices
from billing.prices.calendars import calendar_of
from billing.tables.dedicated_pools import Commitment, GpuCost
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import find_project, tenant_names
from core.clock import now_ms
from core.errors import Refused, StartupError
from core.sql.database import Database
from core.terminal.terminal import print_line

DAYS_MAX = 366 * 5


@click.group("pools")
def pools_command() -> None:
    """Dedicated pools: whose they are, their GPU-seconds, commitments, costs.

    A shared pool bills tokens. A dedicated one bills its owner each second that a GPU was ready, used or not;
    tokens are billed by the owner's price book all the same, so that its book should have them at 0:

    \b
        book = "acme"
        tenant = "acme"
        [models."*"]
        input = "0"
        output = "0"
        [gpus.h200]
        hour = "3.50"
    """


_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")
_pool = click.argument("pool")


@pools_command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List pools' owners, present and past."""

    async def read(db: Database) -> list[dict[str, Any]]:
        names = await tenant_names(db)
        async with db.session() as session:
            owners = await owners_of(session)
        return [
            {
                "pool": pool,
                "from": iso_time(each.from_ms),
                "tenant": names.get(each.tenant_id, each.tenant_id) or "(shared)",
                "project": each.project_id,
            }
            for pool, owned in sorted(owners.items())
            for each in owned
        ]

    show_table(run_on_database(read), as_json, "no pool was ever dedicated: all are shared")


@pools_command.command("assign")
@_pool
@_tenant
@click.option("--project", help="Whose cost center is charged (name or id); by default nobody's.")
@json_option
def assign_command(pool: str, tenant: str, project: str | None, as_json: bool) -> None:
    """Dedicate a pool to a tenant from now on: its ready GPU-seconds are billed.

    Route the tenant's models to it with `parley models route`.
    """

    async def assign(db: Database) -> dict[str, Any]:
        owner = await tenant_named(db, tenant)
        project_id = ""
        if project is not None:
            found = await find_project(db, owner.tenant_id, project)
            if found is None:
                known = f"see `parley projects list --tenant {owner.tenant_id}`"
                raise StartupError(f"{owner.name} has no project {project!r}: {known}")
            project_id = found.id
        row = await assign_pool(db, pool, owner.tenant_id, project_id)
        facts = {"pool": pool, "tenant": owner.name, "from": iso_time(row.from_ms)}
        return {**facts, "note": await _note(db, owner)}

    show(run_on_database(assign), as_json)


async def _note(db: Database, owner: Tenant) -> str:
    """Warning about the tenant's prices, where they would bill what is hardly meant; else empty."""
    async with db.session() as session:
        price = await gpu_price(session, owner.tenant_id, ANY_MODEL, now_ms())
        held = await gpu_commitments_of(session, owner.tenant_id)
    if price is None and not held:
        return "its price book has no price for any GPU (`*`): hours of types without one wait unbilled"
    try:
        prices = await pinned_prices(db, owner.tenant_id, ANY_MODEL)
    except Refused:
        return ""
    billed = prices.input_nano or prices.cached_input_nano or prices.output_nano or prices.request_nano
    return "its price book bills tokens too" if billed else ""


@pools_command.command("share")
@_pool
@json_option
def share_command(pool: str, as_json: bool) -> None:
    """Share a dedicated pool again, from now on."""
    row = run_on_database(lambda db: share_pool(db, pool))
    show({"pool": pool, "tenant": "(shared)", "from": iso_time(row.from_ms)}, as_json)


@pools_command.command("usage")
@click.option("--tenant", help="Only this tenant's (name or id), by its own time zone; else all, by UTC.")
@click.option("--month", help="As 2026-10; by default the last 24 hours.")
@click.option("--region", default="", help="By whose GPU costs.")
@json_option
def usage_command(tenant: str | None, month: str | None, region: str, as_json: bool) -> None:
    """Show ready, busy and idle GPU-hours, the committed and overage part of them, earnings and costs.

    Whole hours; the one that runs is not over and not billed. --json: GPU-seconds and nano-USD.
    """

    async def read(db: Database) -> tuple[PeriodWindow, list[dict[str, Any]]]:
        owner = await tenant_named(db, tenant) if tenant else None
        now = now_ms()
        window = PeriodWindow(now - 24 * HOUR_MS, now)
        if month:
            calendar = await calendar_of(db, owner) if owner else Calendar(UTC_ZONE)
            window = month_window(month, calendar, now)
        window = whole_hours(window)
        uses = await pool_usage(db, window, owner.tenant_id if owner else None, region)
        names = await tenant_names(db)
        return window, [(_in_units if as_json else _in_words)(each, names) for each in uses]

    window, rows = run_on_database(read)
    print_line(f"From {iso_time(window.start_ms)} to {iso_time(window.end_ms)}:", err=True)
    show_table(rows, as_json, "no GPU was ready, and none was committed to")


def _in_units(use: PoolUse, names: dict[str, str]) -> dict[str, Any]:
    seconds = ("ready", "busy", "idle", "committed", "overage", "reserved")
    return {
        "pool": use.pool,
        "tenant": names.get(use.tenant_id, use.tenant_id),
        "gpu_type": use.gpu_type,
        **{f"{name}_gpu_seconds": getattr(use, name) for name in seconds},
        "gpu_nano": use.gpu_nano,
        "tokens_nano": use.tokens_nano,
        "cost_nano": use.cost_nano,
        "margin_nano_per_gpu_hour": use.margin_nano_per_hour,
    }


def _in_words(use: PoolUse, names: dict[str, str]) -> dict[str, Any]:
    """Format GPU-hours and dollars."""
    seconds = ("ready", "busy", "idle", "committed", "overage", "reserved")
    margin, cost = use.margin_nano_per_hour, use.cost_nano
    return {
        "pool": use.pool or "(any)",
        "tenant": names.get(use.tenant_id, use.tenant_id) or "(shared)",
        "gpu": use.gpu_type,
        **{name: f"{getattr(use, name) / 3600:.3f}" for name in seconds},
        "gpus": to_display(use.gpu_nano),
        "tokens": to_display(use.tokens_nano),
        "cost": "" if cost is None else to_display(cost),
        "margin/GPU-hour": "" if margin is None else to_display(margin),
    }


@pools_command.command("commit")
@_tenant
@click.option("--gpu", "gpu_type", required=True, help="The type of GPU as `pools usage` shows it, or `*`.")
@click.option("--gpus", required=True, type=int, help="How many.")
@click.option("--rate", required=True, help="For a GPU-hour, used or not, with its currency: '2.40 USD'.")
@click.option("--days", required=True, type=click.IntRange(1, DAYS_MAX), help="For how long.")
@click.option("--overage", help="For a GPU-hour beyond, as '3.20 USD'; by default the price book's.")
@click.option("--pool", default="", help="Only in this pool; by default in all of the tenant's.")
@click.option("--payment", type=click.Choice(PAYMENTS), default="monthly", show_default=True)
@click.option(
    "--notice-days",
    default=30,
    show_default=True,
    type=click.IntRange(0, NOTICE_DAYS_MAX),
    help="How long it goes on when it is ended.",
)
@json_option
def commit_command(
    tenant: str, rate: str, days: int, overage: str | None, as_json: bool, **terms: Any
) -> None:
    """Commit a tenant to GPUs from the next full hour on: paid whether they are used or not, and used first.

    \b
        parley pools commit --tenant acme --gpu h200 --gpus 8 --rate '2.40 USD' --days 365
    """

    async def add(db: Database) -> dict[str, Any]:
        owner = await tenant_named(db, tenant)
        start = -(-now_ms() // HOUR_MS) * HOUR_MS
        made = GpuTerms(
            **terms,
            start_ms=start,
            end_ms=start + days * 24 * HOUR_MS,
            rate_nano=nano_of(rate),
            overage_nano=None if overage is None else nano_of(overage),
        )
        return _commitment(await commit_gpus(db, owner.tenant_id, made), as_json)

    show(run_on_database(add), as_json)


@pools_command.command("commitments")
@_tenant
@json_option
def commitments_command(tenant: str, as_json: bool) -> None:
    """List a tenant's commitments to GPUs. What was taken back holds in no hour."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = await tenant_named(db, tenant)
        async with db.session() as session:
            return [_commitment(row, as_json) for row in await gpu_commitments_of(session, owner.tenant_id)]

    show_table(run_on_database(read), as_json, "the tenant committed to no GPUs")


def _commitment(row: Commitment, as_json: bool) -> dict[str, Any]:
    nothing = None if as_json else TAKEN_BACK
    return {
        "id": row.id,
        "gpu": row.gpu_type,
        "gpus": row.gpus,
        "pool": row.pool,
        "rate_nano": row.rate_nano,
        "overage_nano": row.overage_nano,
        "payment": row.payment,
        "from": iso_time(row.start_ms),
        "to": iso_time(row.until_ms) if row.until_ms > row.start_ms else nothing,
        "agreed_to": iso_time(row.end_ms),
        "notice_days": row.notice_days,
    }


@pools_command.command("end-commitment")
@_tenant
@click.argument("commitment")
@click.option("--reason", required=True, help="Why; kept in the audit log.")
@click.option(
    "--as-never-made", "mistake", is_flag=True, help="Take it back as if it had never been, before it begins."
)
@click.option(
    "--dry-run", is_flag=True, help="Show when it would end and what is given back, change nothing."
)
@json_option
def end_commitment_command(
    tenant: str, commitment: str, reason: str, mistake: bool, dry_run: bool, as_json: bool
) -> None:
    """End COMMITMENT (its id) after its notice, with a full hour.

    What was paid upfront for the rest is owed no more.
    """

    async def end(db: Database) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        row, back = await end_gpu_commitment(db, owner, commitment, reason, mistake, dry_run)
        state = end_state(mistake, dry_run)
        return {**_commitment(row, as_json), "given_back_nano": back, "state": state}

    show(run_on_database(end), as_json)


@pools_command.command("costs")
@click.option("--gpu", "gpu_type", help="Say what this type of GPU (`*`: any other) costs from now on.")
@click.option("--hour", help="For a GPU-hour, with its currency: '1.10 USD'.")
@click.option("--region", default="", help="Only there.")
@json_option
def costs_command(gpu_type: str | None, hour: str | None, region: str, as_json: bool) -> None:
    """List our costs of GPU-hours, for margins; with --gpu and --hour, set one from now on."""
    if (gpu_type is None) != (hour is None):
        raise StartupError("give --gpu and --hour, or neither")
    if gpu_type is not None and hour is not None:
        nano = nano_of(hour)
        row = run_on_database(lambda db: set_gpu_cost(db, gpu_type, region, nano, None))
        show(_cost(row), as_json)
        return

    async def read(db: Database) -> list[dict[str, Any]]:
        async with db.session() as session:
            return [_cost(row) for row in await gpu_costs(session)]

    show_table(run_on_database(read), as_json, "nobody said what a GPU costs: margins are not known")


def _cost(row: GpuCost) -> dict[str, Any]:
    return {
        "gpu": row.gpu_type,
        "region": row.region,
        "from": iso_time(row.valid_from_ms),
        "hour_nano": row.hour_nano,
    }
