"""`parley sessions`: browsers that are signed in."""

from shlex import quote

import click
import msgspec

from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import sessions
from billing.operations.sessions import EndOperatorSessions, EndSessions, ListSessions
from billing.unit_of_work.listing import ListQuestion
from core.terminal.terminal import print_line


@click.group("sessions")
def sessions_command() -> None:
    """Browsers that are signed in."""


_tenant = click.option("--tenant", help="The tenant's name or id.")
_operators = click.option("--operators", is_flag=True, help="Those of the console instead of a tenant's.")


@sessions_command.command("list")
@asks(sessions.list_operator_sessions, omitted=("limit", "after"))
@_tenant
@_operators
def list_command(ask: ListQuestion, how: CommandTerms, tenant: str | None, operators: bool) -> None:
    """List who is signed in, newest first."""
    _require_one(tenant, operators)
    if tenant is None:
        listed = all_pages(sessions.list_operator_sessions, ask, how)
    else:
        listed = all_pages(sessions.list_sessions, ListSessions(tenant=tenant), how)
    show_table([facts_of(each, how.as_json) for each in listed], how.as_json, "nobody is signed in")


@sessions_command.command("revoke")
@asks(sessions.revoke_operator_sessions, arguments=("session",))
@_tenant
@_operators
def revoke_command(ask: EndOperatorSessions, how: CommandTerms, tenant: str | None, operators: bool) -> None:
    """Sign the browser of SESSION out, or all of a user; their connections close within a second."""
    _require_one(tenant, operators)
    if bool(ask.session) == bool(ask.user):
        whose = f"--tenant {quote(tenant)}" if tenant is not None else "--operators"
        raise click.UsageError(f"name a SESSION (see `parley sessions list {whose}`) or --user")
    if tenant is None:
        done = answered(sessions.revoke_operator_sessions, ask, how)
    else:
        of_tenant = EndSessions(tenant=tenant, **msgspec.structs.asdict(ask))
        done = answered(sessions.revoke_sessions, of_tenant, how)
    if how.as_json:
        show(facts_of(done, True), True)
    else:
        print_line(f"{'would be signed out' if how.dry_run else 'signed out'}: {done.ended}")


def _require_one(tenant: str | None, operators: bool) -> None:
    if (tenant is None) != operators:
        raise click.UsageError("name --tenant or --operators")
