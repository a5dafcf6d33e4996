"""The options of `parley up`, and how it is called again."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from admin import up as module
from admin.up import Up, _program
from core.settings import Settings
from tests.support.home import settings_in


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the command sets is put back."""
    for name in ("PARLEY_HOST", "PARLEY_PORT", "PARLEY_HOME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], (1, "smollm2", False, "127.0.0.1", 8080)),
        (["--workers", "64", "--model", "m", "--json"], (64, "m", True, "127.0.0.1", 8080)),
        (["--workers", "1", "--host", "::1", "--port", "1"], (1, "smollm2", False, "::1", 1)),
        (["--port", "65535"], (1, "smollm2", False, "127.0.0.1", 65535)),
    ],
)
def test_options_are_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: tuple[Any, ...]
):
    """Of this command and of what it starts, wherever that runs."""
    seen = list[Up]()

    async def run(self: Up, _: asyncio.Event) -> None:
        seen.append(self)

    def as_service(settings: Settings, name: str, main: Any) -> None:
        assert name == "up"
        main(settings, asyncio.Event()).send(None)

    monkeypatch.setattr(Up, "run", run)
    monkeypatch.setattr(module.service, "run", as_service)
    monkeypatch.setenv("PARLEY_HOME", str(home / "." / "x" / ".."))
    ended = CliRunner().invoke(module.command, arguments)
    assert isinstance(ended.exception, StopIteration), ended.output
    (one,) = seen
    settings = one._settings
    assert (one._workers, one._model, one._as_json, settings.host, settings.port) == told
    assert os.environ["PARLEY_HOME"] == str(settings.home)


@pytest.mark.parametrize(
    "wrong", [["--workers", "0"], ["--workers", "65"], ["--port", "0"], ["--port", "65536"]]
)
def test_options_out_of_range_are_refused(wrong: list[str]):
    """Before anything is started."""
    assert CliRunner().invoke(module.command, wrong).exit_code == 2


def test_the_program_is_called_again_as_it_was(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """By its path where that is one, and for a data folder that is not the usual one."""
    monkeypatch.setattr("sys.argv", ["parley-that-is-nowhere"])
    usual = settings_in(home).model_copy(update={"home": Path.home() / ".parley"})
    assert _program(usual) == "parley"
    assert _program(settings_in(home)) == f"PARLEY_HOME={home} parley"
    program = tmp_path / "my parley"
    program.touch(0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    assert _program(usual) == f"'{program}'"
