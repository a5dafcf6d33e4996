"""Every command has a test that types it, beyond the sweep of what changes something."""

from pathlib import Path

import click
from click.testing import CliRunner

from core.cli import parley
from tests.billing.test_audited_commands import leaves
from tests.support import typed
from tests.support.home import TEST_SECRET

ROOT = Path(__file__).parents[2]


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
