"""Every command has a test that types it, beyond the sweep of what changes something."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from core.cli import parley
from tests.billing.cli.audited_office import leaves
from tests.support import typed
from tests.support.home import TEST_SECRET
from tests.support.patience import finished

ROOT = Path(__file__).parents[2]
MADE_AGAIN = """
import contextlib, io
import core.cli
from core.command_pages import kept_pages
from scripts.command_pages import pages_of

def said(*words):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        core.cli.parley.main([*words, "--help"], prog_name="parley", standalone_mode=False)
    return printed.getvalue()

made = pages_of(core.cli.parley)
assert made.keys() == kept_pages().keys()
for name, kept in kept_pages().items():
    assert made[name] == kept, name
    for words, page in kept["pages"].items():
        assert said(name, *words.split()) == page + chr(10), (name, words)
listed = said()
core.cli.kept_pages = dict
assert said() == listed
"""


def test_every_command_names_its_test():
    """A new one fails here until it is in tests/commands.yaml; one that went must leave it."""
    context = click.Context(parley)
    commands = {name: parley.get_command(context, name) for name in parley.list_commands(context)}
    found = {leaf for name, command in commands.items() if command for leaf, _ in leaves(name, command)}
    listed = typed.listed() | typed.listed_processes()
    assert not (new := found - listed.keys()), f"say in tests/commands.yaml which test types {sorted(new)}"
    assert not (gone := listed.keys() - found), (
        f"no commands any more, for tests/commands.yaml: {sorted(gone)}"
    )
    for test in set(listed.values()):
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), test
        assert "test_audited_commands" not in file


def test_the_kept_pages_are_what_the_commands_say():
    """Made again they are the same, and click prints each so; so does the list of all commands. In a process
    of its own: click keeps the help option of who first asked, and other tests ask without `parley` above."""
    environment = {**os.environ, "COLUMNS": "80"}
    done = finished([sys.executable, "-c", MADE_AGAIN], env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_test_that_types_less_than_it_is_listed_for_fails():
    """Help, and what is refused as it is typed, are no tries."""
    name = "secrets admission"
    test = typed.listed()[name]
    typed.TYPED.clear()
    for words in (["secrets", "admission", "--help"], ["secrets", "admission", "more"]):
        CliRunner().invoke(parley, words)
    assert typed.lacks(test, typed.TYPED) == [name]
    CliRunner().invoke(parley, name.split(), env={"PARLEY_SECRET": TEST_SECRET})
    assert typed.lacks(test, typed.TYPED) == []
    assert typed.lacks("tests/none.py::test_none", set()) == []


def test_what_another_test_typed_does_not_count(monkeypatch: pytest.MonkeyPatch):
    """Each begins with nothing typed, whatever its parameters; one that lacks a command fails."""
    name = "secrets admission"
    monkeypatch.setattr(typed, "_by_test", lambda: {"t.py::t": [name]})
    item: Any = SimpleNamespace(nodeid="t.py::t[1]")
    for types in (True, False):
        around = typed.pytest_runtest_call(item)
        next(around)
        if types:
            typed.TYPED.add(typed.named(name))
        with pytest.raises(StopIteration if types else pytest.fail.Exception, match=None if types else name):
            next(around)
