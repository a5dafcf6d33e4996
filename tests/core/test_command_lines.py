"""The list of commands, which imports none of them."""

import os
import sys

import click
from click.testing import CliRunner

from core.cli import parley
from core.command_lines import COMMAND_LINES
from tests.support.patience import finished

LINE_CHARACTERS_MAX = 300
HELP = """
import contextlib, io, sys
import core.cli

def said(*words):
    sys.argv = ["parley", *words]
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        core.cli.main()
    return printed.getvalue()

listed = said("--help")
assert "biller        Post the usage of ended requests" in listed, listed
assert said("-h") == listed
packages = ("core", "billing", "engine", "server", "admin", "parley_client")
ours = {name for name in sys.modules if name.partition(".")[0] in packages}
print(len(sys.modules), *sorted(ours))
assert said("keys", "create", "-h").startswith("Usage: parley keys create")
"""


def test_each_command_has_its_line():
    """The first sentence of its own help; what is no command any more has none."""
    context = click.Context(parley)
    own: dict[str, str] = {}
    for name in parley.list_commands(context):
        command = parley.get_command(context, name)
        assert command is not None
        own[name] = command.get_short_help_str(LINE_CHARACTERS_MAX)
    assert own == COMMAND_LINES


def test_the_list_of_commands_imports_none():
    """Nor what commands need: no settings, no SQL, no Redis, no tables. This is counted, since each import is
    waited for."""
    environment = {**os.environ, "PARLEY_POOL": "default", "COLUMNS": "80"}
    environment.pop("PYTHONPATH", None)  # a test's processes begin with chaos's hooks in it
    done = finished([sys.executable, "-c", HELP], env=environment)
    assert done.returncode == 0, done.stderr
    modules, *ours = done.stdout.split()
    assert int(modules) < 350
    assert ours == [
        "core",
        "core.actor",
        "core.api_address",
        "core.cli",
        "core.command_lines",
        "core.errors",
        "core.files",
        "core.files.private_files",
        "core.terminal",
        "core.terminal.safe_text",
        "core.terminal.terminal",
    ]


def test_a_misspelt_command_names_the_one_that_is_meant():
    """As click does of subcommands; what is like none gets no guess."""
    said = CliRunner().invoke(parley, ["tenant", "list"])
    assert (said.exit_code, "Did you mean 'tenants'?" in said.stderr) == (2, True)
    assert "mean" not in CliRunner().invoke(parley, ["xyzzy"]).stderr
