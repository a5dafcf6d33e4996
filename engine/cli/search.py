"""`parley search`: one question over requests, tenants, users, keys and workers."""

import click
import msgspec

from billing.rendering import CommandTerms, answered, asks, show_table
from core.terminal.terminal import print_line
from engine.operations.search import SearchQuestion, find_anything


@click.command("search")
@asks(find_anything, arguments=("q",), options={"q": {"metavar": "TEXT"}})
def command(ask: SearchQuestion, how: CommandTerms) -> None:
    """Find TEXT: the id of a request, a tenant, user, key or worker, or how its name begins.

    At most 20 things, those that have exactly this id or name first. Of a key also its prefix, pk_…
    """
    found = answered(find_anything, ask, how)
    show_table(
        [msgspec.to_builtins(each) for each in found.items], how.as_json, "nothing has this id or name"
    )
    if found.unread:
        print_line(found.unread, err=True)
