"""`parley users`: the users that a tenant's keys act for."""

from shlex import quote

import click

from billing.cli.cancel import cancel_option, cancelled_after
from billing.cli.cancel import facts_of as cancel_facts
from billing.cli.erasure import erase_user_command, export_user_command
from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import users
from billing.operations.users import ListUsers, NameUser, UserFacts
from billing.tenants.users import erased_tag
from core.terminal.terminal import print_line

USER = ("user",)


@click.group("users")
def users_command() -> None:
    """Users of a tenant, by the names that the tenant gives them.

    A key may be bound to one user; a key without a user names users itself, and nobody has to make those
    known. A closed user is refused either way.
    """


users_command.add_command(export_user_command)
users_command.add_command(erase_user_command)


@users_command.command("create")
@asks(users.create_user, arguments=USER)
def create_user_command(ask: NameUser, how: CommandTerms) -> None:
    """Make USER known. `parley keys create --user` does it too."""
    show(facts_of(answered(users.create_user, ask, how), how.as_json), how.as_json)


@users_command.command("list")
@asks(users.list_users, omitted=("limit", "after"))
def list_users_command(ask: ListUsers, how: CommandTerms) -> None:
    """The users who are known: named by keys or tickets, or made by `parley users create`."""
    listed = sorted(all_pages(users.list_users, ask, how), key=_by_name)
    show_table([facts_of(user, how.as_json) for user in listed], how.as_json, "there are no users")


@users_command.command("close")
@asks(users.close_user, arguments=USER)
@cancel_option
def close_user_command(ask: NameUser, how: CommandTerms, cancel: bool) -> None:
    """Refuse USER from now on: keys bound to them, and keys and tickets that name them.

    Open connections are closed. What they used stays in the books. `reopen` undoes it. What they have queued
    and running goes on unless --cancel ends it, now or by closing again.
    """
    closed = answered(users.close_user, ask, how)
    cancelled = cancelled_after(how, cancel, ask.tenant, user=closed.id)
    show(facts_of(closed, how.as_json) | cancel_facts(cancelled), how.as_json)
    if closed.new is True:
        known = f"see `parley users list --tenant {quote(ask.tenant)}`"
        print_line(f"nobody knew a user {closed.user!r} before: is the name right? {known}", err=True)


@users_command.command("reopen")
@asks(users.reopen_user, arguments=USER)
def reopen_user_command(ask: NameUser, how: CommandTerms) -> None:
    """Let USER in again."""
    show(facts_of(answered(users.reopen_user, ask, how), how.as_json), how.as_json)


def _by_name(user: UserFacts) -> tuple[bool, str]:
    """Erased ones come last: they have a tag for a name."""
    erased = user.user == erased_tag(user.id)
    return erased, user.id if erased else user.user
