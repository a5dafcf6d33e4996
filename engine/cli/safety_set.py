"""`parley safety set`: shows what a document changes, asks, and makes it the newest version."""

from typing import Any

import click
import msgspec

from billing.api import tenant_names
from core.errors import StartupError
from core.sql.database import Database
from core.terminal.terminal import agrees, print_json, print_line
from engine.cli.connection import json_option
from engine.cli.policy_levels import (
    STDIN,
    Level,
    diff_colour,
    diff_lines,
    level_named,
    on_policies,
    on_policies_and_redis,
    project_option,
    read_level,
    readable,
    tenant_option,
    version_facts,
)
from engine.policies.merge import merged
from engine.policies.overrides import LevelKey, Override, overridden, overridden_below
from engine.policies.store import BELOW_MAX, PolicyStore
from engine.safety.documents import PolicyDocument
from engine.safety.policy_checks import checked

OVERRIDES_SHOWN = 20
_OF = {"action": "in answers", "prompt": "in prompts"}


class PolicyChange(msgspec.Struct, frozen=True):
    """What a document would change, seen on a version (0: there was none): lines of a diff, its own rules
    that do nothing, and those of levels within it, each with whose it is."""

    level: Level
    on_version: int
    diff: list[str]
    own: list[Override]
    below: list[tuple[str, Override]]

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        below = [{"whose": whose, **msgspec.to_builtins(each)} for whose, each in self.below]
        return {"diff": self.diff, "overridden": msgspec.to_builtins(self.own), "overridden_below": below}


@click.command("set")
@click.argument("file", required=False)
@tenant_option
@project_option
@click.option("--reason", required=True, help="Why; kept with the version and in the audit log.")
@click.option("--remove", is_flag=True, help="In place of FILE: no document of its own any more.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def set_command(
    file: str | None,
    tenant: str | None,
    project: str | None,
    reason: str,
    remove: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make the document in FILE (- is stdin) the newest version; shows first what it changes, and asks.

    What cannot be looked for safely is refused, with the pattern and the reason. Rules that do nothing, since
    a level outside them is stricter, are named. Gateways know of it at once; answers that run keep the rules
    that they began with. The same document again changes nothing.

    \b
        parley safety set acme.json --tenant acme --reason "cards are blocked, ticket 7"
        parley safety set --remove --tenant acme --project web --reason "the tenant's rules are enough"
    """
    if (file is None) != remove:
        raise click.UsageError("name a FILE, or say --remove")
    if (file == STDIN or as_json) and not yes:
        raise click.UsageError("nobody can be asked with - or --json: say --yes")
    document = None if file is None else read_level(file)

    async def look(db: Database, store: PolicyStore) -> PolicyChange:
        level = await level_named(db, tenant, project)
        if document is not None:
            checked(document)
        return await _change(db, store, level, document)

    change = on_policies(look)
    if not as_json:
        _show(change)
    if change.diff and not yes and not agrees(f"set this for {change.level.name}?"):
        raise StartupError("nothing is changed; --yes does not ask")
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


async def _change(
    db: Database, store: PolicyStore, level: Level, document: PolicyDocument | None
) -> PolicyChange:
    rows = dict(await store.newest(level.tenant_id, level.project_id))
    last = rows.pop(level.scope, None)
    outer = {scope: readable(row) for scope, row in rows.items()}
    return PolicyChange(
        level,
        last.version if last else 0,
        diff_lines(level.scope, readable(last) if last else None, document),
        overridden(merged(outer.get("platform"), outer.get("tenant")), document)
        if document and level.tenant_id
        else [],
        await _below(db, store, level, document, outer.get("platform")),
    )


async def _below(
    db: Database,
    store: PolicyStore,
    level: Level,
    document: PolicyDocument | None,
    platform: PolicyDocument | None,
) -> list[tuple[str, Override]]:
    """What does nothing of the levels within this one, once it has the document."""
    if level.project_id:
        return []
    rows = await store.below(level.tenant_id)
    if len(rows) == BELOW_MAX:
        print_line(f"only {BELOW_MAX:,} levels within it were looked at", err=True)
    documents = {(row.tenant_id, row.project_id): readable(row) for row in rows}
    levels: dict[LevelKey, PolicyDocument] = {place: each for place, each in documents.items() if each}
    if level.tenant_id and document:
        levels[level.tenant_id, ""] = document
    names = await tenant_names(db)
    found = overridden_below(platform if level.tenant_id else document, levels)
    return [(_whose(names, place), each) for place, each in found if place != (level.tenant_id, "")]


def _whose(names: dict[str, str], place: LevelKey) -> str:
    tenant, project = names.get(place[0], place[0]), place[1]
    return f"project {project} of {tenant}" if project else f"tenant {tenant}"


def _show(change: PolicyChange) -> None:
    for line in change.diff:
        print_line(line, colour=diff_colour(line))
    for each in change.own:
        print_line(_told(each))
    for whose, each in change.below[:OVERRIDES_SHOWN]:
        print_line(f"{whose}: {_told(each)}")
    if (more := len(change.below) - OVERRIDES_SHOWN) > 0:
        print_line(f"and {more:,} more rules of levels within it")


def _told(each: Override) -> str:
    return f"{each.name}: {each.asked} {_OF[each.of]} does nothing: the {each.scope}'s {each.holds} holds"
