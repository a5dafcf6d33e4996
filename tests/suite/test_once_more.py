"""CI runs what failed once more, where it is little."""

from pathlib import Path

import pytest

from scripts.once_more import RERUN_MAX, main

INI = "[pytest]\naddopts = -q -p no:valkey -p no:asyncio -p no:hypothesispytest -p no:randomly\n"
PASSES = "def test_passes(): pass\n"
ONCE = """
from pathlib import Path
def test_fails_once():
    ran = Path("ran")
    before = ran.exists()
    ran.touch()
    assert before
"""
ALWAYS = "def test_fails(): assert False\n"
MANY = f"""
import pytest
@pytest.mark.parametrize("n", range({RERUN_MAX + 1}))
def test_fails(n): assert False
"""
OTHER_NAME = """
import pytest
from pathlib import Path
name = "again" if Path("ran").exists() else "first"
@pytest.mark.parametrize("n", [name])
def test_another_name(n):
    Path("ran").touch()
    assert n == "again"
"""


@pytest.mark.parametrize(
    ("tests", "code", "runs_again", "said"),
    [
        (PASSES, 0, False, ""),
        (ONCE + PASSES, 0, True, "green the second time only:\n  test_it.py::test_fails_once\n"),
        (ONCE + ALWAYS, 1, True, "once more:\n  test_it.py::test_fails\n  test_it.py::test_fails_once\n"),
        (MANY, 1, False, ""),
        (PASSES + "missing", 2, False, ""),  # it cannot be collected
        (ONCE + OTHER_NAME, 1, True, "once more:"),  # one of the two is not found again
    ],
)
def test_few_that_failed_run_once_more(
    tests: str,
    code: int,
    runs_again: bool,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Green then is green. Many are no bad luck; nor is what did not run a second time."""
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_it.py").write_text(tests)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARLEY_TEST_RESULTS", str(tmp_path / "results"))
    assert main([]) == code
    assert (tmp_path / "results" / "junit.xml").exists()
    assert (tmp_path / "results" / "junit-again.xml").exists() == runs_again
    assert said in capsys.readouterr().out
    assert ("green" in said) == (runs_again and not code)
