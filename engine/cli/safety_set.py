"""`parley safety set`: shows what a document changes, asks, and makes it the newest version."""

from collections.abc import Awaitable, Callable
from typing import Any

import click
import msgspec

from billing.api import Terms
from billing.rendering import CommandTerms, Performer, answered, with_performer
from core.api_address import runs_over_api
from core.errors import StartupError
from core.operations import operation_of
from core.terminal.terminal import agrees, print_json, print_line
from engine.cli.connection import json_option
from engine.cli.policy_levels import STDIN, check_named, project_option, read_level, tenant_option
from engine.cli.safety_change import change_facts, check_base, loss_lines, show_change
from engine.operations.policy_changes import PolicyChange
from engine.operations.safety import RemovePolicy, SetPolicy, SetPolicyFacts, remove_policy, set_policy
from engine.policies.level_files import LevelFile

Run = Callable[[Any, Any], Awaitable[SetPolicyFacts]]
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
@click.option("--dry-run", is_flag=True, help="Show what it would do, and do nothing.")
@json_option
@runs_over_api
def set_command(
    file: str | None,
    tenant: str | None,
    project: str | None,
    reason: str,
    remove: bool,
    yes: bool,
    loosen: bool,
    dry_run: bool,
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
    if (file == STDIN or as_json) and not yes and not dry_run:
        raise click.UsageError("nobody can be asked with - or --json: say --yes")
    check_named(tenant, project)
    given = None if file is None else read_level(file)
    run, ask = _asked(given, tenant, project)
    preview = with_performer(lambda performer: _preview(performer, run, ask, reason))
    check_base(preview.change, given.base if given else None)
    if not as_json:
        show_change(preview.change)
    if dry_run:
        if as_json:
            _show(preview, as_json)
        print_line("nothing is done: this was a dry run", err=True)
        return
    _check_agreed(preview.change, yes, loosen)
    seen = msgspec.structs.replace(ask, base=preview.change.on_version)
    done = answered(run, seen, CommandTerms(as_json, reason=reason))
    _show(done, as_json)
    if done.changed and given and given.base is not None and file != STDIN and not as_json:
        print_line(f'to go on with this file, write "base": {done.version.version} into it', err=True)


def _asked(given: LevelFile | None, tenant: str | None, project: str | None) -> tuple[Run, RemovePolicy]:
    """The operation, and what it is asked. Who types it has agreed to what is lost, or is not let so far."""
    if given is None:
        return remove_policy, RemovePolicy(tenant=tenant, project=project, loosen=True)
    return set_policy, SetPolicy(tenant=tenant, project=project, loosen=True, document=given.document)


async def _preview(performer: Performer, run: Run, ask: RemovePolicy, reason: str) -> SetPolicyFacts:
    terms = Terms(reason=reason, dry_run=True)
    return (await performer.perform(operation_of(run), ask, terms)).answer


def _show(done: SetPolicyFacts, as_json: bool) -> None:
    name, version = done.change.level.name, done.version.version
    if as_json:
        made = msgspec.to_builtins(done.version)
        print_json({**made, "changed": done.changed, **change_facts(done.change)})
    elif done.changed:
        print_line(f"{name}: version {version} holds from now on")
    else:
        print_line(f"{name} has this document already, in version {version}")


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
            change_facts(change),
        )
