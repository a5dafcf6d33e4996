"""Starts of vLLM are counted by the run, and too many fail it."""

from pathlib import Path

import pytest

from engine.startup import Phases
from tests.support.engines import STARTS_MAX, started, verdict


def test_a_start_is_what_a_worker_says_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line is the product's own."""
    Phases().log("w1", "smollm2", 1, 1)
    said = capsys.readouterr()
    log = tmp_path / "worker-0.log"
    log.write_text(said.out + said.err)
    assert started([log, log]) == 2


def test_one_too_many_fails_the_short_form() -> None:
    """The long one has more of them."""
    assert not verdict(STARTS_MAX, is_long=False)
    assert "share an engine" in verdict(STARTS_MAX + 1, is_long=False)
    assert not verdict(STARTS_MAX + 1, is_long=True)
