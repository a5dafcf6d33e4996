"""Writes core/command_pages.json: the help of every `parley` command (core/command_pages.py says what for).

`--check` writes nothing, and fails where the file is not what would be written.
"""

import argparse
import ast
import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from core.cli import parley
from core.command_pages import CommandPages, digest

ROOT = Path(__file__).parent.parent
FILE = ROOT / "core" / "command_pages.json"
LINE_CHARACTERS_MAX = 300  # click shortens it to what there is room for


def main(check: bool) -> int:
    """1 where `check` finds another text."""
    os.environ["COLUMNS"] = "80"
    made = json.dumps(pages_of(parley), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if check and (not FILE.exists() or FILE.read_text("utf-8") != made):
        print(f"{FILE.name} is not what the commands say: run scripts/command_pages.py")
        return 1
    if not check:
        FILE.write_text(made, "utf-8")
    print(f"{FILE.name}: {made.count('Usage: ')} pages of help")
    return 0


def pages_of(group: click.Group) -> dict[str, CommandPages]:
    """All commands of a group with the pages of all that is below them."""
    above = click.Context(group, info_name="parley", **group.context_settings)
    found: dict[str, CommandPages] = {}
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None
        pages = dict(_below(command, name, above))
        sources = sorted(_sources(command))
        found[name] = {
            "sources": sources,
            "digest": digest(sources),
            "line": command.get_short_help_str(LINE_CHARACTERS_MAX),
            "pages": {words.partition(" ")[2]: page for words, page in pages.items()},
        }
    return found


def _below(command: click.Command, words: str, above: click.Context) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=words.rpartition(" ")[2], parent=above, **command.context_settings
    )
    yield words, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from _below(below, f"{words} {each}", context)


def _sources(command: click.Command) -> set[str]:
    """Where the command and what is below it is written, and what these import of the commands' own rooms."""
    files = {Path(inspect.getfile(inspect.unwrap(each))) for each in _callbacks(command)}
    found: set[Path] = set()
    while files:
        file = files.pop()
        found.add(file)
        files |= {each for each in _imported(file) if each.parent.name == "cli"} - found
    return {str(each.relative_to(ROOT)) for each in found}


def _callbacks(command: click.Command) -> Iterator[Any]:
    if command.callback is not None:
        yield command.callback
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _callbacks(each)


def _imported(file: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for module in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
                if (found := ROOT / f"{module.replace('.', '/')}.py").is_file():
                    yield found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the file is up to date")
    sys.exit(main(parser.parse_args().check))
