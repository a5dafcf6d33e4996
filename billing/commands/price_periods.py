"""`parley prices close-period`, `commit`, `commitments`: what is settled by the month."""

from typing import Any
from zoneinfo import ZoneInfo

import click

from billing.commands.months import MONTHS_MAX, month_name, month_window, months_from
from billing.commands.running import iso_time, json_option, run_on_database, show, show_table, tenant_named
from billing.money import from_text, to_display
from billing.periods import Window
from billing.prices.period_close import Closing, ForPeriod, close_period
from billing.prices.period_commitments import commit, list_commitments_of
from billing.prices.price_tables import PeriodCommitment
from billing.prices.price_tiers import TIERED
from billing.prices.rating import Meter
from billing.prices.true_up import Committed
from billing.tables import Tenant
from core.clock import now_ms
from core.database import Database
from core.errors import StartupError
from core.printed import say

_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")


@click.command("close-period")
@_tenant
@click.option("--month", help="As 2026-10, in the tenant's time zone; by default the last one that is over.")
@click.option("--dry-run", is_flag=True, help="Show what would be booked, also of a month that is not over.")
@json_option
def close_period_command(tenant: str, month: str | None, dry_run: bool, as_json: bool) -> None:
    """Book what tiers, minimums and commitments make of a month: the difference to what its lines say.

    A month is closed once, and months in their order; closing one again shows what was booked. Usage of a
    closed month that comes later is trued up with the next month, under the month that it is of.
    """

    async def close(db: Database) -> tuple[Closing, ZoneInfo]:
        owner = await tenant_named(db, tenant)
        zone = ZoneInfo(owner.time_zone)
        window = month_window(month, zone, now_ms())
        return await close_period(db, owner, month_name(window, zone), window, dry_run), zone

    closing, zone = run_on_database(close)
    rows = [_facts(each, zone, as_json) for each in closing.results]
    show_table(rows, as_json, "nothing but flat prices: there is nothing to true up")
    if not as_json:
        state = f"closed {iso_time(closing.closed_ms)}" if closing.closed_ms else "not closed: a dry run"
        say(f"{closing.month}: {to_display(closing.amount_nano)} in all, {state}", err=True)


def _facts(each: ForPeriod, zone: ZoneInfo, as_json: bool) -> dict[str, Any]:
    found, key = each.true_up, each.true_up.key
    facts: dict[str, Any] = {
        "of_month": month_name(each.period, zone),
        "model": key.model,
        "meter": key.meter.value,
        "version": f"{key.book}/{key.version}" if key.book else "",
    }
    amounts = {"difference": found.difference_nano}
    if found.why != "booked":
        facts["quantity"] = found.quantity
        amounts = {"posted": found.posted_nano, "costs": found.cost_nano, **amounts}
    if as_json:
        facts |= {f"{name}_nano": amount for name, amount in amounts.items()}
    else:
        facts |= {name: to_display(amount) for name, amount in amounts.items()}
    return {**facts, "by": found.why}


@click.command("commit")
@_tenant
@click.option("--amount", required=True, help="USD for each month.")
@click.option("--from", "first", help="The first month, as 2026-11; by default this one.")
@click.option("--months", default=12, show_default=True, type=click.IntRange(1, MONTHS_MAX))
@click.option(
    "--meter", type=click.Choice([each.value for each in TIERED]), help="Of units that are included."
)
@click.option("--model", default="", help="Whose units; `*`: any model's.")
@click.option("--units", default=0, type=click.IntRange(0), help="How many a month.")
@click.option(
    "--overage", help="USD for 1,000,000 units beyond (for one request); by default the book's price."
)
@json_option
def commit_command(tenant: str, first: str | None, months: int, as_json: bool, **terms: Any) -> None:
    """Add a commitment: to spend an amount each month, or, with --meter, to units that it includes.

    \b
        parley prices commit --tenant acme --amount 5000
        parley prices commit --tenant acme --amount 800 --meter output --model large --units 400000000
    """
    committed = _committed(**terms)

    async def add(db: Database) -> tuple[PeriodCommitment, Tenant]:
        owner = await tenant_named(db, tenant)
        window = months_from(first, months, ZoneInfo(owner.time_zone), now_ms())
        return await commit(db, owner.tenant_id, committed, window), owner

    row, owner = run_on_database(add)
    show(_commitment(row, ZoneInfo(owner.time_zone)), as_json)


def _committed(amount: str, meter: str | None, model: str, units: int, overage: str | None) -> Committed:
    times = 1_000_000 if meter == Meter.REQUEST else 1
    try:
        return Committed(
            committed_nano=from_text(amount),
            model=model,
            meter=Meter(meter) if meter else None,
            units=units,
            overage_nano=None if overage is None else from_text(overage) * times,
        )
    except ValueError as error:
        raise StartupError(str(error)) from error


@click.command("commitments")
@_tenant
@json_option
def commitments_command(tenant: str, as_json: bool) -> None:
    """What a tenant committed to for each month."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = await tenant_named(db, tenant)
        zone = ZoneInfo(owner.time_zone)
        async with db.session() as session:
            return [_commitment(row, zone) for row in await list_commitments_of(session, owner.tenant_id)]

    show_table(run_on_database(read), as_json, "the tenant committed to nothing")


def _commitment(row: PeriodCommitment, zone: ZoneInfo) -> dict[str, Any]:
    first, last = Window(row.start_ms, row.start_ms + 1), Window(row.end_ms - 1, row.end_ms)
    return {
        "id": row.id,
        "from": month_name(first, zone),
        "to": month_name(last, zone),
        "amount_nano": row.committed_nano,
        "model": row.model,
        "meter": row.meter,
        "units": row.units,
        "overage_nano": row.overage_nano,
    }
