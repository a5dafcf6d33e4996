"""`parley safety`: what is looked for in answers and prompts, and whose rule that is."""

from collections.abc import Sequence
from typing import NamedTuple

import click
import msgspec

from billing.api import SafetyPolicy
from core.errors import StartupError
from core.sql.database import Database
from core.terminal.terminal import print_json, print_line, print_lines
from core.terminal.terminal_tables import Table, print_blocks
from engine.cli.connection import json_option
from engine.cli.formatting import NOTHING, time_of_day
from engine.cli.policy_levels import (
    Level,
    diff_colour,
    diff_lines,
    document_text,
    level_named,
    on_policies,
    project_option,
    readable,
    state_of,
    tenant_option,
    version_facts,
    with_earlier,
)
from engine.cli.safety_set import set_command
from engine.cli.safety_stats import stats_command
from engine.cli.safety_try import try_command
from engine.policies.level_files import file_facts
from engine.policies.levels import level_facts
from engine.policies.store import HISTORY_MAX, PolicyStore, scope_of
from engine.safety.documents import DEFAULT, PolicyDocument, policy_hash

HASH_CHARACTERS = 12


class Shown(NamedTuple):
    """A version, if there is one, the newest version's number, and all that holds there."""

    row: SafetyPolicy | None
    base: int
    held: PolicyDocument


@click.group()
def command() -> None:
    """What is looked for in texts: rules of the platform, of tenants and of projects.

    A document is JSON. Its rules block, redact or flag what they find: `action` in answers, `prompt` in
    prompts. Where one of them is left out, nothing is looked for there. A list may have a text file, one word
    or phrase a line: "words_file": "names.txt" in place of `words`.

    \b
        {"detectors": [{"name": "card", "action": "block", "prompt": "redact"}],
         "patterns":  [{"name": "employee_id", "action": "redact", "prompt": "redact",
                        "pattern": "EMP-[0-9]{6}"}],
         "words":     [{"name": "project_names", "action": "flag", "prompt": "flag",
                        "words": ["blue heron"]}]}

    The platform's document is the floor. A tenant's and a project's add rules or make them stricter; none
    makes one weaker. Each replaces the one before at its level, and the platform's the built-in default:
    begin with what `show` prints. What runs goes on under the rules that it began with.

    \b
        parley safety show > platform.json           # what there is; edit it, then
        parley safety try "a card: 4111 1111 1111 1111" --document platform.json
        parley safety set platform.json --reason why
        parley safety show --version 3 | parley safety set - --yes --reason back     # undo
    """


command.add_command(set_command)
command.add_command(stats_command)
command.add_command(try_command)


@command.command("show")
@tenant_option
@project_option
@click.option("--merged", "as_merged", is_flag=True, help="What holds there, with whose rule each is.")
@click.option(
    "--version", "number", type=click.IntRange(1), help="An earlier version; the newest without it."
)
@json_option
def show_command(
    tenant: str | None, project: str | None, as_merged: bool, number: int | None, as_json: bool
) -> None:
    """A document, as `parley safety set` takes it; on stderr, who set it, when and why.

    \b
        parley safety show                                  # the platform's
        parley safety show --tenant acme --project web      # the project's own rules
        parley safety show --tenant acme --merged           # all that holds for acme
        parley safety show --tenant acme --version 3 | parley safety set - --tenant acme --yes --reason back
    """
    if as_merged and number:
        raise click.UsageError("--merged is of the newest versions")

    async def read(db: Database, store: PolicyStore) -> tuple[Level, Shown]:
        level = await level_named(db, tenant, project)
        rows = await store.history(level.tenant_id, level.project_id, 1)
        row, base = (rows[0], rows[0].version) if rows else (None, 0)
        if number is not None:
            row = await store.version(level.tenant_id, level.project_id, number)
        if row is None and number is not None:
            listed = f"parley safety history{level.options}"
            raise StartupError(f"{level.name} has no version {number}: see `{listed}`")
        return level, Shown(row, base, await store.applies(level.tenant_id, level.project_id))

    level, shown = on_policies(read)
    if as_merged:
        _show_merged(level, shown.held, as_json)
        return
    row = shown.row
    document = readable(row) if row else None
    document = DEFAULT if document is None and not level.tenant_id else document or PolicyDocument()
    if as_json:
        facts = {"base": shown.base, "document": level_facts(document)}
        print_json({**(version_facts(row) if row else level.facts), **facts})
        return
    print_line(_said_of(level, row), err=True)
    print_lines(document_text(file_facts(document, shown.base)))


def _show_merged(level: Level, held: PolicyDocument, as_json: bool) -> None:
    facts = msgspec.to_builtins(held)
    if as_json:
        print_json({**level.facts, "sha256": policy_hash(held), "document": facts})
        return
    print_line(f"what holds for {level.name}, {policy_hash(held)}", err=True)
    print_lines(document_text(facts))


def _said_of(level: Level, row: SafetyPolicy | None) -> str:
    if row is None or not row.document:
        why = "the built-in default holds" if not level.tenant_id else "what is outside it holds"
        became = f", {state_of(row)} in version {row.version} by {row.author}: {row.reason}" if row else ""
        return f"{level.name} has no document{became}; {why}"
    return f"{level.name}, version {row.version} by {row.author}, {time_of_day(row.created_ms)}: {row.reason}"


@command.command("history")
@tenant_option
@project_option
@click.option(
    "--diff", "with_diff", is_flag=True, help="What each version says otherwise than the one before."
)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, HISTORY_MAX))
@json_option
def history_command(
    tenant: str | None, project: str | None, with_diff: bool, limit: int, as_json: bool
) -> None:
    """Versions of a document, newest first: who made them, when and why.

    \b
        parley safety history --tenant acme --diff --limit 3
    """

    async def read(db: Database, store: PolicyStore) -> tuple[Level, Sequence[SafetyPolicy]]:
        level = await level_named(db, tenant, project)
        return level, await store.history(level.tenant_id, level.project_id, limit + 1)

    level, rows = on_policies(read)
    versions = list(with_earlier(list(rows)))[:limit]
    if as_json:
        for row, earlier in versions:
            print_json({**version_facts(row), "state": state_of(row), "diff": _changed(row, earlier)})
        return
    if not versions:
        print_line(_said_of(level, None))
        return
    if not with_diff:
        print_blocks(_versions(versions))
        return
    for row, earlier in versions:
        print_blocks(_versions([(row, earlier)]), "")
        for line in _changed(row, earlier):
            print_line(line, colour=diff_colour(line))
        print_line()


def _versions(versions: Sequence[tuple[SafetyPolicy, SafetyPolicy | None]]) -> Table:
    table = Table()
    table.columns("version", right=True)
    table.columns("at", whole=True)
    table.columns("by", "state", "hash", "lines", "reason")
    for row, earlier in versions:
        lines = [line[:1] for line in _changed(row, earlier)]
        counts = f"+{lines.count('+')} -{lines.count('-')}"
        hash = row.sha256[:HASH_CHARACTERS] or NOTHING
        at = time_of_day(row.created_ms) or NOTHING
        table.row(str(row.version), at, row.author, state_of(row), hash, counts, row.reason)
    return table


def _changed(row: SafetyPolicy, earlier: SafetyPolicy | None) -> list[str]:
    return diff_lines(scope_of(row), readable(earlier) if earlier else None, readable(row))
