"""`parley overview` as it prints."""

import json
import os
from pathlib import Path

import pytest

from admin.overview.command import page
from admin.overview.show import overview_of
from core.sql.database import Database
from core.terminal.terminal_tables import print_blocks
from tests.admin.overview.platforms import a_platform, a_pool, a_worker, waiting
from tests.support.ports import free_ports
from tests.support.processes import finished, parley

FULL = a_pool("eu-1", [a_worker(running=16), a_worker("w5", "sick")], waiting(37), pace_ms=12_000.0)


def test_the_sentence_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Then what would help, pools, what waits, the books and what happened."""
    print_blocks(*page(overview_of(a_platform(FULL, owners={"eu-1": "t1"}))))
    told = capsys.readouterr().out
    parts = ["Pool eu-1 is full: 37", "All 16 slots", "parley workers list", "w5 lost", "9.8 s", "R8", "by"]
    assert sorted(parts, key=told.index) == parts


def test_exit_codes_tell_scripts(sqlite: Database, home: Path, redis_url: str) -> None:
    """1 where nothing is known, as where somebody is hurt; a warning is none."""
    for redis, code, state in (
        (redis_url, 0, "warn"),
        (f"redis://127.0.0.1:{free_ports(1)[0]}", 1, "unknown"),
    ):
        environment = {**os.environ, "PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis}
        done = finished(parley("overview", "--json"), environment)
        assert done.returncode == code, done.stderr
        assert json.loads(done.stdout)["verdict"]["state"] == state
