"""`parley usage unbilled`: ended requests that are not in the books, and their whereabouts."""

from collections.abc import Iterable
from typing import Any

import click

from billing.booking.assess import decode_event
from billing.cli.run_command import iso_time, json_option, run_on_database, show_table
from billing.money import to_display
from billing.posting.quarantine import held_events
from billing.reconciliation.unbilled import EndedPoolHour, UnbilledShare, pool_hours, share_of
from billing.tables.tenants import UsageQuarantine
from billing.usage import ENDED_FIELD, ENDED_GROUP_BILLER, UsageEvent, ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient, connect
from core.redis.members import entries_behind
from core.redis.pools import known_pools
from core.sql.database import Database
from core.terminal.terminal import print_line

WAITED_MS = 60_000
WAITING_MAX = 1_000


@click.command("unbilled")
@click.option("--pool", help="Only this pool.")
@json_option
def unbilled_command(pool: str | None, as_json: bool) -> None:
    """Ended requests that are not billed, and why.

    \b
    held      the event is in quarantine: `parley quarantine` decides on it
    waiting   no biller has read it for a minute
    lost      a worker ended so many in that hour, and nothing is known of them

    Lost ends have no ids: what knew them is gone. Journals (PARLEY_HOME/ends) bring back what Redis loses;
    what stays was in none, or its disk is not back yet. Hours are of the last week. The share is of the last
    day's output tokens; above PARLEY_UNBILLED_SHARE_MAX operators are told.
    """

    async def read(db: Database) -> tuple[list[dict[str, Any]], list[UnbilledShare]]:
        settings, now = Settings(), now_ms()
        redis = connect(settings)
        try:
            pools = {pool} if pool else {settings.pool, *await known_pools(redis, settings)}
            rows = _held(await held_events(db), pools, as_json)
            for name in sorted(pools):
                rows += [_row("waiting", name, each, as_json) for each in await waiting(redis, name, now)]
                hours = await pool_hours(db, name, now)
                rows += [_lost(each, as_json) for each in hours if each.lost_requests or each.lost_output]
            return rows, [await share_of(db, name, now) for name in sorted(pools)]
        finally:
            await redis.aclose()

    rows, shares = run_on_database(read)
    show_table(rows, as_json, "everything that ended is billed or on its way")
    for each in shares:
        if each.output or each.unbilled:
            part = f"{100 * each.part:.3f} % ({each.unbilled:,} of {each.output:,} output tokens)"
            print_line(f"pool {each.pool}, last day: {part} unbilled", err=True)


async def waiting(redis: RedisClient, pool: str, now: int) -> list[UsageEvent]:
    """Events that no biller has acknowledged for a minute, oldest first; at most WAITING_MAX."""
    key = ended_stream(pool)
    if not await redis.exists(key):
        return []
    groups = {group["name"].decode(): group for group in await redis.xinfo_groups(key)}
    group = groups.get(ENDED_GROUP_BILLER)
    pending = group and group["pending"] and await redis.xpending(key, ENDED_GROUP_BILLER)
    oldest = pending and pending["min"]  # None: acknowledged meanwhile
    until = str(now - WAITED_MS)
    if group and not oldest:
        entries = await entries_behind(redis, key, group["last-delivered-id"], WAITING_MAX, until)
    else:
        start = oldest.decode() if oldest else "-"
        entries = await redis.xrange(key, min=start, max=until, count=WAITING_MAX)
    events = [decode_event(fields.get(ENDED_FIELD.encode(), b"")) for _, fields in entries]
    return [event for event in events if event is not None]


def _held(held: Iterable[UsageQuarantine], pools: set[str], as_json: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in held:
        if each.pool in pools:
            event = decode_event(each.event)
            unknown = {
                "state": "held",
                "pool": each.pool,
                "tenant": each.tenant_id,
                "request": each.request_id,
            }
            rows.append(
                (_row("held", each.pool, event, as_json) if event else unknown) | {"why": each.reason}
            )
    return rows


def _row(state: str, pool: str, event: UsageEvent, as_json: bool) -> dict[str, Any]:
    cost = {"cost_nano": event.cost_nano} if as_json else {"cost": to_display(event.cost_nano)}
    return {
        "state": state,
        "pool": pool,
        "tenant": event.tenant,
        "request": event.request,
        "ended": event.ended_ms if as_json else iso_time(event.ended_ms),
        "requests": 1,
        "input": event.input_uncached + event.input_cached,
        "output": event.output_text + event.output_reasoning,
        **cost,
        "why": "",
    }


def _lost(hour: EndedPoolHour, as_json: bool) -> dict[str, Any]:
    return {
        "state": "lost",
        "pool": hour.pool,
        "tenant": "",
        "request": "",
        "ended": hour.hour_ms if as_json else iso_time(hour.hour_ms),
        "requests": hour.lost_requests,
        "input": 0,
        "output": hour.lost_output,
        **({"cost_nano": 0} if as_json else {"cost": ""}),
        "why": "in the hour from then on",
    }
