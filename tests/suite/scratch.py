"""Tests of the suite's own plugins run a small suite of their own: `python -m tests.suite.scratch FOLDER …`.

As a fork it costs no second interpreter. Its tests are texts, for they leak and hang.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.processes import finished

ROOT = Path(__file__).parent.parent.parent
CONFTEST = """
import pytest
from tests.support import hangs, leaks, pauses, shared
hangs.UNWIND_SECONDS = leaks.GONE_SECONDS = 0.3

def pytest_configure(config):
    for part in (shared, pauses, leaks, hangs):
        config.pluginmanager.register(part, part.__name__)
"""
INI = f"""[pytest]
addopts = -p no:valkey -p no:randomly -p no:cacheprovider -p no:hypothesispytest
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
pythonpath = {ROOT}
timeout_func_only = true
"""


def ran(folder: Path, tests: str, *options: str, **environment: str) -> tuple[int, str]:
    """The exit code and the output of a run of these tests."""
    (folder / "pytest.ini").write_text(INI)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    argv = [sys.executable, "-m", "tests.suite.scratch", str(folder), *options]
    given: Mapping[str, str] = {**os.environ, **environment}
    done = finished(argv, given)
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    sys.exit(pytest.main(["-ra", "--rootdir", sys.argv[1], *sys.argv[1:]]))
