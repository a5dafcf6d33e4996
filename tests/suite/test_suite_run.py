"""What CI makes of a red run: once more where few failed, and a record that only a mend empties."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import suite_run
from scripts.suite_run import RERUN_MAX, Flake, handed_on, in_file_order, rerun_wanted, seeded, still_open

FLAKE = Flake("tests/core/test_x.py::test_x[1]", "c1", 1.7, "assert 1 == 2")


def test_few_failures_run_once_more():
    """A crash, a stop, a suite that cannot be collected, and many failures are no bad luck."""
    few = {f"t.py::t{n}" for n in range(RERUN_MAX)}
    assert rerun_wanted(1, few)
    assert not rerun_wanted(0, set())
    assert not rerun_wanted(1, set())
    assert not rerun_wanted(2, few)
    assert not rerun_wanted(1, few | {"t.py::t"})


@pytest.mark.parametrize(
    ("bodies", "commit", "is_open"),
    [
        ([("c1", "x")], "c1", False),  # the same commit again: nobody could mend it yet
        ([("c2", "x"), ("c1", "x")], "c2", True),
        ([("c2", "Wait.\n\nFlaky: tests/core/test_x.py::test_x[1]"), ("c1", "x")], "c2", False),
        ([("c2", "Wait.\n\nFlaky: test_x a pause ended the deadline"), ("c1", "x")], "c2", False),
        ([("c2", "Wait.\n\nFlaky: test_y"), ("c1", "x")], "c2", True),
        ([("c2", "not Flaky: test_x"), ("c1", "x")], "c2", True),
        ([("c2", "x"), ("c1", "Flaky: test_x"), ("c0", "Flaky: test_x")], "c2", True),  # it came back
        ([("c2", "Flaky: test_x"), ("c0", "x")], "c2", False),  # its commit never landed
    ],
)
def test_a_flaky_test_stays_on_the_record_until_a_commit_names_it(
    bodies: list[tuple[str, str]], commit: str, is_open: bool
):
    """By its node id, its function's name, with or without parameters."""
    assert still_open([FLAKE], bodies, commit) == ([FLAKE] if is_open else [])


def test_a_flake_says_whether_its_process_was_paused():
    """That is where one looks first, and what its error was; older records have none."""
    assert FLAKE.shown.endswith("; c1; assert 1 == 2)")
    assert FLAKE._replace(said="").shown.endswith("; c1)")
    assert "did not run for 1.7 s" in FLAKE.shown
    assert "no pause" in FLAKE._replace(paused_seconds=0.0).shown


def test_what_the_run_is_told_reaches_pytest_as_it_was():
    """In its order, an option's value beside it."""
    given = ["-n", "auto", "-m", "not long", "--durations=40", "-x", "tests/a.py", "-k", "a or b"]
    assert handed_on(given) == given


def test_the_files_of_what_was_red_run_as_they_did():
    """The same tests of them in the same order: what then fails again depends on it."""
    options = ["-n", "auto", "-m", "not long", "--randomly-seed=7"]
    failed = ["tests/a.py::test_x[1]", "tests/b.py::test_y", "tests/a.py::test_z"]
    again = ["-m", "not long", "--randomly-seed=7", "-n", "0", "tests/a.py", "tests/b.py"]
    assert in_file_order(options, failed) == again
    assert seeded(["-x"], "00000000000f" + "0" * 28) == ["-x", "--randomly-seed=15"]
    assert seeded(options, "f" * 40) == options


@pytest.mark.parametrize(
    ("runs", "code", "tests"),
    [
        ([(0, [])], 0, []),
        ([(1, ["t"]), (0, []), (0, [])], 0, ["t"]),  # green alone, and among its file's tests
        ([(1, ["t"]), (1, ["t"])], 1, []),  # red twice is red
        ([(1, ["t", "u"]), (0, []), (1, ["u"])], 1, ["t"]),
        ([(1, ["t"]), (0, []), (3, [])], 3, ["t"]),  # what crashed among its file's tests was not green
        ([(3, ["t"])], 3, []),
    ],
)
def test_what_a_run_makes_of_the_record(
    runs: list[tuple[int, list[str]]],
    code: int,
    tests: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """What was flaky joins it, what stands in it stays, and fails the run of another commit that is green."""
    record, left, asked = tmp_path / "record.json", list(runs), list[list[str]]()

    def made(_: Path, __: str, options: list[str]) -> tuple[int, dict[str, tuple[float, str]]]:
        asked.append(options)
        ended, failed = left.pop(0)
        return ended, dict.fromkeys(failed, (0.5, "so"))

    monkeypatch.setattr(suite_run, "run_pytest", made)
    monkeypatch.setattr(suite_run, "checked_out", lambda _: "c2")
    monkeypatch.setattr(suite_run, "git", lambda *_: "")
    monkeypatch.setenv("PARLEY_TEST_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PARLEY_TEST_RECORD", str(record))
    assert suite_run.main(["--hypothesis-seed=7"]) == code
    flakes = [Flake(test, "c2", 0.5, "so") for test in tests]
    assert [Flake(**each) for each in json.loads(record.read_text())] == flakes
    assert left == []
    assert all({"--hypothesis-seed=7", "--randomly-seed=194"} <= set(options) for options in asked)
    record.write_text(json.dumps([FLAKE._asdict()]))
    left.extend(runs)
    assert suite_run.main(["--hypothesis-seed=7"]) == (code or 1)
    assert [Flake(**each) for each in json.loads(record.read_text())] == [FLAKE, *flakes]


INI = f"""[pytest]
addopts = -p no:valkey -p no:asyncio -p no:hypothesispytest -p tests.support.pauses
pythonpath = {suite_run.ROOT}
"""
PAIR = """
seen = []
def test_reads(): assert not seen
def test_writes(): seen.append(1)
"""


WRITES_FIRST = 3  # a seed


def test_a_test_whose_order_matters_is_named_and_stays_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Alone it is green: that does not make it flaky."""
    (tmp_path / "test_pair.py").write_text(PAIR)
    (tmp_path / "pytest.ini").write_text(INI)
    monkeypatch.setattr(suite_run, "ROOT", tmp_path)
    monkeypatch.setenv("PARLEY_TEST_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PARLEY_TEST_RECORD", str(tmp_path / "record.json"))
    assert suite_run.main(["-q", f"--randomly-seed={WRITES_FIRST}"]) == 1
    assert "ORDER test_pair.py::test_reads: green alone" in capsys.readouterr().out
    assert (tmp_path / "record.json").read_text() == "[]"


def test_a_run_says_what_was_flaky_and_what_still_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """And what the commit has to say that mends it; a commit that did says nothing more of it."""
    log = "c2\x1fOne.\x1e\nc1\x1fTwo.\n\nFlaky: test_old\nFlaky: test_again\x1e\n"
    monkeypatch.setattr(suite_run, "checked_out", lambda _: "c2")
    monkeypatch.setattr(suite_run, "git", lambda *_: log)
    monkeypatch.setenv("PARLEY_TEST_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PARLEY_TEST_RECORD", str(tmp_path / "folder" / "record.json"))
    ended = iter([(1, {"t.py::t": (0.5, "so")}), (0, {}), (0, {}), (0, {})])
    monkeypatch.setattr(suite_run, "run_pytest", lambda *_: next(ended))
    (tmp_path / "folder").mkdir()
    old = [Flake(f"t.py::test_{name}", "c0", 0.0) for name in ("old", "other")]
    old.append(Flake("t.py::test_again", "c1", 0.0))  # after what its own commit said
    (tmp_path / "folder" / "record.json").write_text(json.dumps([each._asdict() for each in old]))
    assert suite_run.main([]) == 1
    said = capsys.readouterr().out
    assert "FLAKY t.py::t (its process did not run for 0.5 s; c2; so)" in said
    assert "FLAKY BEFORE t.py::test_other" in said
    assert "FLAKY BEFORE t.py::test_again" in said
    assert "say `Flaky: t.py::test_other`" in said
    assert "test_old" not in said


def test_the_record_lies_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By its own variable, else among the user's other state; its folder is made."""
    monkeypatch.setenv("PARLEY_TEST_RECORD", str(tmp_path / "a" / "x.json"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "b"))
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert suite_run._record_path() == tmp_path / "a" / "x.json"
    monkeypatch.delenv("PARLEY_TEST_RECORD")
    assert suite_run._record_path() == tmp_path / "b" / "parley" / "flaky.json"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert suite_run._record_path() == tmp_path / "c" / ".local/state/parley/flaky.json"
    assert suite_run._record_path().parent.is_dir()
    assert suite_run._recorded(suite_run._record_path()) == []


def test_what_a_run_leaves_is_kept_beside_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The logs and the cost of each run by a name of its own; a run that wrote no failures had none."""
    ran = list[tuple[list[str], dict[str, str]]]()

    def run(command: list[str], env: dict[str, str], **_: object) -> SimpleNamespace:
        ran.append((command, env))
        if len(ran) == 1:
            Path(env["PARLEY_TEST_FAILURES"]).write_text('{"t.py::t": [1.5, "so"]}')
        return SimpleNamespace(returncode=len(ran))

    monkeypatch.setattr(suite_run.subprocess, "run", run)
    assert suite_run.run_pytest(tmp_path, "junit.xml", ["-x"]) == (1, {"t.py::t": (1.5, "so")})
    assert suite_run.run_pytest(tmp_path, "junit-again.xml", []) == (2, {})
    assert ran[0][0][-2:] == [f"--junitxml={tmp_path}/junit.xml", "-x"]
    given = [[env["PARLEY_TEST_KEEP"], env["PARLEY_TEST_MINUTES"]] for _, env in ran]
    names = ("minutes.json", "minutes-again.json")
    assert given == [[f"{tmp_path}/logs", f"{tmp_path}/{name}"] for name in names]


def test_a_flaky_test_is_no_reason_to_be_over_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its file costs what it did the second time; what several files share stays as it was."""
    given = {"(collection)": {"cpu": 9.0}, "a.py": {"cpu": 40.0}, "b.py": {"cpu": 2.0}}
    again = {"(collection)": {"cpu": 1.0}, "a.py": {"cpu": 3.0}}
    files = {"junit.xml": given, "junit-again.xml": {}, "junit-order.xml": again}

    def ran(_: Path, junit: str, __: list[str]) -> tuple[int, dict[str, tuple[float, str]]]:
        minutes = tmp_path / junit.replace("junit", "minutes").replace("xml", "json")
        minutes.write_text(json.dumps({"long": False, "files": files[junit]}))
        return (1, {"a.py::t": (0.0, "")}) if junit == "junit.xml" else (0, {})

    monkeypatch.setattr(suite_run, "run_pytest", ran)
    monkeypatch.setenv("PARLEY_TEST_RESULTS", str(tmp_path))
    monkeypatch.setenv("PARLEY_TEST_RECORD", str(tmp_path / "record.json"))
    assert suite_run.main([]) == 0
    assert json.loads((tmp_path / "minutes.json").read_text()) == {
        "long": False,
        "files": given | {"a.py": {"cpu": 3.0}},
    }
