"""Commands that a message or an example tells somebody to type are complete."""

import re
from pathlib import Path

import click

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
