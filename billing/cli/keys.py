"""`parley keys`: API keys of a tenant."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from billing.cli.cancel import cancel_option, cancelled_of_keys
from billing.cli.cancel import facts_of as cancel_facts
from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import keys
from billing.operations.key_facts import ListedKey, NewKey
from billing.operations.keys import CreateKey, EditKey, LinkKey, ListKeys, NameKey, RevokeKey, RotateKey
from billing.tenants.keys import KeyState
from core.clock import now_ms
from core.terminal.terminal import print_line

KEY = ("key",)
TIME = click.DateTime(["%Y-%m-%dT%H:%M:%S%z"])


@click.group("keys")
def keys_command() -> None:
    """API keys of a tenant."""


@keys_command.command("create")
@asks(
    keys.create_key,
    options={
        "project": {"show_default": True},
        "shared": {"names": ["--users-optional"]},
        "scopes": {"names": ["--scope"]},
        "origins": {"names": ["--origin"]},
        "expires": {"type": TIME, "help": "As 2027-01-31T00:00:00Z."},
    },
)
@click.option("--expires-days", type=click.IntRange(1, 3650), help="By default a key does not expire.")
def create_key_command(ask: CreateKey, how: CommandTerms, expires_days: int | None) -> None:
    """Create a key and print its secret.

    The secret is shown this once: only a hash of it is stored.
    """
    if expires_days is not None:
        if ask.expires is not None:
            raise click.UsageError("name --expires or --expires-days, not both")
        ends = datetime.fromtimestamp(now_ms() / 1000, UTC) + timedelta(days=expires_days)
        ask = msgspec.structs.replace(ask, expires=ends)
    show(_new_facts(answered(keys.create_key, ask, how), how.as_json), how.as_json)


@keys_command.command("list")
@asks(keys.list_keys, omitted=("limit", "after"))
def list_keys_command(ask: ListKeys, how: CommandTerms) -> None:
    """List a tenant's keys, oldest first, revoked ones too. Secrets cannot be shown again.

    A rotated key works until it expires; its successor is named.
    """
    listed = all_pages(keys.list_keys, ask, how)
    rows = [facts_of(key, True) for key in listed] if how.as_json else _lines(listed)
    show_table(rows, how.as_json, "there are no keys: see `parley keys create --help`")
    works = (KeyState.ACTIVE, KeyState.ROTATED)
    if shared := [key.prefix for key in listed if key.shared and key.state in works]:
        print_line(
            f"warning: browsers with tickets of {', '.join(shared)} that name no user are one, and see each "
            "other's chats; let tickets name users, and make keys without --users-optional",
            err=True,
        )


@keys_command.command("show")
@asks(keys.show_key, arguments=KEY)
def show_key_command(ask: NameKey, how: CommandTerms) -> None:
    """Show KEY (its id or prefix), who made it, what it spent this month, and what it served of late."""
    show(facts_of(answered(keys.show_key, ask, how), how.as_json), how.as_json)


@keys_command.command("edit")
@asks(
    keys.edit_key,
    arguments=KEY,
    options={
        "scopes": {"names": ["--scope"]},
        "origins": {
            "names": ["--origin"],
            "help": "All pages that may use it from now on. Several: once each.",
        },
    },
)
@click.option("--any-origin", is_flag=True, help="Any page and program may use it from now on.")
def edit_key_command(ask: EditKey, how: CommandTerms, any_origin: bool) -> None:
    """Give KEY (its id or prefix) another name, other scopes or other origins. Its secret stays as it is."""
    if any_origin:
        if ask.origins is not msgspec.UNSET:
            raise click.UsageError("name --origin or --any-origin, not both")
        ask = msgspec.structs.replace(ask, origins=[])
    show(facts_of(answered(keys.edit_key, ask, how), how.as_json), how.as_json)


@keys_command.command("rotate")
@asks(keys.rotate_key, arguments=KEY, options={"overlap_hours": {"show_default": True}})
def rotate_key_command(ask: RotateKey, how: CommandTerms) -> None:
    """Replace KEY (its id or prefix) by one with the same rights; the old one works for the overlap."""
    show(_new_facts(answered(keys.rotate_key, ask, how), how.as_json), how.as_json)


@keys_command.command("revoke")
@asks(keys.revoke_key, arguments=KEY, options={"which": {"show_default": True}})
@cancel_option
def revoke_key_command(ask: RevokeKey, how: CommandTerms, cancel: bool) -> None:
    """Revoke KEY (its id or prefix) at once; open connections of it are closed.

    While it is rotated, the old and the new key are both revoked: --which says that one of them goes on. What
    they have queued and running goes on unless --cancel ends it, now or by revoking again.
    """
    revoked = answered(keys.revoke_key, ask, how)
    cancelled = cancelled_of_keys(how, cancel, revoked.tenant, revoked.ended)
    if how.as_json:
        show(facts_of(revoked, True) | cancel_facts(cancelled), how.as_json)
        return
    for prefix in revoked.ended:
        print_line(f"{prefix}_… {'would be' if how.dry_run else 'is'} revoked.")
    for prefix in revoked.goes_on:
        print_line(f"{prefix}_… goes on.")
    show(cancel_facts(cancelled), how.as_json)


@keys_command.command("sign-in-link")
@asks(keys.link_key, arguments=KEY)
def link_command(ask: LinkKey, how: CommandTerms) -> None:
    """Print a link that signs one browser in with KEY (its id or prefix), once, within an hour.

    The same user finds the same chats in every browser that they sign in.
    """
    facts = facts_of(answered(keys.link_key, ask, how), how.as_json)
    if how.as_json:
        show(facts, how.as_json)
    elif facts["link"]:
        print_line(facts["link"])


def _new_facts(made: NewKey, as_json: bool) -> dict[str, Any]:
    return {"secret": made.secret.shown or None} | facts_of(made.key, as_json)


def _lines(listed: Sequence[ListedKey]) -> list[dict[str, Any]]:
    prefixes = {key.key: key.prefix for key in listed}
    return [
        {
            "key": key.key,
            "prefix": key.prefix,
            "name": key.name,
            "user": key.user,
            "shared": "shared" if key.shared else "",
            "scopes": key.scopes,
            "origins": key.origins,
            "created": key.created,
            "expires": key.expires,
            "last_used": key.last_used,
            "successor": prefixes.get(key.successor or "", ""),
            "state": key.state.value,
        }
        for key in listed
    ]
