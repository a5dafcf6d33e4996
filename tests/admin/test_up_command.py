"""The options of `parley up`, and how it is called again."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from admin import up as module
from admin.demo import Demo
from admin.own_pool import WantedPool
from admin.up import PlatformStart, _program
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files.file_lock import is_held
from tests.support.home import settings_in

ASKED = WantedPool("m", True, 1)


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
        ([], (None, "smollm2", False, "127.0.0.1", 8080)),
        (["--workers", "64", "--model", "m", "--json"], (64, "m", True, "127.0.0.1", 8080)),
        (["--workers", "1", "--host", "::1", "--port", "1"], (1, "smollm2", False, "::1", 1)),
        (["--port", "65535"], (None, "smollm2", False, "127.0.0.1", 65535)),
    ],
)
def test_options_are_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: tuple[Any, ...]
):
    """Of this command and of what it starts, wherever that runs."""
    seen = list[PlatformStart]()

    async def run(self: PlatformStart, _: asyncio.Event) -> None:
        seen.append(self)

    def as_service(settings: Settings, name: str, main: Any) -> None:
        assert name == "up"
        main(settings, asyncio.Event()).send(None)

    monkeypatch.setattr(PlatformStart, "run", run)
    monkeypatch.setattr(module.service, "run", as_service)
    monkeypatch.setenv("PARLEY_HOME", str(home / "." / "x" / ".."))
    ended = CliRunner().invoke(module.command, arguments)
    assert isinstance(ended.exception, StopIteration), ended.output
    (one,) = seen
    settings = one._settings
    asked = one._asked
    assert (asked.workers, asked.model, one._as_json, settings.host, settings.port) == told
    assert asked.model_named == ("--model" in arguments)
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


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The homes of those that came as far as their Redis, which is none."""
    begun = list[Path]()

    @asynccontextmanager
    async def redis(_: PlatformStart) -> AsyncGenerator[None]:
        yield

    async def serve(up: PlatformStart, _: asyncio.Event) -> None:
        home = up._settings.home
        assert is_held(home / "up.lock")
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        begun.append(home)

    monkeypatch.setattr(PlatformStart, "_redis", redis)
    monkeypatch.setattr(PlatformStart, "_serve", serve)
    return begun


async def test_a_start_holds_its_folder_and_says_when_it_is_over(
    home: Path, begun: list[Path], capsys: pytest.CaptureFixture[str]
):
    """Nobody else reads the folder; afterwards another may have it."""
    up = PlatformStart(settings_in(home / "new", port=0, console_port=0), ASKED, as_json=False)
    for count in (1, 2):
        await up.run(asyncio.Event())
        assert len(begun) == count
        assert not is_held(home / "new" / "up.lock")
    assert capsys.readouterr().err.count("stopped") == 2


@pytest.mark.parametrize("name", ["port", "console_port"])
async def test_a_port_in_use_is_told_before_anything_begins(home: Path, begun: list[Path], name: str):
    """Of the gateway or of the console."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports: dict[str, Any] = {"port": 0, "console_port": 0} | {name: taken.getsockname()[1]}
        up = PlatformStart(settings_in(home, **ports), ASKED, as_json=False)
        with pytest.raises(StartupError, match=f"PARLEY_{name.upper()}"):
            await up.run(asyncio.Event())
    assert begun == []
    assert not is_held(home / "up.lock")


async def test_what_is_prepared_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The schema comes first, and says nothing; the database is closed again."""
    asked, closed = list[str](), list[str]()

    class Record:
        name = "tiny"

    class Db:
        def __init__(self, url: str) -> None:
            self.url = url

        async def close(self) -> None:
            closed.append(self.url)

    async def migrated(url: str) -> None:
        asked.append(url)

    async def prepared(_: Db, settings: Settings, asked: WantedPool, say: Any, program: str) -> Record:
        assert settings.home == home
        say(f"{asked.model} is there, says {program.split()[-1]}")
        return Record()

    async def demo_key(_: Db, path: Path) -> Demo | None:
        assert path == home / "up.json"
        if closed:
            raise StartupError("no")

    for name, instead in (("migrate", migrated), ("Database", Db), ("ready_pool", prepared)):
        monkeypatch.setattr(module, name, instead)
    monkeypatch.setattr(module, "demo_key", demo_key)
    up = PlatformStart(settings_in(home), ASKED, as_json=False)
    assert await up._prepare() == ("tiny", None)
    with pytest.raises(StartupError):
        await up._prepare()
    url = settings_in(home).database_endpoint
    assert asked == closed == [url] * 2
    said = [line.split(" s  ")[1] for line in capsys.readouterr().err.splitlines()]
    assert said == [f"m is there, says {_program(settings_in(home)).split()[-1]}"] * 2
