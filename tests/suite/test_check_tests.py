"""scripts/check_tests.py: what depends on real time is found, and what waits patiently is let be."""

from pathlib import Path

import pytest

from scripts.check_tests import imported_tests, problems_of

TIMES = {"stuck_seconds", "drain_seconds_max", "worker_lease_ms"}
REFUSED = [
    "async with asyncio.timeout(SECONDS): pass",
    "await asyncio.wait_for(task, 20)",
    "await asyncio.sleep(0.1)",
    "await asyncio.sleep(delay)",
    "time.sleep(1)",
    "began = time.monotonic()",
    "assert perf_counter() - began < 1",
    "now = loop.time()",
    "subprocess.run(command, timeout=60)",
    "process.communicate(timeout=LOCAL_SECONDS)",
    "process.wait(10)",
    "await wait_until(check, 30)",
    "await wait_until(check, seconds=LOCAL_SECONDS)",
    "await crew.ended(id, 2 * LOCAL_SECONDS)",
    "await pause(0.5)",
    "pytestmark = pytest.mark.timeout(240)",
    "settings(deadline=None)",
    "settings.model_copy(update={'stuck_seconds': 1.2})",
    "fleet(PARLEY_DRAIN_SECONDS_MAX='4')",
    "Settings(worker_lease_ms=4_999)",
    "monkeypatch.setattr(door, 'KEEP_SECONDS', 0.2)",
    "monkeypatch.setattr('core.web.http.HEAD_SECONDS_MAX', 0.2)",
    "await peer.send(options={'deadline_ms': 3_000})",
]
PATIENT = [
    "await asyncio.sleep(0)",
    "async with patience(): pass",
    "await wait_until(check)",
    "await wait_until(check, START_SECONDS)",
    "await soon(task, 2 * HANG_SECONDS)",
    "await pause(QUIET_SECONDS)",
    "subprocess.run(command)",
    "shown = ', '.join(names)",
    "settings(max_examples=20)",
    "settings.model_copy(update={'stuck_seconds': 5})",
    "settings.model_copy(update={'stuck_seconds': 0, 'created_ms': 1})",
    "Settings(worker_lease_ms=5_000)",
    "monkeypatch.setattr(door, 'KEEP_SECONDS', 600)",
    "monkeypatch.setattr(door, 'SOCKETS_MAX', 3)",
    "await peer.send(options={'deadline_ms': 600_000})",
]


@pytest.mark.parametrize("source", REFUSED)
def test_what_depends_on_real_time_is_found(source: str) -> None:
    """Each is named with its file."""
    (problem,) = problems_of("tests/x.py", f"LOCAL_SECONDS = 3.0\n{source}\n", TIMES)
    assert problem.startswith("tests/x.py ")


@pytest.mark.parametrize("source", PATIENT)
def test_what_waits_patiently_is_let_be(source: str) -> None:
    """So are names of the tests' support."""
    assert problems_of("tests/x.py", source, TIMES) == set()


def test_every_folder_of_tests_is_a_package():
    """Else pytest imports `tests/server/requests` as `requests`, in place of the library of that name."""
    root = Path(__file__).parents[1]
    folders = {folder for test in root.rglob("test_*.py") for folder in test.relative_to(root).parents}
    assert [folder for folder in sorted(folders) if not (root / folder / "__init__.py").exists()] == []


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("from tests.suite.test_lua import a_script", ["tests.suite.test_lua.a_script"]),
        ("from tests.suite import scratch, test_lua", ["tests.suite.test_lua"]),
        ("import tests.suite.test_lua", ["tests.suite.test_lua"]),
        ("if True:\n    from tests.suite.test_lua import HoldCall as C", ["tests.suite.test_lua.HoldCall"]),
        ("from tests.suite.scratch import ran\nfrom tests.support import living\nimport tests", []),
        ("from tests.support.tests import test_it\nfrom chaos.test_lua import x", []),
    ],
)
def test_what_imports_a_test_is_found(text: str, imported: list[str]):
    """A test is read where it stands, and moved or struck out without breaking another one."""
    assert imported_tests(text) == imported
