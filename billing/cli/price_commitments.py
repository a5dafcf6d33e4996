"""`parley prices commit`, `commitments`, `end-commitment`: a tenant's monthly commitments."""

from typing import Any

import click

from billing.cli.arguments import TAKEN_BACK, end_state, nano_of
from billing.cli.months import MONTHS_MAX, last_month_name, month_name, months_from, months_in
from billing.cli.run_command import json_option, run_on_database, show, show_table, tenant_named
from billing.closing.commitment_preview import commitment_charge_so_far
from billing.closing.period_commitments import (
    NOTICE_MONTHS,
    NOTICE_MONTHS_MAX,
    NewCommitment,
    commit,
    end_commitment,
    list_commitments_of,
    until_ms,
)
from billing.money import to_display
from billing.periods import Calendar, PeriodWindow
from billing.prices.calendars import calendar_of
from billing.prices.price_file_tiers import TIERED
from billing.prices.rating import Meter
from billing.prices.true_up import CommittedInPeriod
from billing.tables.prices import PeriodCommitment
from core.clock import now_ms
from core.sql.database import Database

_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")


@click.command("commit")
@_tenant
@click.option("--amount", required=True, help="For each month, with its currency: '5000 USD'.")
@click.option("--from", "first", help="The first month, as 2026-11, this one or later; by default this one.")
@click.option("--months", default=12, show_default=True, type=click.IntRange(1, MONTHS_MAX))
@click.option(
    "--notice",
    "notice_months",
    default=NOTICE_MONTHS,
    show_default=True,
    type=click.IntRange(0, NOTICE_MONTHS_MAX),
    help="Whole months that it goes on after the one in which it is ended.",
)
@click.option(
    "--meter", type=click.Choice([each.value for each in TIERED]), help="Of units that are included."
)
@click.option("--model", default="", help="Whose units; `*`: any model's.")
@click.option("--units", default=0, type=click.IntRange(0), help="How many a month.")
@click.option(
    "--overage",
    help="For 1,000,000 units beyond (for one request), as '2 USD'; by default the book's price.",
)
@click.option("--dry-run", is_flag=True, help="Show what it would bill, and make nothing.")
@click.option("--yes", is_flag=True, help="It is meant to begin in more than 13 months.")
@json_option
def commit_command(
    tenant: str,
    first: str | None,
    months: int,
    notice_months: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **terms: Any,
) -> None:
    """Add a commitment: to spend an amount each month, or, with --meter, to units that it includes.

    \b
        parley prices commit --tenant acme --amount '5000 USD' --dry-run
        parley prices commit --tenant acme --amount '800 USD' --meter output --model large --units 400000000

    It begins with a month of the tenant's that is not over, and may be ended: `parley prices end-commitment`.
    """
    committed = _committed(**terms)

    async def add(db: Database) -> dict[str, Any]:
        owner = await tenant_named(db, tenant)
        calendar, now = await calendar_of(db, owner), now_ms()
        window = months_from(first, months, calendar, now)
        new = NewCommitment(committed, window, notice_months, far_ahead=yes)
        row = await commit(db, owner, new, dry_run)
        if not dry_run:
            return _facts(row, calendar, as_json)
        billed = {
            "months": months,
            **_money("total", months * row.committed_nano, as_json),
            **_money("this_month", await commitment_charge_so_far(db, owner, new, now), as_json),
            "state": "not made: a dry run",
        }
        return {**_facts(row, calendar, as_json), "id": "", **billed}

    show(run_on_database(add), as_json)


def _committed(
    amount: str, meter: str | None, model: str, units: int, overage: str | None
) -> CommittedInPeriod:
    times = 1_000_000 if meter == Meter.REQUEST else 1
    return CommittedInPeriod(
        committed_nano=nano_of(amount),
        model=model,
        meter=Meter(meter) if meter else None,
        units=units,
        overage_nano=None if overage is None else nano_of(overage) * times,
    )


@click.command("commitments")
@_tenant
@json_option
def commitments_command(tenant: str, as_json: bool) -> None:
    """List a tenant's monthly commitments. What was taken back holds in no month."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = await tenant_named(db, tenant)
        calendar = await calendar_of(db, owner)
        async with db.session() as session:
            rows = await list_commitments_of(session, owner.tenant_id)
        return [_facts(row, calendar, as_json) for row in rows]

    show_table(run_on_database(read), as_json, "the tenant committed to nothing")


@click.command("end-commitment")
@_tenant
@click.argument("commitment")
@click.option("--reason", required=True, help="Why; kept in the audit log.")
@click.option(
    "--as-never-made", "mistake", is_flag=True, help="Take it back as if it had never been, within a day."
)
@click.option("--dry-run", is_flag=True, help="Show when it would end, and change nothing.")
@json_option
def end_commitment_command(
    tenant: str, commitment: str, reason: str, mistake: bool, dry_run: bool, as_json: bool
) -> None:
    """End COMMITMENT (its id) after its notice: whole months from the end of the running one on.

    One that does not begin before then is never billed. Months that are over stay as they were.
    """

    async def end(db: Database) -> dict[str, Any]:
        owner = await tenant_named(db, tenant)
        calendar = await calendar_of(db, owner)
        row, before = await end_commitment(db, owner, commitment, reason, mistake, dry_run)
        spared = months_in(PeriodWindow(until_ms(row), before), calendar) * row.committed_nano
        state = end_state(mistake, dry_run)
        return {**_facts(row, calendar, as_json), **_money("not_billed", spared, as_json), "state": state}

    show(run_on_database(end), as_json)


def _facts(row: PeriodCommitment, calendar: Calendar, as_json: bool) -> dict[str, Any]:
    """Facts of a commitment. `as_json`: amounts in nano."""
    until, agreed = until_ms(row), PeriodWindow(row.start_ms, row.end_ms)
    nothing = None if as_json else TAKEN_BACK
    return {
        "id": row.id,
        "from": month_name(agreed, calendar),
        "to": last_month_name(PeriodWindow(row.start_ms, until), calendar)
        if until > row.start_ms
        else nothing,
        "agreed_to": last_month_name(agreed, calendar),
        "notice_months": row.notice_months,
        **_money("amount", row.committed_nano, as_json),
        "model": row.model,
        "meter": row.meter,
        "units": row.units,
        **_money("overage", row.overage_nano, as_json),
    }


def _money(name: str, nano: int | None, as_json: bool) -> dict[str, Any]:
    if as_json:
        return {f"{name}_nano": nano}
    return {name: None if nano is None else to_display(nano)}
