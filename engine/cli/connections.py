"""`parley connections`: of a tenant's clients, and why the last ones ended."""

import click

from billing.rendering import CommandTerms, all_pages, asks, facts_of, show_table
from engine.operations import connections
from engine.operations.connections import ListConnections


@click.group()
def command() -> None:
    """Connections of a tenant's clients, and why the last ones ended."""


@command.command("list")
@asks(connections.list_connections, omitted=("limit", "after"))
def list_command(ask: ListConnections, how: CommandTerms) -> None:
    """Connections that are open, and those that ended within a day (200 at most), the last opened first.

    A `cause` is the close code's word (docs/protocol.md), or client_closed, client_left (its page was left),
    bye, lost: no close frame came. `before`: how the one before in the same session ended.
    """
    listed = all_pages(connections.list_connections, ask, how)
    rows = [facts_of(each, how.as_json) for each in listed]
    if not how.as_json:
        rows = [{name: row[name] for name in SHOWN} | _causes(row) for row in rows]
    show_table(rows, how.as_json, "no connection is open, and none ended within a day")


SHOWN = ("connection", "state", "user", "key_name", "client", "gateway", "since", "ended")


def _causes(row: dict[str, object]) -> dict[str, object]:
    before = row["before"]
    return {"cause": row["cause"], "before": before["cause"] if isinstance(before, dict) else ""}
