"""The list of small faults: its entries, the operators of fresh ones, and what a trial tells apart."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import coverage
import pytest
from click.testing import CliRunner

from scripts.mutations import __main__ as command
from scripts.mutations import fresh, reached, trials
from scripts.mutations.__main__ import ROOT, finish
from scripts.mutations.entries import BadEntryError, Mutation, load, mutated, parsed, sampled, unappliable
from scripts.mutations.operators import applied, lua_changes, python_changes, unique
from scripts.mutations.trials import Verdict, tried

PYTHON = '''
def served(count: int = 3, *, names: list[str]) -> bool:
    """A docstring is left alone: 3 < 4."""
    assert count >= 0, "INV: left alone"
    log.info("left alone", count=count + 1)
    self._wrong.warning("left alone", count=count < 7)
    tell(names, 60_000)
    assert_never(count)
    if not names or count <= 9 and any(names):
        return "é" in names
    if not (count):
        return None
    return ready(count - 1) if open_now else True

class Kept(Struct, frozen=True): ...
'''
LUA = """-- left alone: a < b and c
local text = 'left < alone' .. "and"
if count <= limit and not held then return true end
"""


def test_the_list_applies_and_names_tests_that_exist():
    """An entry that no longer stands in its file once, or whose test went, is found without running it."""
    entries = load(ROOT)
    assert len(entries) >= 150
    assert {each.file.split("/")[0] for each in entries} >= {"core", "billing", "engine", "server", "admin"}
    assert unappliable(ROOT, entries) == []


@pytest.mark.parametrize(
    "entry",
    [
        {"was": "a", "now": "b"},
        {"was": "a", "now": "b", "fails": "tests/x.py::test_x", "why": "x"},
        {"was": "a", "now": "a", "fails": "tests/x.py::test_x"},
        {"was": "", "now": "a", "fails": "tests/x.py::test_x"},
        {"was": "a", "now": "b", "fails": "tests/x.py"},
        {"was": "a", "now": "b", "fails": []},
        "a -> b",
    ],
)
def test_a_malformed_entry_is_named(entry: object):
    """It cannot pass for one that was noticed."""
    with pytest.raises(BadEntryError, match=r"core/x\.py"):
        parsed({"core/x.py": [entry]})


def test_a_fault_is_planted_in_one_place_only():
    """Where the text stands twice or never, nothing is tried."""
    mutation = Mutation("core/x.py", "a < b", "a <= b", ("tests/x.py::test_x",))
    assert mutated("if a < b:", mutation) == "if a <= b:"
    for text in ("", "a < b or a < b"):
        with pytest.raises(BadEntryError, match="times in the file"):
            mutated(text, mutation)


def test_an_entry_whose_file_or_test_went_is_stale(tmp_path: Path):
    """Both are said, and a test's parameters do not matter."""
    (tmp_path / "x.py").write_text("a < b")
    (tmp_path / "test_x.py").write_text("def test_x(n): ...")
    good = Mutation("x.py", "<", ">", ("test_x.py::test_x[1]",))
    assert unappliable(tmp_path, [good]) == []
    (line,) = unappliable(tmp_path, [good._replace(fails=("test_x.py::test_y",))])
    assert "there is no test_x.py::test_y" in line
    assert len(unappliable(tmp_path, [good._replace(file="y.py")])) == 1


def test_a_sample_is_the_same_for_the_same_commit():
    """And another for another one."""
    entries = [Mutation(f"{n}.py", "a", "b", ("t.py::t",)) for n in range(100)]
    assert sampled(entries, 9, "c1") == sampled(entries, 9, "c1") != sampled(entries, 9, "c2")
    assert len(set(sampled(entries, 500, "c1"))) == 100


def test_operators_change_what_is_done_and_not_what_is_said():
    """Asserts, log lines, docstrings and annotations stay; characters of several bytes move nothing."""
    made = {applied(PYTHON, change) for change in python_changes(PYTHON)}
    for was, now in [
        ("int = 3", "int = 4"),
        ("    tell(names, 60_000)", "    pass"),
        ("60_000", "120000"),
        ("if not names", "if  names"),
        ("if not (count)", "if  (count)"),
        ("not names or count", "not names and count"),
        ("<= 9 and", "<= 9 or"),
        ("count <= 9", "count < 9"),
        ("<= 9", "<= 10"),
        ("any(names)", "all(names)"),
        ('"é" in names', '"é" not in names'),
        ("count - 1", "count + 1"),
        ("count - 1", "count - 2"),
        ("if open_now", "if not open_now"),
        ("else True", "else False"),
    ]:
        assert PYTHON.replace(was, now) in made, f"{was} -> {now}"
    assert len(made) == 15
    assert all(compile(text, "x", "exec") for text in made)


def test_lua_is_changed_outside_comments_and_texts():
    """Its own words for the same operators."""
    made = [(change.line, applied(LUA, change).splitlines()[2]) for change in lua_changes(LUA)]
    assert made == [
        (3, "if count < limit and not held then return true end"),
        (3, "if count <= limit or not held then return true end"),
        (3, "if count <= limit and  held then return true end"),
        (3, "if count <= limit and not held then return false end"),
    ]


def test_a_drawn_fault_is_an_entry_of_the_list():
    """Its text is grown upwards until it stands once."""
    text = "def f():\n    return a < b\ndef g():\n    return a < b\n"
    last = python_changes(text)[-1]
    was, now = unique(text, last)
    assert text.count(was) == 1
    assert text.replace(was, now) == applied(text, last)


def test_tests_that_reach_little_else_come_first():
    """They are about that line; a Lua script's stand for all of its lines."""
    lines = {"a.py": {1: ["wide", "narrow"], 2: ["wide"], 4: []}, "b.lua": {reached.ANY_LINE: ["wide"]}}
    known = reached.from_lines(lines)
    assert known.tests_of("a.py", 1) == ("narrow", "wide")
    assert known.tests_of("b.lua", 70) == ("wide",)
    assert known.tests_of_files(["a.py", "c.py"]) == ("narrow", "wide")
    about = {"a.py": {1: ["of_b", "of_a"]}, "b.py": {1: ["of_b"], 2: ["of_b"]}}
    assert reached.from_lines(about).tests_of("a.py", 1) == ("of_a", "of_b"), "what is most about the file"
    named = {
        "billing/a.py": {1: ["x.py::of_a", "test_a_there.py::wide"]},
        "b.py": {1: ["test_a_there.py::wide"]},
    }
    assert reached.from_lines(named).tests_of("billing/a.py", 1) == ("test_a_there.py::wide", "x.py::of_a")
    assert known.tests_of("a.py", 3) == known.tests_of("c.py", 1) == ()
    rows = list(reached.by_package({"core/a.py": {1, 2, 3, 4}}, {"core/a.py": {1: ["t"], 9: ["t"]}}))
    assert rows[1].split() == ["core", "4", "25.0%"]


def test_what_coverage_wrote_is_read_by_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As coverage writes it under its settings: the names of files begin at the root."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core/a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    monkeypatch.setattr(reached, "files", lambda _: ["core/a.py"])
    data = coverage.CoverageData(str(tmp_path / "coverage.1"))
    for context, line in (("t.py::t", 2), ("", 3)):
        data.set_context(context)
        data.add_lines({"core/a.py": [line]})
    data.write()
    lines, executable = reached.read(tmp_path, tmp_path)
    assert executable == {"core/a.py": {1, 2, 3}}
    assert lines == {"core/a.py": {2: ["t.py::t"], 3: []}}


@pytest.mark.parametrize(
    ("noticed", "error", "code"), [(True, "", 0), (False, "", 1), (False, "no tests ran", 1)]
)
def test_a_run_is_red_where_one_survives_or_was_not_tried(
    noticed: bool, error: str, code: int, capsys: pytest.CaptureFixture[str]
):
    """And says which."""
    mutation = Mutation("core/x.py", "a", "b", ("t.py::t",))
    with pytest.raises(SystemExit) as ended:
        finish([Verdict(mutation, noticed, 1.0, error)], as_json=False)
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert ("SURVIVED core/x.py" in said, error in said) == (code == 1 and not error, True)


@pytest.mark.parametrize(("stale", "red"), [(["it went"], ""), ([], "1 failed")])
def test_nothing_is_planted_in_what_is_stale_or_red(
    stale: list[str], red: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A test that fails anyway notices nothing."""
    monkeypatch.setattr(command, "unappliable", lambda *_: stale)
    monkeypatch.setattr(command, "red_already", lambda *_: red)
    monkeypatch.setattr(command, "copies", lambda *_: nullcontext([tmp_path]))
    monkeypatch.setattr(command, "all_tried", lambda *_: pytest.fail("one was planted"))
    done = CliRunner().invoke(command.mutations, ["run", "--sample", "1"])
    assert done.exit_code == 1
    assert (stale or [red])[0] in done.output


def test_a_file_that_cannot_be_imported_is_a_fault_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """So is a run that hangs; what is red before is not green."""
    (tmp_path / "x.py").write_text("a")
    for code, noticed, error in ((0, False, ""), (1, True, ""), (2, True, ""), (4, False, "said")):
        monkeypatch.setattr(trials, "run_tests", lambda *_, code=code: (code, "said"))
        verdict = tried(tmp_path, Mutation("x.py", "a", "b", ("t.py::t",)))
        assert (verdict.noticed, verdict.error) == (noticed, error)
        assert trials.red_already(tmp_path, []) == ("said" if code else "")
    monkeypatch.undo()

    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("pytest", 1)

    monkeypatch.setattr(trials.subprocess, "run", hang)
    assert trials.run_tests(tmp_path, [])[0] == trials.FAILED


def test_fresh_faults_are_the_same_for_the_same_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of the product's lines, with the tests that reach them; a released migration is left alone."""
    files = ["core/x.py", "core/migrations/versions/v0001_x.py", "tests/x.py"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("".join(f"a{n} = {n} < {n + 1}\n" for n in range(30)))
    monkeypatch.setattr(fresh, "files", lambda _: files)
    known = reached.from_lines({"core/x.py": {n: [f"t.py::t{n}"] for n in range(1, 31)}})
    drawn = [fresh.drawn(tmp_path, known, 9, seed) for seed in ("c1", "c1", "c2")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {each.file for each in drawn[0]} == {"core/x.py"}
    assert all(each.fails == (f"t.py::t{int(each.was.split()[0][1:]) + 1}",) for each in drawn[0])
    assert len(fresh.drawn(tmp_path, known, 30, "c1")) == 30
    assert fresh.drawn(tmp_path, known, 30, "c1", only="core/y") == []


def test_what_runs_at_import_is_tried_by_tests_of_its_file_or_of_those_that_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A file of declarations alone is reached by no test itself."""
    files = {
        "core/kinds.py": "LIMIT = 3 < 4\n",
        "core/uses.py": "from core.kinds import LIMIT\n",
        "core/other.py": "from core import (\n    away,\n)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(fresh, "files", lambda _: list(files))
    lines = {
        "core/kinds.py": {1: list[str]()},
        "core/uses.py": {9: ["t.py::uses"]},
        "core/other.py": {1: ["t.py::o"]},
    }
    drawn = fresh.drawn(tmp_path, reached.from_lines(lines), 1, "c1")
    assert [(each.file, each.fails) for each in drawn] == [("core/kinds.py", ("t.py::uses",))]


def test_a_script_that_no_test_is_known_to_run_is_tried_by_those_of_who_names_it():
    """By its file or as a part of others'."""
    texts = {
        "core/quota.py": 'FOLDER = HERE / "lua"\nADMIT = script("admit", "money")\n',
        "core/taking.py": 'TAKE = Script(HERE / "lua" / "take.lua")\n',
        "core/words.py": 'WORDS = ("admit", "money")\n',
    }
    found = [
        fresh.importers(texts, f"core/lua/{name}.lua") for name in ("admit", "prelude/money", "take", "t")
    ]
    assert found == [["core/quota.py"], ["core/quota.py"], ["core/taking.py"], []]


def test_a_trial_tells_a_noticed_fault_from_one_that_survives(tmp_path: Path):
    """And leaves the copy as it was."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "x.py").write_text("def least(a, b):\n    return a if a < b else b\n")
    test = "from x import least\n\ndef test_least():\n    assert least(1, 2) == 1\n"
    (tmp_path / "test_x.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = -p no:valkey\n")
    swapped = Mutation("x.py", "a < b", "a > b", ("test_x.py::test_least",))
    verdicts = [tried(tmp_path, each) for each in (swapped, swapped._replace(now="a <= b"))]
    assert [(each.noticed, each.error) for each in verdicts] == [(True, ""), (False, "")]
    assert not tried(tmp_path, swapped._replace(fails=())).noticed, "nothing reaches it"
    (tmp_path / "conftest.py").write_text("from x import least\n")
    assert tried(tmp_path, swapped._replace(was="def least", now="def most")).noticed, (
        "nothing can be imported"
    )
    (tmp_path / "conftest.py").unlink()
    nowhere = tried(tmp_path, swapped._replace(fails=("test_x.py::test_most",)))
    assert "no tests ran" in nowhere.error or "not found" in nowhere.error
    assert (tmp_path / "x.py").read_text().count("a < b") == 1


def test_fresh_faults_are_drawn_where_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where nothing was measured, or nothing is drawn, that is said."""
    asked = list[tuple[object, ...]]()

    def drawn(*given: object) -> list[Mutation]:
        asked.append(given)
        return []

    monkeypatch.setattr(command.reached, "load", lambda _: None)
    done = CliRunner().invoke(command.mutations, ["fresh"])
    assert (done.exit_code, "first: " in done.output) == (1, True)
    known = reached.from_lines({})
    monkeypatch.setattr(command.reached, "load", lambda _: known)
    monkeypatch.setattr(command.fresh, "drawn", drawn)
    monkeypatch.setattr(command, "copies", lambda *_: nullcontext([tmp_path]))
    done = CliRunner().invoke(
        command.mutations, ["fresh", "--file", "core/no", "--count", "7", "--seed", "s"]
    )
    assert asked == [(ROOT, known, 7, "s", "core/no")]
    assert (done.exit_code, "core/no" in done.output) == (1, True)


def test_a_list_that_says_nothing_is_refused(monkeypatch: pytest.MonkeyPatch):
    """In one line, which names the list; a file of which it has none is none of its faults."""

    def bad(_: Path) -> list[Mutation]:
        raise BadEntryError("core/x.py: what?")

    done = CliRunner().invoke(command.mutations, ["run", "--file", "core/nowhere"])
    assert "no such entry" in done.output
    monkeypatch.setattr(command, "load", bad)
    done = CliRunner().invoke(command.mutations, ["run"])
    assert done.exit_code == 1
    assert "tests/mutations.yaml: core/x.py: what?" in done.output
    with pytest.raises(BadEntryError, match="map of files"):
        parsed(["a -> b"])


def test_a_trial_that_breaks_off_leaves_no_fault_and_keeps_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The next one would be tried with both, or wait for ever."""
    (tmp_path / "x.py").write_text("a")
    mutation = Mutation("x.py", "a", "b", ("t.py::t",))

    def broken(*_: object) -> tuple[int, str]:
        assert (tmp_path / "x.py").read_text() == "b"
        raise OSError("no room")

    monkeypatch.setattr(trials, "run_tests", broken)
    with pytest.raises(OSError, match="no room"):
        tried(tmp_path, mutation)
    assert (tmp_path / "x.py").read_text() == "a"
    queue = trials.SimpleQueue[Path]()
    monkeypatch.setattr(trials, "SimpleQueue", lambda: queue)
    with pytest.raises(OSError, match="no room"):
        trials.all_tried([tmp_path], [mutation], lambda _: None)
    assert queue.qsize() == 1


def test_what_became_of_each_is_told(capsys: pytest.CaptureFixture[str]):
    """A line as it falls, and all of them for programs."""
    mutation = Mutation("core/x.py", "a", "b", ("t.py::t",))
    verdicts = [
        Verdict(mutation, True, 1.0),
        Verdict(mutation, False, 2.0),
        Verdict(mutation, False, 3.0, "red"),
    ]
    for each in verdicts:
        command.tell(each)
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "noticed",
        "SURVIVED",
        "error",
    ]
    for as_json in (True, False):
        with pytest.raises(SystemExit):
            finish(verdicts, as_json)
    facts, words = capsys.readouterr().out.splitlines()
    assert words == "3 tried, 1 noticed"
    told = json.loads(facts)
    assert (told["tried"], told["survived"]) == (3, 1)
    assert [each["noticed"] for each in told["mutations"]] == [True, False, False]
