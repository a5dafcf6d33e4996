"""`parley safety try`: what a policy does to a text, step by step. Reads only; the text is kept nowhere."""

import os
import re
from collections.abc import Iterator
from shlex import quote

import click
import msgspec

from billing.rendering import CommandTerms, answered
from core.api_address import runs_over_api
from core.errors import Refused, StartupError
from core.terminal.refused_text import refused_text
from core.terminal.terminal import print_json, print_line, print_lines
from core.terminal.terminal_tables import Block, Table, print_blocks
from engine.cli.connection import json_option
from engine.cli.policy_levels import STDIN, check_named, project_option, read_level, tenant_option
from engine.cli.safety_change import one_sided_lines
from engine.operations.policy_levels import PLATFORM_LEVEL
from engine.operations.safety_try import (
    TEXT_BYTES_MAX,
    TriedPolicy,
    TryPolicy,
    draft_checked,
    tried_under,
    try_policy,
)
from engine.policies.merge import merged
from engine.policies.trial import Trial, TrialStep
from engine.safety.documents import PolicyDocument

HASH_CHARACTERS = 12
TEXT_SHOWN = 60
ROWS_MAX = 20  # of each table: what is shown stays in sight
_PATH = re.compile(r"[^\s@]*[/\\][^\s@]*|[^\s@]+\.[A-Za-z]\w{0,4}")  # what may be meant as one
_PASSED = "({:,} more)"
_DONE = {"redact": "redacted", "flag": "flagged"}


@click.command("try")
@click.argument("text", required=False)
@click.option("--file", "text_file", help="The text in this FILE, in place of TEXT.")
@tenant_option
@project_option
@click.option("--prompt", "as_prompt", is_flag=True, help="As a prompt; without it, as an answer.")
@click.option("--document", "file", help="A FILE in place of the document that is set there.")
@json_option
@runs_over_api
def try_command(
    text: str | None,
    text_file: str | None,
    tenant: str | None,
    project: str | None,
    as_prompt: bool,
    file: str | None,
    as_json: bool,
) -> None:
    """What the rules that hold there do to TEXT (- is stdin), or to the text in a file.

    Each match, with whose rule it is; what becomes of it; what is shown and what is held back as tokens come.
    The text goes to this terminal and nowhere else. What is typed stays in your shell's history: give
    secrets by - or --file.

    \b
        parley safety try "my card is 4111 1111 1111 1111" --tenant acme
        parley safety try --file mail.txt --tenant acme --document draft.json   # before it is set
        cat mail.txt | parley safety try - --prompt --json
    """
    if (text is None) == (text_file is None):
        raise click.UsageError("name a TEXT (- is stdin), or a --file")
    if file == STDIN and STDIN in (text, text_file):
        raise click.UsageError("stdin is the text or the document")
    check_named(tenant, project)
    words, draft = _text_of(text, text_file), None if file is None else read_level(file).document
    if draft is not None and tenant is None:
        found = _tried_here(draft, words, as_prompt)
    else:
        ask = TryPolicy(tenant=tenant, project=project, text=words, as_prompt=as_prompt, document=draft)
        found = answered(try_policy, ask, CommandTerms(as_json))
    level, trial = found.of, found.trial
    if as_json:
        print_json({**level.facts, "sha256": found.sha256, **msgspec.to_builtins(trial)})
        return
    hash = found.sha256[:HASH_CHARACTERS]
    kind = "a prompt" if as_prompt else "an answer"
    print_line(f"as {kind}, under what holds for {level.name} (policy {hash})", err=True)
    for line in _elsewhere(found.elsewhere, as_prompt):
        print_line(line, err=True)
    print_blocks(*_blocks(trial, as_prompt))
    if not (as_prompt and trial.block):
        print_blocks("What the model gets" if as_prompt else "What is shown")
        print_lines(trial.shown)
        print_line()
    print_blocks(*_end(trial, as_prompt))


def _tried_here(draft: PolicyDocument, text: str, as_prompt: bool) -> TriedPolicy:
    """What a draft of the platform's does: nothing of an installation is asked for."""
    try:
        return tried_under(PLATFORM_LEVEL, merged(draft_checked(draft)), text, as_prompt)
    except Refused as refused:
        raise StartupError(refused_text(refused.refusal)) from refused


def _elsewhere(names: list[str], as_prompt: bool) -> Iterator[str]:
    """Rules that do nothing here, as they look at the other side only."""
    if as_prompt:
        yield from one_sided_lines({"prompt": names})
    elif names:
        yield f"{', '.join(names)}: looked for in prompts only, which --prompt tries"


def _text_of(given: str | None, file: str | None) -> str:
    """The words, a file's text, or stdin's. Raises StartupError."""
    if file is not None or given == STDIN:
        return _read(file or STDIN)
    assert given is not None
    if os.path.exists(given):
        kind = "folder" if os.path.isdir(given) else "file"
        raise StartupError(
            f"{given} is a {kind}: --file {quote(given)} tries what is in it, and - takes words from stdin"
        )
    if not given.strip():
        print_line("the text is empty", err=True)
    elif _PATH.fullmatch(given):
        print_line(f"no file has this name: {given} itself is the text (--file reads a file)", err=True)
    return given


def _read(file: str) -> str:
    """The text in a file, or on stdin."""
    try:
        with click.open_file(file, "rb") as stream:
            data: bytes = stream.read(TEXT_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise StartupError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartupError(f"the text is not UTF-8, at byte {error.start:,}") from error
    if len(data) > TEXT_BYTES_MAX:
        raise StartupError(f"a text to try has {TEXT_BYTES_MAX >> 10} KiB at most")
    return text


def _blocks(trial: Trial, as_prompt: bool) -> Iterator[Block]:
    if not trial.matches:
        yield from ("Nothing is found.", "")
    else:
        yield from ("What is found", _matches(trial), *_more(len(trial.matches)), "")
    if trial.spans:
        yield from ("What becomes of it", _spans(trial), *_more(len(trial.spans)), "")
    if not as_prompt and any(step.held or step.flags for step in trial.steps):
        rows = list(_notable(trial.steps))
        yield from ("As tokens come (they are guessed)", _steps(rows), *_more(len(rows)), "")


def _matches(trial: Trial) -> Table:
    table = Table()
    table.columns("from", "letters", right=True)
    table.columns("what", "action", "whose rule", "text")
    for match in trial.matches[:ROWS_MAX]:
        place = (str(match.p), str(match.n))
        table.row(*place, match.category, match.action, match.scope, _short(match.text))
    return table


def _spans(trial: Trial) -> Table:
    table = Table()
    table.columns("from", "letters", right=True)
    table.columns("becomes", "what", "whose rule")
    table.columns("matches in one", right=True)
    for span in trial.spans[:ROWS_MAX]:
        becomes = span.placeholder or "the end"
        table.row(str(span.p), str(span.n), becomes, span.category, span.scope, str(span.matches))
    return table


def _steps(rows: list[tuple[str, ...]]) -> Table:
    """Tokens after which something is held or marked; the others were shown as they came."""
    table = Table()
    table.columns("token", "shown")
    table.columns("held", right=True)
    table.columns("marked")
    for row in rows[:ROWS_MAX]:
        table.row(*row)
    return table


def _notable(steps: list[TrialStep]) -> Iterator[tuple[str, ...]]:
    passed, before = 0, 0
    for step in steps:
        if not (step.held or before or step.flags):
            passed += 1
            continue
        if passed:
            yield _PASSED.format(passed), "as they came", "0"
            passed = 0
        marked = ", ".join(f"{flag.category} {_DONE[flag.action]}" for flag in step.flags)
        yield _quoted(step.token) or "(the end)", _quoted(step.shown), f"{step.held:,}", marked
        before = step.held
    if passed:
        yield _PASSED.format(passed), "as they came", "0"


def _more(rows: int) -> Iterator[Block]:
    if rows > ROWS_MAX:
        yield f"… {rows - ROWS_MAX:,} more: --json has all"


def _end(trial: Trial, as_prompt: bool) -> Iterator[Block]:
    for flag in trial.flags:
        if flag.action == "flag":
            place = _short(trial.shown[flag.p : flag.p + flag.n])
            yield f"marked: {flag.category}, by the {flag.scope}'s rule: {place}"
    if trial.block is not None:
        what = "refused, and nothing of it is sent" if as_prompt else "ended there (safety_blocked)"
        whose = f"for {trial.block.category}, by the {trial.block.scope}'s rule"
        yield f"The {'prompt' if as_prompt else 'answer'} is {what}, {whose}."


def _quoted(text: str) -> str:
    return f"{_short(text)!r}" if text else ""


def _short(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}…"
