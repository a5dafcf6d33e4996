"""A backup that ends early leaves nothing: killed, interrupted, or out of room."""

import asyncio
import os
import shutil
import signal
import socket
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from admin.backup import backup as backups
from admin.backup.archive import DRAFT
from admin.backup.backup import BackupCall
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from tests.admin.backup.backed_up import backed_up
from tests.support.home import TEST_SECRET, settings_in
from tests.support.patience import wait_until
from tests.support.processes import begun, finished, parley

GONE = "unix:///nowhere/redis.sock"


@pytest.fixture
def installed(home: Path, redis_url: str, database_url: str) -> Settings:
    """An installation on SQLite and on Postgres."""
    return settings_in(home, redis_url=redis_url, database_url=database_url)


async def test_a_disk_without_room_is_refused_before_it_is_full(
    home: Path, redis_url: str, sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The platform may write to the same disk."""
    settings = settings_in(home, redis_url=redis_url)
    monkeypatch.setattr("admin.backup.sqlite_copy._free_bytes", lambda _: 4_096)
    with pytest.raises(StartupError, match=r"no room for the copy: .* 4,096 are free"):
        await backups.backup(settings, BackupCall(tmp_path / "made"), lambda _: None)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_takes_no_more_is_one_line(home: Path, redis_url: str, sqlite: Database, tmp_path: Path):
    """Whatever file it is that finds no room."""
    environment = {**os.environ, "PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
    environment["PARLEY_SECRET"] = TEST_SECRET
    fits = asyncio.run(backed_up(settings_in(home, redis_url=redis_url), tmp_path / "fits"))
    shutil.rmtree(tmp_path / "fits")
    for kibibytes, name in ((64, "made"), (fits.bytes // 1024 + 1, "made.tar")):
        argv = [
            "bash",
            "-c",
            f'ulimit -f {kibibytes}; exec "$@"',
            "-",
            *parley("backup", str(tmp_path / name)),
        ]
        done = finished(argv, environment)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("parley: ")
        assert "cannot" in done.stderr.splitlines()[-1]
        assert os.listdir(tmp_path) == []


async def test_a_killed_backup_leaves_no_target(home: Path, sqlite: Database, tmp_path: Path, redis_url: str):
    """Only a hidden draft, which the next one removes."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home / "silent.sock"))
        silent.listen()
        environment = {**os.environ, "PARLEY_HOME": str(home), "PARLEY_SECRET": TEST_SECRET}
        environment["PARLEY_REDIS_URL"] = f"unix://{home / 'silent.sock'}"
        process = await begun(parley("backup", str(tmp_path / "made")), environment)
        await wait_until(lambda: list(tmp_path.glob(f".{DRAFT}*/copy/ends")))
        process.kill()
        await process.wait()
    assert [name[: len(DRAFT) + 1] for name in os.listdir(tmp_path)] == [f".{DRAFT}"]
    await backed_up(settings_in(home, redis_url=redis_url), tmp_path / "made")
    assert os.listdir(tmp_path) == ["made"]


async def test_an_interrupted_backup_leaves_nothing(home: Path, sqlite: Database, tmp_path: Path):
    """Ctrl-C in the middle: the draft is gone with the command, which says so."""
    log = home / "said.log"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home / "silent.sock"))
        silent.listen()
        environment = {**os.environ, "PARLEY_HOME": str(home), "PARLEY_SECRET": TEST_SECRET}
        environment["PARLEY_REDIS_URL"] = f"unix://{home / 'silent.sock'}"
        process = await begun(parley("backup", str(tmp_path / "made")), environment, log)
        await wait_until(lambda: list(tmp_path.glob(f".{DRAFT}*/copy/ends")))
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    assert log.read_text().endswith("\ninterrupted: there is no backup. Say the same again\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_pg_dump_ends_with_a_killed_backup(
    installed: Settings, database: Database, tmp_path: Path, database_url: str
):
    """It would write on for hours into a draft that nobody will look at."""
    environment = {
        **os.environ,
        "PARLEY_HOME": str(installed.home),
        "PARLEY_DATABASE_URL": database_url,
        "PARLEY_REDIS_URL": GONE,
        "PARLEY_SECRET": TEST_SECRET,
    }

    def dumping() -> list[int]:
        found = psutil.process_iter(["pid", "name", "cmdline"])
        return [
            each.pid
            for each in found
            if each.info["name"] == "pg_dump" and str(tmp_path) in " ".join(each.info["cmdline"] or ())
        ]

    async with database.session() as session:
        await (await session.connection()).execute(text("LOCK TABLE message IN ACCESS EXCLUSIVE MODE"))
        process = await begun(parley("backup", str(tmp_path / "made")), environment)
        await wait_until(dumping)
        process.kill()
        await process.wait()
        await wait_until(lambda: not dumping())
    assert not (tmp_path / "made").exists()
    await backed_up(installed, tmp_path / "made")
    assert os.listdir(tmp_path) == ["made"]
