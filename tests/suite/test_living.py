"""Which processes are this one's (tests/support/living.py)."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import living

KTHREADD = 2


def test_a_process_that_becomes_another_program_is_looked_at_again(monkeypatch: pytest.MonkeyPatch):
    """In the midst of it nobody sees its environment, and with its parent gone nothing else says whose it
    is."""
    looks, read = list[Path](), Path.read_bytes

    def in_the_midst(self: Path) -> bytes:
        looks.append(self)
        return b"" if len(looks) < 3 else read(self)

    with subprocess.Popen(["sleep", "60"], env={"MINE": "yes"}) as process:
        monkeypatch.setattr(Path, "read_bytes", in_the_midst)
        assert b"MINE=yes" in living.environment(process.pid)
        assert looks == [Path(f"/proc/{process.pid}/environ")] * 3
        process.kill()


@pytest.mark.parametrize("ended", [True, False])
def test_who_has_no_environment_is_not_waited_for(ended: bool):
    """What has ended, and the kernel's own threads."""
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessLookupError):
            living.environment(process.pid if ended else KTHREADD)


def test_who_was_given_none_has_none():
    """After a moment."""
    with subprocess.Popen(["sleep", "60"], env={}) as process:
        assert living.environment(process.pid) == []
        process.kill()
