"""Whoever asks a script what it does is told, and nothing is done."""

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
FILES = sorted(file for file in SCRIPTS.glob("*.py") if "__main__" in file.read_text())


@pytest.mark.parametrize("asked", ["-h", "--help"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_script_says_what_it_does(
    file: Path, asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """`lock.py --help` once resolved all locks anew."""
    text = file.read_text()
    assert '["--help"]' in text or "argparse" in text, "else asking it would run it"
    monkeypatch.setattr(sys, "argv", [str(file), asked])
    monkeypatch.syspath_prepend(str(SCRIPTS))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(file), run_name="__main__")
    assert not ended.value.code
    summary = text.split('"""')[1].splitlines()[0]
    assert summary in " ".join(capsys.readouterr().out.split())
