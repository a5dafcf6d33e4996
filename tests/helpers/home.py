"""A data folder and settings for one test."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from core.settings import Settings


@contextmanager
def short_folder(name: str) -> Generator[Path]:
    """A temporary folder with a path short enough for Unix sockets, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix=f"parley-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settings_in(home: Path, **overrides: object) -> Settings:
    """Settings that come from arguments only: nothing of the developer's shell reaches a test."""
    return Settings.model_validate({"home": home, "secret": "a secret for tests", **overrides})


def lend_model(home: Path, folder: Path) -> None:
    """Put a provisioned model into PARLEY_HOME by hard links, so that `up` need not convert it again."""
    target = home / "models" / folder.parent.name / folder.name
    target.parent.mkdir(parents=True)
    shutil.copytree(folder, target, copy_function=os.link)
