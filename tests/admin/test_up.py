"""`parley up` that cannot start says why in one line and exits with 1."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.files import file_lock
from core.runtime.embedded import ensure_home
from tests.support.home import settings_in
from tests.support.platform import processes_of
from tests.support.ports import free_ports
from tests.support.processes import finished, parley


def refused(home: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """The one line that `parley up` leaves on stderr."""
    port, console = free_ports(2)
    base = {"PARLEY_HOME": str(home), "PARLEY_PORT": str(port), "PARLEY_CONSOLE_PORT": str(console)}
    ended = finished(parley("up", *arguments), {**os.environ, **base, **(environment or {})})
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout == ""
    assert not processes_of(home)
    lines = [line for line in ended.stderr.splitlines() if line.startswith("parley")]
    assert len(lines) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    return lines[0]


def test_a_port_in_use(home: Path):
    """The line names the variable that chooses another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = {"PARLEY_PORT": str(taken.getsockname()[1])}
        assert "Choose another port with PARLEY_PORT" in refused(home, environment=environment)


def test_two_on_one_home(home: Path):
    """The second leaves the first alone."""
    ensure_home(settings_in(home))
    lock = file_lock.acquire(home / "up.lock", 0)
    assert lock is not None
    assert "another `parley up` runs" in refused(home)
    os.close(lock)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("/no/such/folder", "there is no model folder"),
        ("no-such-model", "there is no model 'no-such-model'"),
        (str(Path(__file__).parent), "has no config.json, no tokenizer.json"),
    ],
)
def test_a_missing_model(home: Path, model: str, told: str):
    """Neither the embedded Valkey nor anything else is left running."""
    assert told in refused(home, "--model", model)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("PARLEY_PORT", "many", "PARLEY_PORT: Input should be a valid integer"),
        ("PARLEY_PORT", "70000", "PARLEY_PORT: Input should be less than or equal to 65535"),
        ("PARLEY_REDIS_URL", "nonsense", "PARLEY_REDIS_URL is not a Redis URL"),
        ("PARLEY_REDIS_URL", "unix:///no/such.sock", "Redis does not answer"),
        ("PARLEY_DATABASE_URL", "nonsense", "the database URL cannot be parsed"),
        ("PARLEY_HOME", __file__, "is not a folder"),
    ],
)
def test_a_wrong_setting(home: Path, name: str, value: str, told: str):
    """The line names the setting."""
    assert told in refused(home, environment={name: value})
