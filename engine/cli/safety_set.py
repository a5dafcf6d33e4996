"""`parley safety set`: shows what a document changes, asks, and makes it the newest version."""

import click

from core.errors import StartupError
from core.sql.database import Database
from core.terminal.terminal import agrees, print_json, print_line
from engine.cli.connection import json_option
from engine.cli.policy_levels import (
    STDIN,
    level_named,
    on_policies,
    on_policies_and_redis,
    project_option,
    read_level,
    tenant_option,
    version_facts,
)
from engine.cli.safety_change import PolicyChange, change_of, loss_lines, show_change
from engine.policies.store import PolicyStore
from engine.safety.policy_checks import checked

LOOSEN = "--loosen"


@click.command("set")
@click.argument("file", required=False)
@tenant_option
@project_option
@click.option("--reason", required=True, help="Why; kept with the version and in the audit log.")
@click.option("--remove", is_flag=True, help="In place of FILE: no document of its own any more.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    LOOSEN, is_flag=True, help="With --yes: the platform may look for less than before, for every tenant."
)
@json_option
def set_command(
    file: str | None,
    tenant: str | None,
    project: str | None,
    reason: str,
    remove: bool,
    yes: bool,
    loosen: bool,
    as_json: bool,
) -> None:
    """Make the document in FILE (- is stdin) the newest version; shows first what it changes, and asks.

    Begin with what `show` prints: FILE replaces the whole document. The platform's replaces the built-in
    default too: what it leaves out is no longer looked for, for every tenant. What is lost or weaker is said,
    and for the platform needs --loosen beside --yes. `base`, which `show` writes into the file, is the
    version that you saw: where another one came in between, nothing is changed.

    What cannot be looked for safely is refused, with the pattern and the reason. Rules that do nothing, since
    a level outside them is stricter, are named. Gateways know of it at once; answers that run keep the rules
    that they began with. The same document again changes nothing. The version's author is the system's user,
    or who `parley --author` names.

    \b
        parley safety show --tenant acme > acme.json       # edit it, then
        parley safety set acme.json --tenant acme --reason "cards are blocked, ticket 7"
        parley safety set --remove --tenant acme --project web --reason "the tenant's rules are enough"
    """
    if (file is None) != remove:
        raise click.UsageError("name a FILE, or say --remove")
    if (file == STDIN or as_json) and not yes:
        raise click.UsageError("nobody can be asked with - or --json: say --yes")
    given = None if file is None else read_level(file)
    document, base = (given.document, given.base) if given else (None, None)

    async def look(db: Database, store: PolicyStore) -> PolicyChange:
        level = await level_named(db, tenant, project)
        if document is not None:
            checked(document)
        return await change_of(db, store, level, document, base)

    change = on_policies(look)
    if not as_json:
        show_change(change)
    _check_agreed(change, yes, loosen)
    at = (change.level.tenant_id, change.level.project_id)
    row = on_policies_and_redis(
        lambda store, redis: store.set(redis, *at, document, reason, on_version=change.on_version)
    )
    if as_json:
        print_json({**version_facts(row), "changed": row.version != change.on_version, **change.facts()})
    elif row.version == change.on_version:
        print_line(f"{change.level.name} has this document already, in version {row.version}")
    else:
        print_line(f"{change.level.name}: version {row.version} holds from now on")
        if base is not None and file != STDIN:
            print_line(f'to go on with this file, write "base": {row.version} into it', err=True)


def _check_agreed(change: PolicyChange, yes: bool, loosen: bool) -> None:
    """Raises StartupError where somebody has to agree, and nobody does."""
    if not change.diff:
        return
    if not yes and not agrees(f"set this for {change.level.name}?"):
        raise StartupError("nothing is changed; --yes does not ask")
    if yes and not loosen and change.losses and not change.level.tenant_id:
        lost = "; ".join(loss_lines(change.losses))
        raise StartupError(
            f"nothing is changed: for every tenant the platform would look for less. {lost}. "
            f"Begin with `parley safety show`, or add {LOOSEN}",
            change.facts(),
        )
