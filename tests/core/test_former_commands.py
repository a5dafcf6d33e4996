"""A command's and an option's former name: taken as the new one is, and shown nowhere."""

import click
import pytest
from click.testing import CliRunner

from core.terminal.former_commands import RenamedCommands, RenamedOption


@click.group(cls=RenamedCommands, former={"release": "share"})
def pools() -> None:
    """Pools."""


@pools.command("share")
@click.option("--earlier", "kept", cls=RenamedOption, former="--kept", type=click.Choice(["a"]))
@click.option("--as-never-made", "mistake", cls=RenamedOption, former="--mistake", is_flag=True)
def share(kept: str | None, mistake: bool) -> None:
    """Share."""
    click.echo(f"{kept} {mistake}")


@pytest.mark.parametrize("command", ["share", "release"])
@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ([], "None False\n"),
        (["--earlier", "a", "--as-never-made"], "a True\n"),
        (["--kept", "a", "--mistake"], "a True\n"),
        (["--kept=a"], "a False\n"),
    ],
)
def test_a_former_word_does_what_the_new_one_does(command: str, typed: list[str], printed: str):
    """Scripts of the version before go on."""
    assert CliRunner().invoke(pools, [command, *typed]).output == printed


@pytest.mark.parametrize("typed", [["--help"], ["share", "--help"], ["share", "--kept", "b"]])
def test_a_former_word_is_shown_nowhere(typed: list[str]):
    """Neither in help nor where a value is refused."""
    output = CliRunner().invoke(pools, typed).output
    assert not [word for word in ("release", "--kept", "--mistake") if word in output], output
