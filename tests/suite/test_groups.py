"""How the suite is cut into groups that run side by side."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import groups
from tests.support.groups import BROWSER, ENGINE, LONGEST, group_of, pytest_collection_modifyitems, turn_of

ROOT = Path(__file__).parents[2]
FILES = {
    "test_one.py": "def test_a(): pass\ndef test_b(): pass\n",
    "test_two.py": "import pytest\n@pytest.mark.last\ndef test_a(): pass\ndef test_b(): pass\n",
    "test_three.py": "def test_a(): pass\n",
}
CONFTEST = """
pytest_plugins = ['tests.support.groups']
def pytest_configure(config):
    config.addinivalue_line('markers', 'last: x')
"""


def test_what_starts_an_engine_is_one_group() -> None:
    """Whole files, and the one test of a file that starts none else."""
    assert group_of("tests/system/test_answers.py::test_x[a]") == ENGINE
    assert group_of("tests/browser/test_chat_page.py::test_x") == ENGINE
    assert group_of("tests/chaos/test_run.py::test_a_kill_of_a_real_vllm_worker_loses_nothing") == ENGINE
    assert group_of("tests/chaos/test_run.py::test_poison_is_singled_out") == "tests/chaos/test_run.py"


def test_files_are_groups_and_the_browsers_are_one() -> None:
    """One Chromium for all of them."""
    assert group_of("tests/browser/test_page.py::test_x") == group_of("tests/browser/test_markdown.py::y")
    assert group_of("tests/browser/test_page.py::test_x") == BROWSER
    assert (
        group_of("tests/core/test_tls.py::test_x[tests/system/test_answers.py]") == "tests/core/test_tls.py"
    )


def test_the_longest_groups_start_first() -> None:
    """The engines' before all; those of no name last. A file that is gone has none."""
    names = ["new", LONGEST[3], BROWSER, "newer", ENGINE]
    assert sorted(names, key=turn_of) == [ENGINE, BROWSER, LONGEST[3], "new", "newer"]
    assert [file for file in LONGEST[2:] if not (ROOT / file).is_file()] == []


class GroupItem:
    """Of a test, what its turn depends on."""

    def __init__(self, name: str, *marks: str) -> None:
        self.name, self.path, self.marks = name, Path(name[0]), marks
        self.fixturenames = marks

    def get_closest_marker(self, name: str) -> str | None:
        """As pytest's."""
        return name if name in self.marks else None


def test_what_ends_a_shared_thing_comes_after_who_shares_it() -> None:
    """Its module's at the module's end, where its fixtures still are; the platform's at the end of all."""
    items: Any = [
        GroupItem("a1", "platform", "last"),
        GroupItem("b1", "last"),
        GroupItem("b2"),
        GroupItem("c1", "platform"),
        GroupItem("b3"),
        GroupItem("d1"),
        GroupItem("e1", "last"),
    ]
    pytest_collection_modifyitems(items)
    assert [item.name for item in items] == ["b2", "b3", "b1", "d1", "e1", "c1", "a1"]


@pytest.mark.parametrize(("cores", "workers"), [(1, 2), (2, 3), (64, groups.WORKERS_MAX)])
def test_there_is_one_worker_more_than_cores(
    cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not for ever more."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert groups.pytest_xdist_auto_num_workers() == workers


def test_every_engine_is_in_its_group(request: pytest.FixtureRequest) -> None:
    """Whoever uses the shared platform or starts vLLM: two at once do not fit into memory."""
    users = [item for item in request.session.items if "platform" in getattr(item, "fixturenames", ())]
    assert {group_of(item.nodeid) for item in users} <= {ENGINE}


def test_a_group_runs_in_turn_on_one_worker(tmp_path: Path) -> None:
    """By real xdist: each file on one worker; `last` last in its group."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    argv = [sys.executable, "-m", "pytest", "-n2", "-v", "-p", "no:valkey", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*argv, "-c", "/dev/null", "-o", f"pythonpath={ROOT}", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [line.split() for line in done.stdout.splitlines() if "PASSED" in line]
    by_file = {file: {line[0] for line in ran if line[-1].startswith(file)} for file in FILES}
    assert [len(workers) for workers in by_file.values()] == [1, 1, 1], done.stdout
    two = [line[-1].split("::")[1] for line in ran if line[-1].startswith("test_two.py")]
    assert two == ["test_b", "test_a"]
