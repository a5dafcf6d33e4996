"""What all workers of one run share, made by whoever comes first and ended by the run's own process."""

import asyncio
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from chaos.installation import postgres
from core.sql.database import migrate
from tests.support import living
from tests.support.home import made_folder, use_folders

FOLDERS = pytest.StashKey[list[Path]]()
COMPILED = Path(__file__).parent.parent.parent / ".cache" / "compiled"
MANY = 2_000  # so many tests are a whole run's
TEMPLATE = "template_parley"
MADE = "made"


def pytest_configure(config: pytest.Config) -> None:
    """The run's folders: one on the disk, for programs; one in memory where there is room."""
    given: Any = getattr(config, "workerinput", {}).get("parley_folders")
    folders = given or [made_folder("run"), made_folder("run", in_memory=True)]
    config.stash[FOLDERS] = [Path(each) for each in folders]
    os.environ[living.MARK] = f"{config.stash[FOLDERS][0].name}.{worker_name(config)}"
    if runs_tests(config):
        for folder in config.stash[FOLDERS]:
            folder.chmod(mode_of_folders())
        for folder in own_folders(config):
            folder.mkdir(mode=mode_of_folders())
        use_folders(*own_folders(config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker gets the folders of the process that started it."""
    node.workerinput["parley_folders"] = [str(each) for each in node.config.stash[FOLDERS]]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """In a fresh checkout one worker compiles all files first; the others find them compiled."""
    if not is_worker(session.config) or COMPILED.exists():
        return (yield)
    COMPILED.parent.mkdir(exist_ok=True)
    with FileLock(f"{COMPILED}.lock"):
        if not COMPILED.exists():
            outcome = yield
            if len(session.items) > MANY:
                COMPILED.touch()
            return outcome
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """All workers have ended: so does what they shared."""
    if is_worker(config) or FOLDERS not in config.stash:
        return
    disk = config.stash[FOLDERS][0] / "postgres"
    if (disk / "data" / "postmaster.pid").exists():
        postgres.stop(disk)
    remove_folders(config)


def remove_folders(config: pytest.Config) -> None:
    """With all that is in them."""
    for folder in config.stash[FOLDERS]:
        shutil.rmtree(folder, ignore_errors=True)


def is_worker(config: pytest.Config) -> bool:
    """Whether this process runs a part of the tests for another one."""
    return hasattr(config, "workerinput")


def runs_tests(config: pytest.Config) -> bool:
    """Whether this process runs tests itself."""
    return is_worker(config) or not getattr(config.option, "numprocesses", None)


def mode_of_folders() -> int:
    """Root's Postgres is another user, who passes through them."""
    return 0o711 if os.geteuid() == 0 else 0o700


def own_folders(config: pytest.Config) -> list[Path]:
    """This process's folders for what is temporary: on the disk, and in memory where there is room."""
    return [folder / worker_name(config) for folder in config.stash[FOLDERS]]


def worker_name(config: pytest.Config) -> str:
    """gw0, gw1 …; `alone` without workers."""
    return os.environ.get("PYTEST_XDIST_WORKER", "alone") if is_worker(config) else "alone"


def shared_postgres(config: pytest.Config) -> Path:
    """The socket folder of the run's Postgres, which holds a migrated database `template_parley`."""
    return _once(config.stash[FOLDERS][0] / "postgres", _start_postgres)


def shared_sqlite(config: pytest.Config) -> Path:
    """The run's migrated SQLite file, to be copied."""
    return _once(config.stash[FOLDERS][1] / "sqlite", _migrate_sqlite) / "template.db"


def _once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, once it was made: by this worker or by another. A failed one is made again."""
    with FileLock(f"{folder}.lock"):
        if not (folder / MADE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / MADE).touch()
    return folder


def _migrate_sqlite(folder: Path) -> None:
    asyncio.run(migrate(f"sqlite+aiosqlite:///{folder / 'template.db'}"))


def _start_postgres(folder: Path) -> None:
    with living.marked_as(f"{folder.parent.name}.all"):  # it is no single worker's
        postgres.start(folder)
    asyncio.run(postgres.execute(folder, f"CREATE DATABASE {TEMPLATE}"))
    asyncio.run(migrate(postgres.url(folder, TEMPLATE)))
