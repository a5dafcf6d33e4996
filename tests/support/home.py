"""A data folder and settings for one test."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from core.configuration.settings import Settings

TEST_SECRET = "a secret of thirty-two bytes for tests"
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 1 << 30

_memory = MEMORY


def use_folders(disk: Path, memory: Path) -> None:
    """From now on what is temporary is made in these, by this process and those that it starts; but for
    pytest's own folders, which stay where they are found when a test has failed."""
    global _memory
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    os.environ["TMPDIR"] = tempfile.tempdir = str(disk)
    _memory = memory


def made_folder(name: str, *, in_memory: bool = False) -> Path:
    """See short_folder; nobody removes this one."""
    roomy = in_memory and _memory.is_dir() and shutil.disk_usage(_memory).free > MEMORY_BYTES_MIN
    return Path(tempfile.mkdtemp(prefix=f"parley-{name}-", dir=_memory if roomy else None))


@contextmanager
def short_folder(name: str, *, in_memory: bool = False) -> Generator[Path]:
    """A temporary folder with a path short enough for Unix sockets, which pytest's own is not.

    `in_memory`: where the system has room for that, so that no commit waits for a disk; nothing that a test
    does cuts the power. Not for programs, which may be forbidden there, nor for hard links.
    """
    folder = made_folder(name, in_memory=in_memory)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settings_in(home: Path, **overrides: object) -> Settings:
    """Settings that come from arguments only: nothing of the developer's shell reaches a test."""
    return Settings.model_validate({"home": home, "secret": TEST_SECRET, **overrides})


def lend_model(home: Path, folder: Path) -> None:
    """Put a provisioned model into PARLEY_HOME by hard links, so that `up` need not convert it again."""
    target = home / "models" / folder.parent.name / folder.name
    target.parent.mkdir(parents=True)
    shutil.copytree(folder, target, copy_function=os.link)
