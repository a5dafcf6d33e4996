"""`parley prices close-period`: what is settled by the month."""

from typing import Any
from zoneinfo import ZoneInfo

import click

from billing.commands.months import month_name, month_window
from billing.commands.running import iso_time, json_option, run_on_database, show_table, tenant_named
from billing.money import to_display
from billing.prices.period_close import Closing, ForPeriod, close_period
from core.clock import now_ms
from core.database import Database
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
