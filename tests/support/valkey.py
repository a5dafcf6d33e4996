"""A real Valkey for tests: on a Unix socket in a short folder, nothing written to disk."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import redis

from core.runtime.embedded import valkey_binary
from tests.support.patience import START_SECONDS, ended, watch_until


@contextmanager
def running_valkey(folder: Path) -> Generator[str]:
    """Its unix:// URL, for as long as the block runs."""
    socket = folder / "valkey.sock"
    options = [
        "--port",
        "0",
        "--unixsocket",
        str(socket),
        "--dir",
        str(folder),
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    with (folder / "valkey.log").open("wb") as log:
        process = subprocess.Popen([str(valkey_binary()), *options], stdout=log, stderr=log)
    try:
        _until_it_answers(socket, process)
        yield f"unix://{socket}"
    finally:
        process.terminate()
        ended(process)


def _until_it_answers(socket: Path, process: "subprocess.Popen[bytes]") -> None:
    client = redis.Redis(unix_socket_path=str(socket))

    def answers() -> bool:
        assert process.poll() is None, "Valkey ended at its start"
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.BusyLoadingError):
            return False

    try:
        watch_until(answers, START_SECONDS)
    finally:
        client.close()
