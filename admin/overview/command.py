"""`parley overview`: is all well?"""

import sys
from collections.abc import Sequence

import click

from admin.overview.answer import Overview, OverviewPool, VerdictState
from admin.overview.show import ShowOverview, show_overview
from admin.overview.words import count, percent
from billing.rendering import CommandTerms, answered, asks
from core.terminal.terminal import print_json
from core.terminal.terminal_tables import Block, Styled, Table, print_blocks

GOOD = (VerdictState.WELL, VerdictState.WARN)
NOTHING = "-"


@click.command()
@asks(show_overview)
def overview_command(ask: ShowOverview, how: CommandTerms) -> None:
    """Say whether all is well, what would help, and what runs, waits and happened.

    Exit code 1 where somebody is hurt, or nothing can be known.
    """
    seen = answered(show_overview, ask, how)
    if how.as_json:
        print_json(seen)
    else:
        print_blocks(*page(seen))
    if seen.verdict.state not in GOOD:
        sys.exit(1)


def page(seen: Overview) -> list[Block]:
    """Its blocks. Pure."""
    said: list[Block] = [Styled(seen.verdict.text, "bold"), seen.verdict.detail]
    if seen.remedies:
        said.append(_remedies(seen))
    if seen.pools:
        said.append(_pools(seen.pools))
    if seen.waiting:
        said.append(_waiting(seen))
    return [*said, _lights(seen), _happened(seen)]


def _remedies(seen: Overview) -> Table:
    table = Table()
    table.columns("what would help", "", "")
    for each in seen.remedies:
        table.row(each.lead, each.text, each.command)
    return table


def _pools(pools: Sequence[OverviewPool]) -> Table:
    table = Table(ruled=True)
    table.columns("pool", "for", "model")
    table.columns("workers", "running", "slots", "KV", "waiting", right=True)
    table.columns("")
    for each in pools:
        odd = [f"{worker.worker} {worker.state}" for worker in each.workers if worker.why]
        table.row(
            *(each.pool, "all" if each.shared else ", ".join(each.tenants), each.model or NOTHING),
            *(str(len(each.workers)), str(each.running), str(each.slots)),
            *(NOTHING if each.kv is None else percent(each.kv), str(each.waiting)),
            each.why or ", ".join(odd[:3]) + (f" and {count(len(odd) - 3, 'other')}" if len(odd) > 3 else ""),
        )
    return table


def _waiting(seen: Overview) -> Table:
    table = Table(ruled=True)
    table.columns("class")
    table.columns("waiting", "oldest", "next", right=True)
    for each in seen.waiting:
        seconds = (each.oldest_seconds, each.next_seconds)
        table.row(each.name, str(each.waiting), *(NOTHING if s is None else f"{s:g} s" for s in seconds))
    return table


def _lights(seen: Overview) -> Table:
    table = Table(ruled=True)
    table.columns("check", "", "state")
    table.columns("difference", "age", right=True)
    table.columns("")
    for each in seen.books:
        age = NOTHING if each.age_seconds is None else f"{each.age_seconds} s"
        table.row(each.check, each.title, each.state, each.difference or NOTHING, age, each.why)
    return table


def _happened(seen: Overview) -> Table:
    table = Table(ruled=True)
    table.columns("when", "what happened", "by")
    for each in seen.happened:
        table.row(each.at or NOTHING, each.text, each.by)
    return table
