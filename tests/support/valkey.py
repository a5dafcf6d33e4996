"""A real Valkey for tests: on a Unix socket in a short folder, nothing written to disk."""

import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import redis

from core.embedded import valkey_binary

START_SECONDS_MAX = 10.0


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
        process.wait(START_SECONDS_MAX)


def _until_it_answers(socket: Path, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    client = redis.Redis(unix_socket_path=str(socket))
    try:
        while True:
            try:
                client.ping()
                return
            except (redis.ConnectionError, redis.BusyLoadingError):
                assert process.poll() is None, "Valkey ended at its start"
                assert time.monotonic() < deadline, "Valkey does not answer"
                time.sleep(0.01)
    finally:
        client.close()
