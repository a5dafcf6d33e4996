"""Commands that a message or an example tells somebody to type are complete."""

import re
from pathlib import Path
from shlex import split

import click

from core.errors import Refusal, see
from core.terminal.refused_text import refused_text
from tests.billing.cli.audited_office import COMMANDS, named

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "billing", "engine", "server", "admin")


def told() -> list[tuple[str, str]]:
    """Where, and what is to be typed."""
    found: list[tuple[str, str]] = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found += [(path.name, line) for line in re.findall(r"see `parley ([^`\n]+)`", path.read_text())]
    compose = (ROOT / "docker-compose.yml").read_text()
    return found + [("compose", line) for line in re.findall(r"run --rm parley (.+)", compose)]


def test_what_is_told_to_be_typed_has_the_options_it_needs():
    """`parley keys list` alone says that --tenant is missing; what is long asks for its --help."""
    lines = told()
    assert len(lines) > 15
    for where, line in lines:
        command = COMMANDS[named(line)]
        needed = [each for each in command.params if isinstance(each, click.Option) and each.required]
        typed = set(line.split())
        assert "--help" in typed or all(typed.intersection(each.opts) for each in needed), (where, line)


def test_a_refusal_tells_a_command_that_can_be_typed():
    """What the operation is asked with is an option of its command, or its argument."""
    asked: set[tuple[str, str]] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for operation, given in re.findall(r'\bsee\("([\w.]+)", (\w[^)]*)\)', path.read_text()):
                asked |= {(operation, name) for name in re.findall(r"(\w+)=", given)}
    assert ("pools.drain", "pool") in asked
    for operation, name in sorted(asked):
        refusal = Refusal("bad_request", "no", see=see(operation, **{name: "x"}))
        line = split(refused_text(refusal).split("`parley ")[1].rstrip("`"))
        command = COMMANDS[named(" ".join(line))]
        options = [
            each for each in command.params if isinstance(each, click.Option) and f"--{name}" in each.opts
        ]
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        assert options if f"--{name}" in line else arguments, (operation, name, line)
