"""Each command is typed by the test that tests/commands.yaml names for it: when such a test runs, it is seen
whether it did."""

from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from core.cli import parley

LIST = Path(__file__).parent.parent / "commands.yaml"
TYPED = set[click.Command]()  # by the test that runs, in this process: --help and what is refused are none
AS_PROCESSES = "as processes"


def pytest_configure() -> None:
    """From now on each command that runs is noted."""
    run = click.Command.invoke

    def noted(self: click.Command, ctx: click.Context) -> Any:
        TYPED.add(self)
        return run(self, ctx)

    click.Command.invoke = noted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that types less than it is listed for fails."""
    TYPED.clear()
    yield
    if lacking := lacks(item.nodeid.partition("[")[0], TYPED):
        pytest.fail(f"tests/commands.yaml names this test for what it does not type: {', '.join(lacking)}")


def lacks(test: str, typed: set[click.Command]) -> list[str]:
    """The commands that a test is listed for, and were not typed."""
    return [name for name in _by_test().get(test, []) if named(name) not in typed]


@cache
def listed() -> dict[str, str]:
    """The test of each command that runs in the tests' own process."""
    return {name: test for name, test in yaml.safe_load(LIST.read_text()).items() if name != AS_PROCESSES}


@cache
def listed_processes() -> dict[str, str]:
    """The test of each command that is a process of its own: nobody looks inside."""
    return yaml.safe_load(LIST.read_text())[AS_PROCESSES]


@cache
def _by_test() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, test in listed().items():
        found.setdefault(test, []).append(name)
    return found


def named(name: str) -> click.Command:
    """A command by what is typed."""
    command: click.Command = parley
    context = click.Context(parley)
    for word in name.split():
        assert isinstance(command, click.Group), name
        below = command.get_command(context, word)
        assert below is not None, name
        command = below
    return command
