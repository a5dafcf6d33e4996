"""`parley safety stats`: what safety policies found, by day. Never texts."""

import click
import msgspec

from billing.rendering import CommandTerms, answered, asks
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks
from engine.operations.safety import CountVerdicts, count_verdicts


@click.command("stats")
@asks(count_verdicts, options={"days": {"show_default": True}})
def stats_command(ask: CountVerdicts, how: CommandTerms) -> None:
    """How often policies found something, by day, category, side and action, newest first.

    Of requests that ended: how many verdicts in answers or prompts, in how many requests, and of how many
    that ended that day. A prompt that was refused ("prompts", "block") is no request; of one user's in a
    minute the latest one's category counts.

    \b
        parley safety stats --tenant acme --days 7
        parley safety stats --json | jq -c 'select(.blocked > 0)'
    """

    found = answered(count_verdicts, ask, how).items
    if how.as_json:
        for each in found:
            print_json({"day": each.day, **msgspec.to_builtins(each.found)})
        return
    table = Table()
    table.columns("day", whole=True)
    table.columns("category", "in", "action")
    table.columns("verdicts", "requests", "of", right=True)
    for dated in found:
        each = dated.found
        for kind in each.found:
            numbers = (f"{number:,}" for number in (kind.verdicts, kind.requests, each.requests))
            table.row(dated.day, kind.category, f"{kind.of}s", kind.action, *numbers)
        for refused in each.refused:
            table.row(dated.day, refused.category, "prompts", "block", f"{refused.prompts:,}")
    if not any(each.found.found or each.found.refused for each in found):
        requests = sum(each.found.requests for each in found)
        print_line(f"nothing was found in {requests:,} requests of {ask.days} days")
        return
    print_blocks(table)
