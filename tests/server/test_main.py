"""`parley gateway` as a process: one clear line where it cannot start, and an orderly end."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from tests.support.patience import START_SECONDS, said, wait_until
from tests.support.ports import free_ports
from tests.support.processes import finished, parley


def start(home: Path, **environment: str) -> "subprocess.Popen[str]":
    """As operators start it, in an interpreter of its own; its stderr captured."""
    return subprocess.Popen(
        parley("gateway"),
        env=os.environ | {"PARLEY_HOME": str(home), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def failure(home: Path, **environment: str) -> str:
    """The one line that a process which could not start leaves."""
    ended = finished(parley("gateway"), {**os.environ, "PARLEY_HOME": str(home), **environment})
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


@pytest.mark.usefixtures("sqlite")
def test_a_port_in_use_is_one_line(home: Path, redis_url: str):
    """It names the address and the setting that chooses another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = failure(home, PARLEY_PORT=port, PARLEY_REDIS_URL=redis_url)
    assert port in line
    assert "PARLEY_PORT" in line


@pytest.mark.usefixtures("sqlite")
def test_no_redis_is_one_line(home: Path):
    """It names where Redis was looked for."""
    line = failure(home, PARLEY_PORT="0")
    assert "redis.sock" in line


def test_no_schema_is_one_line(home: Path, redis_url: str):
    """It names the command that makes one."""
    home.mkdir(exist_ok=True)
    line = failure(home, PARLEY_PORT="0", PARLEY_REDIS_URL=redis_url)
    assert "parley db migrate" in line or "database" in line


async def test_sigterm_ends_it_well(sqlite: Database, home: Path, settings: Settings):
    """Exit code 0."""
    [port] = free_ports(1)
    process = start(home, PARLEY_PORT=str(port), PARLEY_REDIS_URL=settings.redis_endpoint)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

            async def ready() -> int | None:
                try:
                    return (await client.get("/readyz")).status_code
                except httpx.TransportError:
                    return None

            assert await wait_until(ready, START_SECONDS) == 503
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = said(process)
    assert process.returncode == 0, log
