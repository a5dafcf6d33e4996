"""`parley runs`: what takes long and was begun over the API."""

from typing import Any

import click

from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of, step_line
from billing.cli.run_command import show, show_table
from billing.operations import runs
from billing.operations.runs import ListRuns, NameRun, RunFacts, RunSummary

RUN = ("run",)


@click.group("runs")
def runs_command() -> None:
    """What takes long and was begun over the API."""


@runs_command.command("list")
@asks(runs.list_runs, omitted=("limit", "after"))
def list_command(ask: ListRuns, how: CommandTerms) -> None:
    """List the runs of staff, or with --tenant of a tenant's members, newest first."""
    rows = [_facts(each, how.as_json) for each in all_pages(runs.list_runs, ask, how)]
    show_table(rows, how.as_json, "there is no run of the last day")


@runs_command.command("show")
@asks(runs.show_run, arguments=RUN)
def show_command(ask: NameRun, how: CommandTerms) -> None:
    """Show RUN: how far it is, or what it answered."""
    _show(answered(runs.show_run, ask, how), how)


@runs_command.command("stop")
@asks(runs.stop_run, arguments=RUN)
def stop_command(ask: NameRun, how: CommandTerms) -> None:
    """Ask RUN to stop between two steps: what is done stays done."""
    _show(answered(runs.stop_run, ask, how), how)


def _show(run: RunFacts, how: CommandTerms) -> None:
    """Print a run; for people its last step alone."""
    facts = _facts(run, how.as_json)
    if not how.as_json:
        facts["events"] = step_line(run.events[-1]) if run.events else ""
        facts["problem"] = run.problem.detail if run.problem is not None else ""
    show(facts, how.as_json)


def _facts(run: RunSummary, as_json: bool) -> dict[str, Any]:
    """Facts as `facts_of`; a move in words for people."""
    facts = facts_of(run, as_json)
    if not as_json:
        moves = run.move
        facts["move"] = f"{moves.tenant} from {moves.pool} to {moves.to}" if moves else ""
    return facts
