"""`parley requests find`: ended requests, from the books."""

from typing import Any

import click

from billing.cli.arguments import DURATION, nano_of
from billing.cli.refusals import find_refused, search_of
from billing.cli.run_command import iso_time, json_option, run_on_database, show_table
from billing.money import to_display
from billing.requests.find import (
    FOUND_MAX,
    REASONS,
    SCANNED_MAX,
    RequestMatch,
    RequestPage,
    RequestSearch,
    cursor_of,
    find_requests,
)
from core.sql.database import Database
from core.terminal.terminal import print_json, print_line


@click.command("find")
@click.option("--tenant", help="The tenant's name or id. Without it, all tenants'.")
@click.option("--user", help="Only this user's: the name, or the id. Needs --tenant, as the next two do.")
@click.option("--project", help="Only this project's, by name or id.")
@click.option("--key", help="Only what came with this key, by its prefix (pk_…).")
@click.option("--model", help="Only answers of this model.")
@click.option("--pool", help="Only what this pool ended.")
@click.option("--since", help="Ended from this time on, as 2h, 7d or 2026-10-01T12:00. By default 24h.")
@click.option("--until", help="Ended before this time, written likewise. By default now.")
@click.option("--reason", type=click.Choice(REASONS), help="Why it ended.")
@click.option("--code", help="The code of its error, as engine_lost.")
@click.option("--longer-than", "over_ms", type=DURATION, help="Took longer than this, as 2s or 500ms.")
@click.option("--cost-over", help="Was billed more than this when it ended, as '0.05 USD'.")
@click.option("--refused", is_flag=True, help="Instead: sends that were refused, counted by the minute.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, FOUND_MAX))
@click.option("--after", help="Go on behind an earlier page: its `next`.")
@json_option
def find_command(as_json: bool, **asked: Any) -> None:
    """Requests that ended, the last first: whose, how long they took, what they cost.

    \b
    parley requests find --tenant acme --user ann --since 2h
    parley requests find --tenant acme --reason error --since 2026-10-01 --until 2026-10-02
    parley requests find --longer-than 30s --cost-over '0.50 USD'

    `parley requests explain ID` tells all of one. What still runs is in `parley requests list`. A request is
    found some seconds after its end. Prompts and answers are never shown.

    --refused goes with --tenant, --user, --key, --code and times. A row is a minute of one key, user and
    code, with the last ids; those that were refused least share a row (others).
    """
    if asked.pop("refused"):
        find_refused(asked, as_json)
        return

    async def find(db: Database) -> RequestPage:
        return await find_requests(db, await _sought(db, asked))

    page = run_on_database(find)
    if as_json:
        for each in page.found:
            print_json(_facts(each))
    else:
        show_table([_row(each) for each in page.found], False, "no request fits")
    _print_more(page, asked["limit"], as_json)


async def _sought(db: Database, asked: dict[str, Any]) -> RequestSearch:
    """Conditions of the search, by ids. Raises StartupError for objects that the tenant does not have."""
    given = await search_of(db, asked, ("user", "project", "key"), ("model", "pool", "reason", "code"))
    return RequestSearch(
        **given,
        over_ms=asked["over_ms"],
        cost_over_nano=nano_of(asked["cost_over"]) if asked["cost_over"] else None,
        after=cursor_of(asked["after"]) if asked["after"] else None,
        limit=asked["limit"],
    )


def _print_more(page: RequestPage, limit: int, as_json: bool) -> None:
    if page.next is None:
        return
    if as_json:
        print_json({"next": page.next.text()})
        return
    looked = "" if len(page.found) == limit else f"{SCANNED_MAX:,} requests were looked at; "
    print_line(f"{looked}there may be more: --after {page.next.text()}", err=True)


def _row(found: RequestMatch) -> dict[str, Any]:
    first = found.first_token_after_ms
    return {
        "ended": iso_time(found.ended_ms),
        "id": found.id,
        "tenant": found.tenant_name,
        "user": found.user,
        "model": found.model,
        "reason": f"{found.reason} {found.code}".strip(),
        "input": found.input_uncached + found.input_cached,
        "output": found.output_text + found.output_reasoning,
        "cost": to_display(found.cost_nano, found.currency),
        "corrected": to_display(found.corrected_nano, found.currency) if found.corrected_nano else None,
        "took_ms": found.took_ms,
        "first_ms": first,
    }


def _facts(found: RequestMatch) -> dict[str, Any]:
    times = {"ended": iso_time(found.ended_ms), "accepted": iso_time(found.accepted_ms)}
    return {**{name: getattr(found, name) for name in found.__struct_fields__}, **times}
