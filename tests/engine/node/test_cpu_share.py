"""A worker takes little of the processors while it starts, and its part from then on."""

import os
import sys
from pathlib import Path

import pytest

from core.runtime.leash import spawn
from engine.node import cpu_share
from tests.support.patience import wait_until

STARTS = """
import time
from engine.node import cpu_share
while open("/proc/self/autogroup").read().split()[-1] != str(cpu_share.MODEST):
    time.sleep(0.01)
cpu_share.restore_cpu_share()
time.sleep(60)
"""


def share(pid: int) -> int | None:
    """The nice value of a session: "/autogroup-25 nice 10"; None where a process is in the system's own one,
    as everything is that began without a session (a container's first process and what it starts)."""
    words = Path(f"/proc/{pid}/autogroup").read_text().split()
    return int(words[-1]) if words else None


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this system has no autogroups")
async def test_a_start_gives_way_and_takes_part_when_it_is_done():
    """Whoever starts it makes it modest; it says itself when it is ready. Ours stays as it was."""
    before = share(os.getpid())
    quiet = await spawn(["sleep", "60"], dict(os.environ))
    ready = await spawn([sys.executable, "-c", STARTS], dict(os.environ))
    try:
        for process in (quiet, ready):
            assert cpu_share.lower_cpu_share(process.pid)
        await wait_until(lambda: share(ready.pid) == cpu_share.EQUAL)
        assert share(quiet.pid) == cpu_share.MODEST
        assert share(os.getpid()) == before
    finally:
        for process in (quiet, ready):
            process.kill()
            await process.wait()


def test_who_is_gone_has_no_share():
    """A worker that ended at once is no error."""
    assert not cpu_share.lower_cpu_share(2**22 + 1)
