"""Commands that documents and helps show, held to what the commands take."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from core.cli import parley

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("clients/*/README.md")]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(?:\.venv/bin/)?parley ([^`\n]+)`")
LINE = re.compile(r"^ *(?:\.venv/bin/)?parley ([a-z][^#\n]+)", re.MULTILINE)
NAME = re.compile(r"[a-z][a-z|-]*")


def faults_in(text: str, *, fenced: bool = True) -> Iterator[str]:
    """Of the commands in a text: names and options that there are not, required ones that are not typed. A
    command without values is only named."""
    shown = "".join(FENCED.findall(text)) if fenced else text
    for found in (*SPAN.findall(text), *LINE.findall(shown)):
        typed = re.split(r" \| |; | && ", found.replace("\\|", "|"))[0]
        yield from (f"parley {typed}: {fault}" for fault in _faults_of(shlex.split(typed)))


def _faults_of(words: list[str]) -> Iterator[str]:
    commands: list[click.Command] = [parley]
    rest = words
    for at, word in enumerate(words):
        groups = [each for each in commands if isinstance(each, click.Group)]
        if not groups or not NAME.fullmatch(word):
            break
        known = [
            group.get_command(click.Context(group), name) for group in groups for name in word.split("|")
        ]
        if None in known:
            yield f"there is no {word}"
            return
        commands = [each for each in known if each is not None]
        rest = words[at + 1 :]
    options = {
        name for word in rest if word.lstrip("[").startswith("--") for name in re.findall(r"--[\w-]+", word)
    } | {word for word in rest if re.fullmatch(r"-[a-z]", word)}
    whole = any(not word.startswith("--") for word in rest) and "…" not in rest
    for command in commands if rest else ():
        takes = {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}
        yield from (f"{command.name} has no {name}" for name in sorted(options - {*takes, "--help"}))
        for each in command.params if whole and not isinstance(command, click.Group) else ():
            if isinstance(each, click.Option) and each.required and not options & {*each.opts}:
                yield f"{command.name} needs {each.opts[0]}"


def _helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    if isinstance(command, click.Group):
        for each in command.list_commands(context := click.Context(command)):
            found = command.get_command(context, each)
            assert found is not None
            yield from _helps(found, f"{name} {each}")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_shows_commands_that_can_be_typed(page: Path):
    """As they stand there, with names in the place of words in capitals."""
    assert list(faults_in(page.read_text())) == []


def test_a_help_shows_commands_that_can_be_typed():
    """Of every command, as pages do."""
    faults = {name: list(faults_in(text, fenced=False)) for name, text in _helps(parley, "parley")}
    assert {name: found for name, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`parley usage refund R --cause C`", "refund needs --tenant"),
        ("`parley usage refound R`", "there is no refound"),
        ("```\nparley wallets list --all\n```", "list has no --all"),
        ("`parley usage refund`, `parley usage refund --yes`", None),
        ("`parley keys list\\|create`", None),
    ],
)
def test_what_cannot_be_typed_is_found(text: str, fault: str | None):
    """Each kind of fault; what is only named has none."""
    assert [found.partition(": ")[2] for found in faults_in(text)] == ([fault] if fault else [])
