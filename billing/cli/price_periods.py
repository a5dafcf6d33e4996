"""`parley prices close-period` and `periods`: closing and listing of months."""

from typing import Any

import click

from billing.cli.months import month_name, month_window
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show_table,
    tenant_named,
)
from billing.cli.wallets import print_owed
from billing.closing.period_close import CloseOptions, PeriodClosing, PeriodTrueUp, close_period, closes_of
from billing.closing.period_gaps import gaps_text
from billing.closing.under_way import usage_under_way
from billing.money import to_display
from billing.periods import Calendar
from billing.prices.calendars import calendar_of
from billing.tables.prices import PeriodClose
from billing.wallets.owed import owed_by
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.sql.database import Database
from core.terminal.terminal import print_line

_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")


@click.command("close-period")
@_tenant
@click.option("--month", help="As 2026-10, in the tenant's time zone; by default the last one that is over.")
@click.option("--dry-run", is_flag=True, help="Show what would be booked, also of a month that is not over.")
@click.option(
    "--force", is_flag=True, help="Close it though usage is under way or held back; it says so for good."
)
@json_option
def close_period_command(tenant: str, month: str | None, dry_run: bool, force: bool, as_json: bool) -> None:
    """Book what tiers, minimums and commitments make of a month: the difference to what its lines say.

    A month is closed once, and months in their order; closing one again shows what was booked. One is refused
    while usage that was accepted in it is open, undelivered or held back, or nobody can say as Redis is away.
    Usage of a closed month that comes later is billed and trued up with the next month, under the month that
    it is of.
    """

    async def close(db: Database, redis: RedisClient) -> tuple[PeriodClosing, Calendar, int]:
        owner = await tenant_named(db, tenant)
        calendar = await calendar_of(db, owner)
        window = month_window(month, calendar, now_ms())
        found = await usage_under_way(redis, Settings(), owner.tenant_id, window.end_ms)
        asked = CloseOptions(found, dry_run, force)
        closing = await close_period(db, owner, month_name(window, calendar), window, asked)
        return closing, calendar, await owed_by(db, owner.tenant_id)

    closing, calendar, owed_nano = run_with_redis(close)
    rows = [_facts(each, calendar, as_json) for each in closing.results]
    show_table(rows, as_json, "nothing but flat prices: there is nothing to true up")
    if closing.lacks is not None:
        what = "closed without" if closing.closed_ms else "not whole"
        print_line(f"{closing.month}: {what}: {gaps_text(closing.lacks)}", err=True)
    if not as_json:
        state = f"closed {iso_time(closing.closed_ms)}" if closing.closed_ms else "not closed: a dry run"
        print_line(
            f"{closing.month}: trued up by {to_display(closing.amount_nano)} in all, {state}", err=True
        )
        print_owed(owed_nano)


@click.command("periods")
@_tenant
@json_option
def periods_command(tenant: str, as_json: bool) -> None:
    """The months of a tenant that are closed, and what each was closed without (`--force`)."""

    async def read(db: Database) -> list[PeriodClose]:
        owner = await tenant_named(db, tenant)
        async with db.session() as session:
            return list(await closes_of(session, owner.tenant_id))

    rows = [_period(each, as_json) for each in run_on_database(read)]
    show_table(rows, as_json, "no month of the tenant is closed")


def _period(close: PeriodClose, as_json: bool) -> dict[str, Any]:
    trued_up = close.amount_nano if as_json else to_display(close.amount_nano)
    lacks = close.lacks if as_json or close.lacks is None else gaps_text(close.lacks)
    return {
        "month": close.month,
        "from": iso_time(close.start_ms),
        "to": iso_time(close.end_ms),
        "time_zone": close.time_zone,
        "closed": iso_time(close.closed_ms),
        "trued_up_nano" if as_json else "trued_up": trued_up,
        "closed_without": lacks,
    }


def _facts(each: PeriodTrueUp, calendar: Calendar, as_json: bool) -> dict[str, Any]:
    found, key = each.true_up, each.true_up.key
    facts: dict[str, Any] = {
        "of_month": month_name(each.period, calendar),
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
