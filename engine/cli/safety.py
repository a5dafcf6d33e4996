"""`parley safety`: what is looked for in answers and prompts, and whose rule that is."""

from collections.abc import Sequence

import click
import msgspec

from billing.rendering import CommandTerms, answered, asks
from core.terminal.terminal import print_json, print_line, print_lines
from core.terminal.terminal_tables import Table, print_blocks
from engine.cli.formatting import NOTHING
from engine.cli.policy_levels import check_named, diff_colour
from engine.cli.safety_set import set_command
from engine.cli.safety_stats import stats_command
from engine.cli.safety_try import try_command
from engine.operations.policy_levels import Level, PolicyVersion, document_text
from engine.operations.safety import (
    MergedPolicy,
    NamePolicy,
    PolicyHistory,
    PolicyHistoryVersion,
    ShowPolicy,
    policy_history,
    show_merged,
    show_policy,
)
from engine.policies.level_files import BASE

HASH_CHARACTERS = 12


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
@click.option("--merged", "as_merged", is_flag=True, help="What holds there, with whose rule each is.")
@asks(show_policy)
def show_command(ask: ShowPolicy, how: CommandTerms, as_merged: bool) -> None:
    """A document, as `parley safety set` takes it; on stderr, who set it, when and why.

    \b
        parley safety show                                  # the platform's
        parley safety show --tenant acme --project web      # the project's own rules
        parley safety show --tenant acme --merged           # all that holds for acme
        parley safety show --tenant acme --version 3 | parley safety set - --tenant acme --yes --reason back
    """
    check_named(ask.tenant, ask.project)
    if as_merged:
        if ask.version:
            raise click.UsageError("--merged is of the newest versions")
        _show_merged(answered(show_merged, NamePolicy(tenant=ask.tenant, project=ask.project), how), how)
        return
    shown = answered(show_policy, ask, how)
    if how.as_json:
        made = msgspec.to_builtins(shown.version) if shown.version else shown.of.facts
        print_json({**made, "base": shown.base, "document": shown.document})
        return
    print_line(_said_of(shown.of, shown.version, shown.state), err=True)
    print_lines(document_text({BASE: shown.base, **shown.document}))


def _show_merged(held: MergedPolicy, how: CommandTerms) -> None:
    if how.as_json:
        print_json({**held.of.facts, "sha256": held.sha256, "document": held.document})
        return
    print_line(f"what holds for {held.of.name}, {held.sha256}", err=True)
    print_lines(document_text(held.document))


def _said_of(level: Level, version: PolicyVersion | None, state: str) -> str:
    if version is None or state != "set":
        why = "the built-in default holds" if not level.tenant_id else "what is outside it holds"
        became = ""
        if version is not None:
            became = f", {state} in version {version.version} by {version.author}: {version.reason}"
        return f"{level.name} has no document{became}; {why}"
    made = f"version {version.version} by {version.author}, {version.created}"
    return f"{level.name}, {made}: {version.reason}"


@command.command("history")
@click.option(
    "--diff", "with_diff", is_flag=True, help="What each version says otherwise than the one before."
)
@asks(policy_history, options={"limit": {"show_default": True}}, omitted=("after",))
def history_command(ask: PolicyHistory, how: CommandTerms, with_diff: bool) -> None:
    """Versions of a document, newest first: who made them, when and why.

    \b
        parley safety history --tenant acme --diff --limit 3
    """

    check_named(ask.tenant, ask.project)
    listed = answered(policy_history, ask, how)
    if how.as_json:
        for each in listed.items:
            print_json({**msgspec.to_builtins(each.version), "state": each.state, "diff": each.diff})
        return
    if not listed.items:
        print_line(_said_of(listed.of, None, ""))
        return
    if not with_diff:
        print_blocks(_versions(listed.items))
        return
    for each in listed.items:
        print_blocks(_versions([each]), "")
        for line in each.diff:
            print_line(line, colour=diff_colour(line))
        print_line()


def _versions(versions: Sequence[PolicyHistoryVersion]) -> Table:
    table = Table()
    table.columns("version", right=True)
    table.columns("at", whole=True)
    table.columns("by", "state", "hash", "lines", "reason")
    for each in versions:
        lines = [line[:1] for line in each.diff]
        counts = f"+{lines.count('+')} -{lines.count('-')}"
        made = each.version
        hash = (made.sha256 or "")[:HASH_CHARACTERS] or NOTHING
        at = made.created or NOTHING
        table.row(str(made.version), at, made.author, each.state, hash, counts, made.reason)
    return table
