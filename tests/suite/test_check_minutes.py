"""`make minutes`: what it says and writes where a run costs too much, was the long form or never was."""

import json
from pathlib import Path

import pytest

from scripts import check_minutes
from scripts.check_minutes import CPU_SECONDS_MAX, Lines, main


def lines(**seconds: float) -> Lines:
    return {name: {"cpu": cpu, "wall": cpu} for name, cpu in seconds.items()}


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The figures of a run, that is within its budgets."""
    monkeypatch.setattr(check_minutes, "ROOT", tmp_path)
    monkeypatch.setattr(check_minutes, "BUDGETS", tmp_path / "budgets.json")
    (tmp_path / "budgets.json").write_text(json.dumps({"files": lines(a=10.0, gone=1.0)}))
    (tmp_path / "told.json").write_text(json.dumps({"long": False, "files": lines(a=11.0)}))
    return tmp_path / "told.json"


def test_a_run_within_its_budgets_is_told(figures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one, or that of a file."""
    main(figures, renew=False)
    assert capsys.readouterr().out.startswith("minutes: 11 CPU seconds of ")
    other = figures.with_name("other.json")
    other.write_text(json.dumps({"long": False, "files": lines(a=12.0)}))
    main(other, renew=False)
    assert capsys.readouterr().out.startswith("minutes: 12 CPU seconds of ")


def test_a_run_over_a_budget_fails_and_says_what_helps(figures: Path) -> None:
    """Each line of it."""
    figures.write_text(json.dumps({"long": False, "files": lines(a=30.0, b=9.0)}))
    with pytest.raises(SystemExit) as ended:
        main(figures, renew=False)
    first, second, last = str(ended.value.code).splitlines()
    assert (first.split(":")[0], second.split(":")[0]) == ("a", "b")
    assert "make it cheaper" in last


def test_figures_that_are_none_or_of_the_long_form_are_refused(figures: Path) -> None:
    """Also for renewing: its budgets would be those of another suite."""
    for renew in (False, True):
        figures.write_text(json.dumps({"long": True, "files": lines(a=1.0)}))
        with pytest.raises(SystemExit, match="long form"):
            main(figures, renew)
    figures.unlink()
    with pytest.raises(SystemExit, match="no figures of a run"):
        main(figures, renew=False)
    assert json.loads(check_minutes.BUDGETS.read_text())["files"] == lines(a=10.0, gone=1.0)


def test_renewed_budgets_are_written(figures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the files that are there; where there were none, of all that ran."""
    (figures.parent / "tests").mkdir()
    (figures.parent / "tests" / "test_x.py").touch()
    budgets = lines(**{"tests/test_x.py": 2.0, "tests/test_gone.py": 1.0, "(fixture x)": 1.0})
    check_minutes.BUDGETS.write_text(json.dumps({"files": budgets}))
    main(figures, renew=True)
    wanted = lines(**{"(fixture x)": 1.0, "a": 11.0, "tests/test_x.py": 2.0})
    assert json.loads(check_minutes.BUDGETS.read_text())["files"] == wanted
    assert "budgets.json: 14 CPU seconds" in capsys.readouterr().out
    check_minutes.BUDGETS.unlink()
    main(figures, renew=True)
    assert json.loads(check_minutes.BUDGETS.read_text())["files"] == lines(a=11.0)


def test_a_renewal_over_the_limit_leaves_the_budgets(figures: Path) -> None:
    """It is refused in one line."""
    figures.write_text(json.dumps({"long": False, "files": lines(a=CPU_SECONDS_MAX + 1)}))
    with pytest.raises(SystemExit, match="or move it to the long form"):
        main(figures, renew=True)
    assert json.loads(check_minutes.BUDGETS.read_text())["files"] == lines(a=10.0, gone=1.0)
