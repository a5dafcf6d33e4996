"""Pages of help that are kept, so that asking for help imports nothing."""

import os
import sys
from pathlib import Path

import pytest

from core import command_pages
from core.command_pages import CommandPages, digest, kept_pages, line_of, page_for
from tests.support.patience import finished

SOURCE = "core/command_pages.py"
HELP_OF_EVERYTHING = """
import contextlib, io, os, sys
import core.cli
from core.command_pages import kept_pages
asked = [[name, *words.split()] for name, kept in kept_pages().items() for words in kept["pages"]]
for words in [[], *asked]:
    sys.argv = ["parley", *words, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        core.cli.main()
    assert " ".join(["Usage: parley", *words]) in said.getvalue(), words
ours = {name for name in sys.modules if name.partition(".")[0] in %r}
print(len(asked), len(sys.modules), *sorted(ours))
"""
OURS = ("core", "billing", "engine", "server", "admin", "clients", "parley_client")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, CommandPages]:
    """One command of one source."""
    monkeypatch.setenv("COLUMNS", "80")
    pages = {"": "Usage: parley keys", "create": "Usage: parley keys create"}
    return {"keys": {"sources": [SOURCE], "digest": digest([SOURCE]), "line": "API keys.", "pages": pages}}


def test_help_of_a_command_is_its_page(kept: dict[str, CommandPages]):
    """By either option, of a group and of what is below it."""
    assert page_for(["keys", "--help"], kept) == "Usage: parley keys"
    assert page_for(["keys", "create", "-h"], kept) == "Usage: parley keys create"
    assert line_of("keys", kept) == "API keys."


@pytest.mark.parametrize(
    "words",
    ["", "--help", "keys", "keys create", "keys --help create", "keys create --tenant --help", "none --help"],
)
def test_anything_else_is_asked_of_the_command(kept: dict[str, CommandPages], words: str):
    """The list itself, what is to run, a value that is called --help, and commands that are not kept."""
    assert page_for(words.split(), kept) is None


def test_a_page_that_was_made_of_other_sources_is_not_shown(kept: dict[str, CommandPages]):
    """Somebody edits the command, or takes its file away."""
    edited: CommandPages = {**kept["keys"], "digest": "0" * 32}
    gone: CommandPages = {**kept["keys"], "sources": ["core/none.py"]}
    for each in (edited, gone):
        assert page_for(["keys", "--help"], {"keys": each}) is None
        assert line_of("keys", {"keys": each}) is None


def test_a_narrow_terminal_gets_a_narrow_page(kept: dict[str, CommandPages], monkeypatch: pytest.MonkeyPatch):
    """The pages are folded at 80 columns."""
    monkeypatch.setenv("COLUMNS", "79")
    assert page_for(["keys", "--help"], kept) is None


def test_without_the_file_everything_is_asked_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An installation that lost it, or an older one's."""
    monkeypatch.setattr(command_pages, "FILE", tmp_path / "none.json")
    kept_pages.cache_clear()
    try:
        assert kept_pages() == {}
    finally:
        kept_pages.cache_clear()


def test_help_of_everything_imports_no_command():
    """Nor what commands need: no settings, no SQL, no Redis, no tables. This is counted, since each import is
    waited for."""
    environment = {**os.environ, "PARLEY_POOL": "default", "COLUMNS": "80"}
    environment.pop("PYTHONPATH", None)  # a test's processes begin with chaos's hooks in it
    done = finished([sys.executable, "-c", HELP_OF_EVERYTHING % (OURS,)], env=environment)
    assert done.returncode == 0, done.stderr
    asked, modules, *ours = done.stdout.split()
    assert int(asked) > 140
    assert int(modules) < 350
    assert ours == [
        "core",
        "core.actor",
        "core.cli",
        "core.command_pages",
        "core.errors",
        "core.files",
        "core.files.private_files",
        "core.terminal",
        "core.terminal.safe_text",
        "core.terminal.terminal",
    ]
