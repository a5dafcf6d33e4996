"""Whoever asks a script what it does is told, and nothing is done."""

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
FILES = sorted(file for file in SCRIPTS.glob("*.py") if "__main__" in file.read_text())
HANDED_ON = {"once_more"}  # what they do not know is pytest's


@pytest.mark.parametrize("asked", ["-h", "--help"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_script_says_what_it_does(
    file: Path, asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """`lock.py --help` once resolved all locks anew."""
    assert not begun(file, asked, monkeypatch)
    summary = file.read_text().split('"""')[1].splitlines()[0]
    assert summary in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_script_does_nothing_where_it_is_not_understood(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A misspelt option was none: what it was to prevent was done."""
    if file.stem in HANDED_ON:
        assert "parse_known_args" in file.read_text()
        return
    assert begun(file, "--no-such-option", monkeypatch) == 2
    assert capsys.readouterr().err.startswith(f"usage: {file.name}")


def begun(file: Path, option: str, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """Its exit code, in this process."""
    assert "argparse" in file.read_text(), "else asking it would run it"
    monkeypatch.setattr(sys, "argv", [str(file), option])
    monkeypatch.syspath_prepend(str(SCRIPTS))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(file), run_name="__main__")
    return ended.value.code
