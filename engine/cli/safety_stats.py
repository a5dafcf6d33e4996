"""`parley safety stats`: what safety policies found, by day. Never texts."""

from datetime import datetime
from zoneinfo import ZoneInfo

import click
import msgspec

from billing.api import SAFETY_DAYS_MAX, SafetyDay, find_tenant, verdicts_by_day, zone_named
from core.clock import now_ms
from core.errors import StartupError
from core.sql.database import Database
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks
from engine.cli.connection import json_option
from engine.cli.policy_levels import on_policies
from engine.policies.store import PolicyStore


@click.command("stats")
@click.option("--tenant", help="Only this tenant's (name or id), by its own days; else all, by UTC's.")
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, SAFETY_DAYS_MAX))
@json_option
def stats_command(tenant: str | None, days: int, as_json: bool) -> None:
    """How often policies found something, by day, category, side and action, newest first.

    Of requests that ended: how many verdicts in answers or prompts, in how many requests, and of how many
    that ended that day. A prompt that was refused ("prompts", "block") is no request; of one user's in a
    minute the latest one's category counts.

    \b
        parley safety stats --tenant acme --days 7
        parley safety stats --json | jq -c 'select(.blocked > 0)'
    """

    async def read(db: Database, _store: PolicyStore) -> tuple[ZoneInfo, list[SafetyDay]]:
        found = await find_tenant(db, tenant) if tenant is not None else None
        if tenant is not None and found is None:
            raise StartupError(f"there is no tenant {tenant!r}: see `parley tenants list`")
        zone = zone_named(found.time_zone if found is not None else "UTC")
        return zone, await verdicts_by_day(db, found, days, now_ms())

    zone, found = on_policies(read)
    if as_json:
        for each in found:
            print_json({"day": _date(zone, each), **msgspec.to_builtins(each)})
        return
    table = Table()
    table.columns("day", whole=True)
    table.columns("category", "in", "action")
    table.columns("verdicts", "requests", "of", right=True)
    for each in found:
        for kind in each.found:
            numbers = (f"{number:,}" for number in (kind.verdicts, kind.requests, each.requests))
            table.row(_date(zone, each), kind.category, f"{kind.of}s", kind.action, *numbers)
        for refused in each.refused:
            table.row(_date(zone, each), refused.category, "prompts", "block", f"{refused.prompts:,}")
    if not any(each.found or each.refused for each in found):
        requests = sum(each.requests for each in found)
        print_line(f"nothing was found in {requests:,} requests of {days} days")
        return
    print_blocks(table)


def _date(zone: ZoneInfo, day: SafetyDay) -> str:
    return datetime.fromtimestamp(day.window.start_ms / 1000, zone).date().isoformat()
