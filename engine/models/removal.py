"""Deletes the files of a version of a model that was removed."""

import shutil
from pathlib import Path

from core.observability.error_facts import error_summary
from core.observability.telemetry import logger

log = logger(__name__)


def remove_files(home: Path, folder: Path) -> bool:
    """Delete a version's folder. False where it is not below this machine's `models/`, or cannot be deleted,
    which is logged. What a folder links to stays."""
    models = (home / "models").resolve()
    if folder.is_symlink() or folder.resolve().parent.parent != models or not folder.is_dir():
        return False
    try:
        shutil.rmtree(folder)
    except OSError as error:
        log.error("models.delete_failed", folder=str(folder), error=error_summary(error))
        return False
    return True
