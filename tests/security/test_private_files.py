"""What an installation writes is for its own user alone."""

import os
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from core.files.private_files import keep_private
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.sql.database import migrate
from tests.support.home import settings_in


@pytest.fixture(autouse=True)
def usual_umask() -> Generator[None]:
    """Files that anybody may read, as most systems make them, before the test and after it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(home: Path) -> dict[str, str]:
    """What another user may do something with, by name. Sockets and all."""
    found = (path for path in (home, *home.rglob("*")) if not path.is_symlink())
    modes = {str(path.relative_to(home)): stat.S_IMODE(path.lstat().st_mode) for path in found}
    return {name: oct(mode) for name, mode in modes.items() if mode & 0o077}


def names_in(home: Path) -> set[str]:
    """Of all files and folders."""
    return {path.name for path in home.rglob("*")}


async def test_what_is_made_is_private(home: Path):
    """The folder, the database with its write-ahead log, Valkey's files and socket, logs."""
    own = settings_in(home).model_copy(update={"secret": None})
    keep_private(home)
    ensure_home(own)
    await migrate(own.database_endpoint)
    valkey = EmbeddedValkey(own)
    await valkey.start()
    try:
        own.require_edge()
        assert {"parley.db", "secret", "redis.sock", "appendonlydir", "valkey.log"} <= names_in(home)
        assert open_to_others(home) == {}
    finally:
        await valkey.stop()


def test_the_secret_is_private_before_anything_else_is(home: Path):
    """Whoever makes it first, under whatever umask, and while it is written too: a script may ask for it."""
    own = settings_in(home).model_copy(update={"secret": None})
    made: list[int] = []
    write = Path.write_text

    def written(path: Path, text: str) -> int:
        made.append(stat.S_IMODE(path.stat().st_mode))
        return write(path, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_text", written)
        own.require_edge()
    assert made == [0o600]
    assert stat.S_IMODE((home / "secret").stat().st_mode) == 0o600


def test_what_an_older_version_made_is_tightened(home: Path):
    """At the start of any process. What is not Parley's stays as it is, and so does what a link leads to."""
    (home / "redis" / "appendonlydir").mkdir(parents=True)
    (home / "models" / "tiny").mkdir(parents=True)
    made = ("parley.db", "parley.db-wal", "redis/appendonlydir/x.aof", "logs/gateway.log", "up.json")
    kept = ("notes.txt", "models/tiny/weights")
    (home / "logs").mkdir()
    for name in (*made, *kept):
        (home / name).write_text("")
    (home / "logs" / "elsewhere").symlink_to(home / "notes.txt")
    home.chmod(0o755)
    keep_private(home)
    assert set(open_to_others(home)) == {*kept, "models", "models/tiny"}


def test_a_folder_that_holds_nothing_of_ours_is_left_alone(home: Path):
    """PARLEY_HOME of a gateway with Postgres may be anybody's."""
    home.chmod(0o755)
    (home / "notes.txt").write_text("")
    keep_private(home)
    assert set(open_to_others(home)) == {".", "notes.txt"}


BEGIN = """
import os, core.cli, core.runtime.service
from core.configuration.settings import Settings
async def nothing(settings, stop): pass
core.cli.in_one_line(lambda: None)
print(os.umask(0o022))
core.runtime.service.run(Settings(), "nothing", nothing)
print(os.umask(0o022))
"""


def test_each_command_and_each_process_begins_so():
    """Told by their umask."""
    done = subprocess.run([sys.executable, "-c", BEGIN], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(0o077)] * 2, done.stderr


def test_a_home_that_does_not_exist_yet_is_not_made(home: Path):
    """There is nothing to tighten."""
    keep_private(home / "not yet")
    assert not (home / "not yet").exists()
