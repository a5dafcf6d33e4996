"""Failpoints: off without two switches, one death at the pass that was asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.injected.deaths import CONSENT, CONSENT_VALUE, POINTS, arm, fired_points
from core.errors import StartupError
from core.runtime import hooks
from core.runtime.failpoints import Failpoint, hit_failpoint

PASSES = """
import os, sys
from pathlib import Path
from chaos.injected.deaths import arm
from core.runtime import failpoints
arm(Path(sys.argv[1]), os.environ)
for number in range(3):
    failpoints.hit_failpoint(failpoints.Failpoint.BILLER_AFTER_READ)
    print(number, flush=True)
"""


def passes(home: Path, asked: str) -> tuple[int, list[str]]:
    """Exit code and output of a process that passes a point three times."""
    environment = os.environ | {POINTS: asked, CONSENT: CONSENT_VALUE}
    done = subprocess.run(
        [sys.executable, "-c", PASSES, str(home)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.split()


def test_a_process_dies_at_the_pass_that_was_asked_for_and_only_once(home: Path) -> None:
    """SIGKILL at the second pass; who starts in the same installation after it lives."""
    assert passes(home, "biller.after_read:2") == (-9, ["0"])
    assert fired_points(home) == {Failpoint.BILLER_AFTER_READ}
    assert passes(home, "biller.after_read:2") == (0, ["0", "1", "2"])


def test_another_point_kills_nobody(home: Path) -> None:
    """Only who passes it."""
    assert passes(home, "biller.before_commit") == (0, ["0", "1", "2"])
    assert not fired_points(home)


def test_without_the_second_switch_a_process_does_not_start(home: Path) -> None:
    """Whoever sets it by accident hears of it, and nothing dies."""
    with pytest.raises(StartupError, match="crash tests only"):
        arm(home, {POINTS: "biller.after_read"})
    hit_failpoint(Failpoint.BILLER_AFTER_READ)


@pytest.mark.parametrize("asked", ["biller.nowhere", "biller.after_read:x", "biller.after_read,"])
def test_a_point_that_does_not_exist_is_refused(asked: str, home: Path) -> None:
    """A crash test that crashes nothing would prove nothing."""
    with pytest.raises(StartupError, match="is not POINT"):
        arm(home, {POINTS: asked, CONSENT: CONSENT_VALUE})


def test_nothing_is_armed_by_default(home: Path) -> None:
    """An environment without it disarms."""
    arm(home, {})
    assert hooks.at_failpoint is None
