"""`parley people` and `parley tokens`: who signs in to manage this installation, and what scripts show."""

from typing import Any

import click

from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import people, tokens
from billing.operations.people_facts import (
    CreateToken,
    EditPerson,
    InvitePerson,
    NameInvitation,
    NamePerson,
    NameSession,
    NameToken,
    SetRole,
    WhichAdmins,
    WhichPeople,
)
from core.terminal.terminal import print_line

PERSON = ("person",)
OF_STAFF = "there is nobody yet: see `parley people invite --help`"


@click.group("people")
def people_command() -> None:
    """People who sign in: staff, and tenants' members."""


@click.group("tokens")
def tokens_command() -> None:
    """Service tokens, which scripts show."""


@people_command.command("list")
@asks(people.list_people, omitted=("limit", "after"))
def list_command(ask: WhichPeople, how: CommandTerms) -> None:
    """List the platform's staff, or with --tenant a tenant's members."""
    rows = [facts_of(each, how.as_json) for each in all_pages(people.list_people, ask, how)]
    show_table(rows, how.as_json, OF_STAFF)


@people_command.command("admins")
@asks(people.list_admins, omitted=("limit", "after"))
def admins_command(ask: WhichAdmins, how: CommandTerms) -> None:
    """List a tenant's admins by name, whom its members may ask."""
    rows = [facts_of(each, how.as_json) for each in all_pages(people.list_admins, ask, how)]
    show_table(rows, how.as_json, "it has no admin: see `parley people invite --help`")


@people_command.command("show")
@asks(people.show_person, arguments=PERSON)
def show_command(ask: NamePerson, how: CommandTerms) -> None:
    """Show PERSON (e-mail address, name or id)."""
    show(facts_of(answered(people.show_person, ask, how), how.as_json), how.as_json)


@people_command.command("invite")
@asks(people.invite_person, arguments=("email",))
def invite_command(ask: InvitePerson, how: CommandTerms) -> None:
    """Invite EMAIL: by mail where PARLEY_SMTP_HOST is set, else by a link that is printed this once.

    The link is good for a week, and once; an earlier one of theirs is good no more. The first owner is made
    by `parley people invite --role owner`.
    """
    made = answered(people.invite_person, ask, how)
    facts: dict[str, Any] = facts_of(made.invitation, how.as_json)
    link = made.link.shown if made.link else ""
    facts |= {"mailed": made.mailed, "link": link or None}
    if how.as_json or not link:
        show(facts, how.as_json)
    else:
        print_line(link)
        until = f"it is good once, until {facts['expires']}"
        print_line(f"{until}; no mail went out: give it to {made.invitation.email} yourself", err=True)


@people_command.command("invitations")
@asks(people.list_invited, omitted=("limit", "after"))
def invitations_command(ask: WhichPeople, how: CommandTerms) -> None:
    """List invitations that wait."""
    rows = [facts_of(each, how.as_json) for each in all_pages(people.list_invited, ask, how)]
    show_table(rows, how.as_json, "no invitation waits")


@people_command.command("withdraw")
@asks(people.withdraw_invitation, arguments=("invitation",))
def withdraw_command(ask: NameInvitation, how: CommandTerms) -> None:
    """Let the link of INVITATION (its id, or the address) be good no more."""
    show(facts_of(answered(people.withdraw_invitation, ask, how), how.as_json), how.as_json)


@people_command.command("link")
@asks(people.link_person, arguments=PERSON)
def link_command(ask: NamePerson, how: CommandTerms) -> None:
    """Print a link that signs one browser in as PERSON, once, within an hour."""
    facts = facts_of(answered(people.link_person, ask, how), how.as_json)
    if how.as_json:
        show(facts, how.as_json)
    elif facts["link"]:
        print_line(facts["link"])
    elif facts["mailed"]:
        print_line(f"a mail with the link goes to {ask.person}", err=True)


@people_command.command("role")
@asks(people.set_role, arguments=("person", "role"))
def role_command(ask: SetRole, how: CommandTerms) -> None:
    """Give PERSON another ROLE. Their sessions end.

    Of the staff: owner, operator, finance, support. Of a tenant: admin, billing, developer, viewer.
    """
    show(facts_of(answered(people.set_role, ask, how), how.as_json), how.as_json)


@people_command.command("edit")
@asks(people.edit_person_of, arguments=PERSON)
def edit_command(ask: EditPerson, how: CommandTerms) -> None:
    """Change PERSON: the e-mail address that they sign in with, or a member's name.

    A password signs in with an address: the first owner has none until `parley people edit NAME --email ...`.
    """
    show(facts_of(answered(people.edit_person_of, ask, how), how.as_json), how.as_json)


@people_command.command("close")
@asks(people.close_person, arguments=PERSON)
def close_command(ask: NamePerson, how: CommandTerms) -> None:
    """Let PERSON in no more: staff nowhere, a member not into this tenant.

    Their sessions end, and tokens that they made are refused. The last owner and the last admin stay.
    """
    show(facts_of(answered(people.close_person, ask, how), how.as_json), how.as_json)


@people_command.command("reopen")
@asks(people.reopen_person, arguments=PERSON)
def reopen_command(ask: NamePerson, how: CommandTerms) -> None:
    """Let PERSON in again, with the role that they had."""
    show(facts_of(answered(people.reopen_person, ask, how), how.as_json), how.as_json)


@people_command.command("forget-totp")
@asks(people.forget_totp, arguments=PERSON)
def forget_totp_command(ask: NamePerson, how: CommandTerms) -> None:
    """Take away the second factor of PERSON, who lost it."""
    show(facts_of(answered(people.forget_totp, ask, how), how.as_json), how.as_json)


@people_command.command("sessions")
@asks(people.list_person_sessions_of, arguments=PERSON)
def sessions_command(ask: NamePerson, how: CommandTerms) -> None:
    """List the browsers in which PERSON is signed in, newest first."""
    page = answered(people.list_person_sessions_of, ask, how)
    rows = [facts_of(each, how.as_json) for each in page.items]
    show_table(rows, how.as_json, "they are signed in nowhere")


@people_command.command("end-session")
@asks(people.end_session_of, arguments=("person", "session"))
def end_session_command(ask: NameSession, how: CommandTerms) -> None:
    """Sign PERSON out of one SESSION, as `sessions` lists them."""
    show(facts_of(answered(people.end_session_of, ask, how), how.as_json), how.as_json)


@tokens_command.command("create")
@asks(tokens.create_token, arguments=("name",), options={"days": {"show_default": True}})
def create_token_command(ask: CreateToken, how: CommandTerms) -> None:
    """Make the token NAME and print its secret.

    The secret is shown this once: only a hash of it is stored.
    """
    made = answered(tokens.create_token, ask, how)
    show({"secret": made.secret.shown or None} | facts_of(made.token, how.as_json), how.as_json)


@tokens_command.command("list")
@asks(tokens.list_tokens, omitted=("limit", "after"))
def list_tokens_command(ask: WhichPeople, how: CommandTerms) -> None:
    """List tokens with their last use, oldest first, revoked ones too."""
    rows = [facts_of(each, how.as_json) for each in all_pages(tokens.list_tokens, ask, how)]
    show_table(rows, how.as_json, "there are no tokens: see `parley tokens create --help`")


@tokens_command.command("revoke")
@asks(tokens.revoke_token, arguments=("token",))
def revoke_token_command(ask: NameToken, how: CommandTerms) -> None:
    """Refuse TOKEN (its prefix, name or id) from now on."""
    show(facts_of(answered(tokens.revoke_token, ask, how), how.as_json), how.as_json)
