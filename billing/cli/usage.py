"""`parley usage`: tenants' usage and debts, and the sums that such views are read from."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from billing.audit.log import record_separately
from billing.booking import rollups
from billing.cli.arguments import instant_of
from billing.cli.compare import compare_command
from billing.cli.corrections import correct_command, refund_command
from billing.cli.months import month_name, month_window
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    show,
    show_table,
    tenant_named,
)
from billing.cli.unbilled import unbilled_command
from billing.cli.wallets import print_owed
from billing.closing.period_close import closing_gaps_of
from billing.money import to_display, to_text
from billing.periods import LAST_MS, Calendar, PeriodWindow, month_of, month_text
from billing.prices.calendars import calendar_of
from billing.reports.exports import focus_pages
from billing.reports.focus import account_of
from billing.reports.usage_report import GroupBy, UsageSums, usage_as_of, usage_in
from billing.tables.tenants import Tenant
from billing.tenants.cost_centers import list_cost_centers
from billing.tenants.keys import list_keys
from billing.tenants.tenancy import list_projects, list_tenants
from billing.tenants.users import all_user_names
from billing.wallets.owed import owed_by
from core.clock import now_ms
from core.errors import StartupError
from core.sql.database import Database
from core.terminal.terminal import print_line, progress, sheet

DAYS_MAX = 400
NO_GROUP = "(none)"  # usage that stands for no user, as of a service


@click.group("usage")
def usage_command() -> None:
    """Usage and charges: by project, cost center, user, key, model, pool or day."""


for _command in (compare_command, unbilled_command, correct_command, refund_command):
    usage_command.add_command(_command)


@usage_command.command("show")
@click.option("--tenant", required=True, help="The tenant's name or id.")
@click.option(
    "--by", type=click.Choice([each.value for each in GroupBy]), default="project", show_default=True
)
@click.option("--month", help="As 2026-10, in the tenant's time zone; by default this one.")
@click.option("--from", "start", help="Instead of a month: from this time on, as 2026-10-01T12:00:00+02:00.")
@click.option("--to", "end", help="Up to this time; by default now.")
@click.option("--as-of", help="As the books said at this time, without what was corrected or came later.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV; amounts in USD, exact.")
@json_option
def show_command(
    tenant: str,
    by: str,
    month: str | None,
    start: str | None,
    end: str | None,
    as_of: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show a tenant's usage and what it owes. A request counts in the moment when it ended."""
    if month and (start or end):
        raise StartupError("give --month, or --from and --to")

    async def read(db: Database) -> tuple[PeriodWindow, list[UsageSums], Mapping[str, str], int]:
        owner = await tenant_named(db, tenant)
        owed_nano = await owed_by(db, owner.tenant_id)
        names = await _names(db, owner.tenant_id, GroupBy(by))
        calendar = await calendar_of(db, owner)
        window = _window(month, start, end, calendar)
        await _print_gaps(db, owner, window)
        if by == GroupBy.DAY and window.end_ms - window.start_ms > DAYS_MAX * 86_400_000:
            raise StartupError(f"at most {DAYS_MAX} days at once")
        if as_of is None:
            return (
                window,
                await usage_in(db, owner.tenant_id, window, GroupBy(by), calendar),
                names,
                owed_nano,
            )
        if by == GroupBy.DAY:
            raise StartupError("--as-of does not go with --by day")
        known_ms = instant_of(as_of, calendar.zone)
        found = await usage_as_of(db, owner.tenant_id, window, GroupBy(by), known_ms)
        return window, found, names, owed_nano

    window, found, names, owed_nano = run_on_database(read)
    if as_csv:
        _print_csv(by, found, names)
        return
    if not as_json:
        print_line(f"From {iso_time(window.start_ms)} to {iso_time(window.end_ms)}:", err=True)
        found = [each for each in found if by != GroupBy.DAY or int(each.group) <= now_ms()]
    rows = [_row(by, usage, as_json, names) for usage in found]
    show_table(rows, as_json, "nothing was used in this time")
    if not as_json:
        print_owed(owed_nano)


@usage_command.command("export")
@click.option("--tenant", required=True, help="The tenant's name or id.")
@click.option("--month", help="As 2026-10, in the tenant's time zone; by default the last one that is over.")
@click.option("--issuer", default="Parley", show_default=True, help="Your company, as invoices name it.")
@click.option(
    "--out", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="By default stdout."
)
def export_command(tenant: str, month: str | None, issuer: str, out: Path | None) -> None:
    """A month's charges as CSV in FOCUS 1.2, the format of cost management tools.

    One row an hour, model, meter, key and user. Amounts are exact.
    """

    async def export(db: Database) -> int:
        owner = await tenant_named(db, tenant)
        calendar = await calendar_of(db, owner)
        period = month_window(month, calendar, now_ms())
        await _print_gaps(db, owner, period)
        account = await account_of(db, owner, issuer)
        facts = {"month": month_name(period, calendar), "issuer": issuer}
        await record_separately(db, owner.tenant_id, "usage.export", owner.tenant_id, facts)
        written = 0
        with sheet(out) as write:
            async for page in focus_pages(db, account, period):
                for row in page:
                    write(row)
                written += len(page)
                progress(f"{written:,} rows")
        progress("")
        return written - 1

    written = run_on_database(export)
    if out:
        print_line(f"{written:,} rows in {out}", err=True)


@usage_command.command("rebuild")
@click.option("--tenant", help="Only this tenant (name or id).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rebuild_command(tenant: str | None, as_json: bool) -> None:
    """Make the hourly sums again from the lines. Safe while Parley runs; views are short of it meanwhile."""

    async def rebuild(db: Database) -> dict[str, int]:
        owners = [await tenant_named(db, tenant)] if tenant else await list_tenants(db)
        done: dict[str, int] = {}
        for owner in owners:
            name = owner.name

            def told(added: int, whole: int, name: str = name) -> None:
                progress(f"{name}: {added:,} of {whole:,} lines")

            done[owner.tenant_id] = await rollups.rebuild(db, owner.tenant_id, told)
        return done

    done = run_on_database(rebuild)
    progress("")
    show({"tenants": len(done), "lines": sum(done.values())}, as_json)


def _window(month: str | None, start: str | None, end: str | None, calendar: Calendar) -> PeriodWindow:
    """Window of the options. Raises StartupError."""
    now = now_ms()
    if start is None and end is None:
        return month_window(month or month_text(calendar.month_at(now)), calendar, now)
    if start is None:
        raise StartupError("--to needs --from")
    window = PeriodWindow(_instant(start, calendar), _instant(end, calendar) if end else now)
    if not 0 <= window.start_ms < window.end_ms <= LAST_MS:
        raise StartupError("--from must be before --to")
    return window


async def _print_gaps(db: Database, owner: Tenant, window: PeriodWindow) -> None:
    """Warn where the month was closed by force, so that its view is not whole."""
    if lacks := await closing_gaps_of(db, owner.tenant_id, window):
        print_line(f"the month was closed without: {lacks}", err=True)


def _instant(text: str, calendar: Calendar) -> int:
    """Parse a time, by default in the zone of its month. Raises StartupError."""
    try:
        zone = calendar.zone_of(month_of(text[:7]))
    except ValueError:
        zone = calendar.zone
    return instant_of(text, zone)


def _group(by: str, usage: UsageSums, names: Mapping[str, str]) -> str:
    """Display of a group: a day as its time, a user by name, all else by id."""
    if by == GroupBy.USER:
        return names.get(usage.group, usage.group)
    return (iso_time(int(usage.group)) or "") if by == GroupBy.DAY else usage.group


async def _names(db: Database, tenant_id: str, by: GroupBy) -> Mapping[str, str]:
    """Display names of the groups, where they differ from the ids."""
    if by is GroupBy.PROJECT:
        return {each.id: each.name for each in await list_projects(db, tenant_id)}
    if by is GroupBy.COST_CENTER:
        return {each.id: each.code for each in await list_cost_centers(db, tenant_id)}
    if by is GroupBy.KEY:
        return {each.id: f"pk_{each.prefix} {each.name}".strip() for each in await list_keys(db, tenant_id)}
    if by is GroupBy.USER:
        return await all_user_names(db, tenant_id)
    return {}


def _row(by: str, usage: UsageSums, as_json: bool, names: Mapping[str, str]) -> dict[str, Any]:
    facts = asdict(usage)
    facts.pop("group")
    amount = facts.pop("amount_nano")
    money: dict[str, Any] = {"amount_nano": amount} if as_json else {"amount": to_display(amount)}
    group = _group(by, usage, names)
    return {by: group if as_json else names.get(group, group) or NO_GROUP, **facts, **money}


def _print_csv(by: str, found: list[UsageSums], whose: Mapping[str, str]) -> None:
    names = [name for name in asdict(UsageSums("")) if name not in ("group", "amount_nano")]
    with sheet(None) as write:
        write([by, *names, "amount_usd"])
        for usage in found:
            values = [getattr(usage, name) for name in names]
            write([_group(by, usage, whose), *values, to_text(usage.amount_nano)])
