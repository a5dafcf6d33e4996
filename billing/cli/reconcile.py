"""`parley reconcile`: the books that must agree, side by side."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from billing.cli.operations import CommandTerms, answered
from billing.cli.run_command import json_option, run_on_database, show_table, tenant_named
from billing.operations.people_facts import NoQuestion
from billing.operations.reconciliation import CheckLight, CheckState, show_reconciliation
from billing.reconciliation.comparison import MEANING, Check, Comparison, ComparisonState
from billing.reconciliation.rebuild_rollups import rebuild_wrong_rollups
from billing.reconciliation.run import EVERYTHING, Reconciliation
from billing.tenants.tenancy import tenant_names
from core.api_address import runs_over_api
from core.configuration.settings import Settings
from core.redis.client import connect
from core.sql.database import Database
from core.terminal.terminal import print_line
from core.terminal.terminal_tables import Styled, Table, live, print_blocks

COLOURS = {
    ComparisonState.EQUAL: "green",
    ComparisonState.DIFFERS: "bold red",
    ComparisonState.WAITING: "yellow",
}
WATCH_SECONDS = 5.0


@click.command("reconcile")
@click.option(
    "--check", "checks", multiple=True, type=click.Choice([each.value for each in Check]), help="Only this."
)
@click.option("--tenant", help="Only this tenant (name or id): its own books, not the pools.")
@click.option(
    "--from-first-row",
    "whole",
    is_flag=True,
    help="Read the books from their first row, not only what is new.",
)
@click.option("--show-equal", "everything", is_flag=True, help="Show what agrees too, not only by check.")
@click.option("--watch", is_flag=True, help="Look again every few seconds, until Ctrl-C.")
@click.option(
    "--repair", is_flag=True, help="Make anew, from the books, what Redis and rollups have of them."
)
@click.option("--last", is_flag=True, help="Compare nothing: what was found last, by check.")
@json_option
@runs_over_api
def reconcile_command(
    checks: tuple[str, ...],
    tenant: str | None,
    whole: bool,
    everything: bool,
    watch: bool,
    repair: bool,
    last: bool,
    as_json: bool,
) -> None:
    """Compare the books that must agree; exit code 1 where any differ.

    \b
    R1  usage lines = ledger revenue, by meter
    R2  receivable = what is open to be invoiced
    R4  what Redis has posted = what SQL has posted, once the ended streams are drained
    R5  engines' own token counters = billed + unbilled tokens, by worker and hour;
        what was ended by who ended it = billed + held, by pool and hour
    R6  a pool's GPU-seconds = billed + idle + free
    R7  hash chains: nothing was changed, added or deleted
    R8  no hold without a live request

    `waiting` is no fault: it cannot be said yet, and the reason is shown. The biller compares everything once
    a minute; this looks now. Shown for scripts with --json: an object a comparison.

    After Redis lost data R4 differs until a biller has counted anew from the books, which it does by itself
    within a minute or two, and says in the audit log. `--tenant T --repair` does it now.
    It makes the tenant's rollups again too, where they are not the sums of their lines (`--from-first-row`
    tells) and all else in its books is whole.
    """
    if repair and (tenant is None or watch):
        raise click.UsageError("--repair needs --tenant, and is done once")
    if _is_alone(last, checks, tenant, whole, everything, watch, repair):
        _show_last(as_json)
        return
    chosen = frozenset(map(Check, checks)) or EVERYTHING

    names: dict[str, str] = {}

    async def look(db: Database) -> list[Comparison]:
        redis = connect(settings)
        try:
            names.update(await tenant_names(db))
            owner = await tenant_named(db, tenant) if tenant else None
            reconciliation = Reconciliation(db, redis, settings)
            if repair and owner is not None:
                await rebuild_wrong_rollups(db, owner.tenant_id)
                return await reconciliation.repair(owner.tenant_id)
            return await reconciliation.run(chosen, owner.tenant_id if owner else None, whole)
        finally:
            await redis.aclose()

    async def look_on(db: Database) -> list[Comparison]:
        with live(screen=False) as update:
            while True:
                compared = await look(db)
                update(board(compared, everything, names))
                await asyncio.sleep(WATCH_SECONDS)

    settings = Settings()
    if watch:
        try:
            run_on_database(look_on, settings)
        except KeyboardInterrupt:
            return
    compared = run_on_database(look, settings)
    _show(compared, everything, names, as_json)
    if any(each.state is ComparisonState.DIFFERS for each in compared):
        sys.exit(1)


def _is_alone(last: bool, *others: object) -> bool:
    """Whether only what was found last is asked for. Raises UsageError for --last with something else."""
    if last and any(others):
        raise click.UsageError("--last goes with --json alone")
    return last


def _show(compared: Sequence[Comparison], everything: bool, names: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        show_table([each.facts() for each in compared], True, "")
    else:
        print_blocks(board(compared, everything, names))


def _show_last(as_json: bool) -> None:
    """Print the lights; exit code 1 where any differs."""
    found = answered(show_reconciliation, NoQuestion(), CommandTerms(as_json))
    show_table([_light_row(each, as_json) for each in found.checks], as_json, "")
    if not as_json and found.compared is not None:
        print_line(f"compared {found.compared}")
    if any(each.state is CheckState.DIFFERS for each in found.checks):
        sys.exit(1)


def _light_row(light: CheckLight, as_json: bool) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(light)
    if not as_json:
        del facts["unequal"]
        facts["age_ms"] = facts["age_ms"] or None
    return facts


def board(compared: Sequence[Comparison], everything: bool, names: Mapping[str, str]) -> Table:
    """A line a check, and one for each comparison that differs or waits. `names`: of tenants, by id."""
    table = Table()
    table.columns("check", "what", "tenant")
    table.columns("expected", "actual", "difference", "for", right=True)
    table.columns("state", "")
    for check in Check:
        own = [each for each in compared if each.check is check]
        if own:
            table.row(check.value, MEANING[check], "", "", "", "", "", _overall(own), _count(own))
        for each in own:
            if everything or each.state is not ComparisonState.EQUAL:
                table.row("", *_cells(each, names))
    return table


def _cells(compared: Comparison, names: Mapping[str, str]) -> tuple[str | Styled, ...]:
    numbers = [compared.expected, compared.actual, compared.difference]
    shown = map(compared.in_words, numbers)
    age = f"{compared.age_ms // 1000} s" if compared.age_ms else ""
    detail = compared.waiting or compared.detail
    name = names.get(compared.tenant_id, compared.tenant_id)
    return (compared.subject, name, *shown, age, _coloured(compared.state), detail)


def _overall(compared: Sequence[Comparison]) -> Styled:
    states = {each.state for each in compared}
    worst = next(
        state
        for state in (ComparisonState.DIFFERS, ComparisonState.WAITING, ComparisonState.EQUAL)
        if state in states
    )
    return _coloured(worst)


def _count(compared: Sequence[Comparison]) -> str:
    return f"{len(compared)} compared"


def _coloured(state: ComparisonState) -> Styled:
    return Styled(state.value, COLOURS[state])
