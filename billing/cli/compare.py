"""`parley usage compare`: explains the difference between two months' costs."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from billing.cli.months import month_name, month_window
from billing.cli.run_command import json_option, run_on_database, show_table, tenant_named
from billing.closing.period_close import closing_gaps_of
from billing.money import to_display
from billing.prices.calendars import calendar_of
from billing.reports.price_comparison import CompareBy, PriceDifference, compare, month_of, total
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import list_tenants
from core.clock import now_ms
from core.errors import StartupError
from core.sql.database import Database
from core.terminal.terminal import print_line

PARTS = ("volume_nano", "mix_nano", "price_nano", "tiers_nano", "corrections_nano")
AMOUNTS = ("before_nano", "after_nano", "difference_nano", *PARTS)


class MonthComparison(NamedTuple):
    """A tenant's two months, as `2026-10`, and their differences by group. `over`: the later month is over.
    `lacks`: usage missing at the close of the earlier and the later."""

    tenant: Tenant
    before: str
    after: str
    over: bool
    lacks: tuple[str, str]
    differences: Mapping[str, PriceDifference]


@click.command("compare")
@click.option("--month", help="As 2026-10, in the tenant's time zone; by default the last one that is over.")
@click.option("--to-month", "other", help="The month to compare it with; by default the one before it.")
@click.option("--tenant", help="Only this tenant (name or id).")
@click.option(
    "--by",
    type=click.Choice([each.value for each in CompareBy]),
    default=CompareBy.TOTAL.value,
    show_default=True,
)
@json_option
def compare_command(month: str | None, other: str | None, tenant: str | None, by: str, as_json: bool) -> None:
    """Explain why a month cost more or less than another, in parts that add up to the nano.

    \b
    volume       as much of everything more or less as of all tokens (or requests, or GPU-seconds) together
    mix          more of the dearer or of the cheaper models and kinds of tokens
    price        other prices for the same
    tiers        what tiers, minimums and commitments made of either month when it was closed
    corrections  corrections and refunds

    \b
    parley usage compare --tenant acme --month 2026-10 --to-month 2026-09 --by model
    """

    async def read(db: Database) -> list[MonthComparison]:
        owners = [await tenant_named(db, tenant)] if tenant else await list_tenants(db)
        return [await _compared(db, owner, (month, other), CompareBy(by)) for owner in owners]

    found = run_on_database(read)
    for each in found[:1]:
        running = "" if each.over else ", which is not over"
        print_line(f"{each.after}{running}, compared with {each.before}:", err=True)
    for each in found:
        for name, lacks in zip((each.before, each.after), each.lacks, strict=True):
            if lacks:
                print_line(f"{each.tenant.name}: {name} was closed without: {lacks}", err=True)
    rows = [
        _row(each, {by: group}, difference, as_json)
        for each in found
        for group, difference in each.differences.items()
    ]
    if found and not as_json and len(rows) > 1:
        everything = total(one for each in found for one in each.differences.values())
        rows.append({"tenant": "", by: "total", **_money(everything, as_json)})
    show_table(
        rows, as_json, "nothing was used in either month: --month names another, also one that is not over"
    )


async def _compared(
    db: Database, owner: Tenant, months: tuple[str | None, str | None], by: CompareBy
) -> MonthComparison:
    calendar, now = await calendar_of(db, owner), now_ms()
    later = month_window(months[0], calendar, now)
    try:
        earlier = month_window(months[1], calendar, later.start_ms)
    except ValueError as error:
        raise StartupError(f"there is no month before {months[0]!r}: name one with --to-month") from error
    if later == earlier:
        raise StartupError("--month and --to-month name the same month")
    before, after = [await month_of(db, owner.tenant_id, each) for each in (earlier, later)]
    names = month_name(earlier, calendar), month_name(later, calendar)
    lacked = [await closing_gaps_of(db, owner.tenant_id, each) for each in (earlier, later)]
    return MonthComparison(
        owner, *names, later.end_ms <= now, (lacked[0], lacked[1]), compare(before, after, by)
    )


def _row(
    each: MonthComparison, group: dict[str, str], found: PriceDifference, as_json: bool
) -> dict[str, Any]:
    months = {"month": each.after, "with": each.before} if as_json else {}
    whose = each.tenant.tenant_id if as_json else each.tenant.name
    return {"tenant": whose, **months, **group, **_money(found, as_json)}


def _money(found: PriceDifference, as_json: bool) -> dict[str, Any]:
    amounts = {name: getattr(found, name) for name in AMOUNTS}
    if as_json:
        return amounts
    return {name.removesuffix("_nano"): to_display(amount) for name, amount in amounts.items()}
