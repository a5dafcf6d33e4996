"""`parley sessions`: browsers that are signed in."""

from shlex import quote

import click

from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import sessions
from billing.operations.sessions import EndSessions, ListSessions
from core.terminal.terminal import print_line


@click.group("sessions")
def sessions_command() -> None:
    """Browsers in which a tenant's users are signed in (see also `parley people sessions`)."""


@sessions_command.command("list")
@asks(sessions.list_sessions, omitted=("limit", "after"))
def list_command(ask: ListSessions, how: CommandTerms) -> None:
    """List who is signed in, newest first."""
    listed = all_pages(sessions.list_sessions, ask, how)
    show_table([facts_of(each, how.as_json) for each in listed], how.as_json, "nobody is signed in")


@sessions_command.command("revoke")
@asks(sessions.revoke_sessions, arguments=("session",))
def revoke_command(ask: EndSessions, how: CommandTerms) -> None:
    """Sign the browser of SESSION out, or all of a user; their connections close within a second."""
    if bool(ask.session) == bool(ask.user):
        listing = f"parley sessions list --tenant {quote(ask.tenant)}"
        raise click.UsageError(f"name a SESSION (see `{listing}`) or --user")
    done = answered(sessions.revoke_sessions, ask, how)
    if how.as_json:
        show(facts_of(done, True), True)
    else:
        print_line(f"{'would be signed out' if how.dry_run else 'signed out'}: {done.ended}")
