"""Folders for the Unix sockets of workers' engines.

vLLM makes them in the system's folder of temporary files, where they stay: a worker that was killed, or that
ends at once (engine/main.py), removes none. A folder is one worker's: Supervisor holds the lock of its node
and pool, and numbers its workers.
"""

import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from core.configuration.settings import Settings

VARIABLE = "VLLM_RPC_BASE_PATH"
FOLDER = "run"
POOL_CHARACTERS = 8  # of a hash: a socket's path has 107 bytes at most


@contextmanager
def engine_sockets(settings: Settings, index: int) -> Generator[dict[str, str]]:
    """A new folder for one worker's sockets, as variables of its environment; removed at the end with all in
    it. No variable where no socket can be made there: vLLM then uses its default."""
    folder = settings.home / FOLDER / f"{_prefix(settings)}{index}"
    try:
        yield {VARIABLE: str(folder)} if _takes_sockets(folder) else {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_sockets(settings: Settings) -> None:
    """Remove folders that a killed supervisor of this node and pool left."""
    for folder in (settings.home / FOLDER).glob(f"{_prefix(settings)}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _prefix(settings: Settings) -> str:
    """Prefix of folder names: supervisors of several nodes and pools share a data folder."""
    return sha256(f"{settings.node}\0{settings.pool}".encode()).hexdigest()[:POOL_CHARACTERS] + "-"


def _takes_sockets(folder: Path) -> bool:
    """True where sockets with names as long as vLLM's can be made. Long paths and some shared disks fail."""
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(folder / str(uuid4())))
    except OSError:
        return False
    return True
