"""Who makes a change."""

import asyncio

import click
import pytest
from click.testing import CliRunner

from core.actor import Author, acting_as, current_author, process_user
from core.cli import Commands, parley


def test_without_a_name_it_is_the_user_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says that user is called."""
    user = process_user()
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody else")
    assert current_author() == Author(user, "process")


async def test_a_name_holds_for_the_task_and_those_it_starts() -> None:
    """And for no other, nor longer."""

    async def asked() -> Author:
        return current_author()

    with acting_as(Author("x" * 300, "api")):
        assert await asyncio.create_task(asked()) == Author("x" * 200, "api")
    assert (await asked()).source == "process"


def test_a_command_names_its_author_beside_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has the machine cannot leave its own name out."""
    seen: list[Author] = []

    def get_command(self: Commands, ctx: click.Context, cmd_name: str) -> click.Command:
        return click.Command(cmd_name, callback=lambda: seen.append(current_author()))

    monkeypatch.setattr(Commands, "get_command", get_command)
    for arguments in (["change"], ["--author", "Ann, ticket 7", "change"]):
        assert CliRunner().invoke(parley, arguments).exit_code == 0
    user = process_user()
    assert seen == [Author(user, "command"), Author(f"Ann, ticket 7 ({user})", "command")]
    assert current_author().source == "process"
