"""No orphans: whoever dies, parent, leash or command, nothing that the command started lives on."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from core.errors import StartupError
from core.runtime.leash import LeashedProcess, spawn
from tests.support.patience import wait_until

# A command that starts a child of its own and then waits for ever, deaf to SIGTERM where told so.
FAMILY = """
import os, pathlib, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"])
draft = pathlib.Path(sys.argv[1] + ".draft")
draft.write_text(f"{os.getpid()} {child.pid}")
draft.rename(sys.argv[1])
signal.pause()
"""

# A parent that leashes the family and tells its leash's pid.
PARENT = """
import asyncio, os, pathlib, sys
from core.runtime.leash import spawn
async def main():
    leashed = await spawn([sys.executable, "-c", sys.argv[1], sys.argv[2]], os.environ)
    print(leashed.leash_pid, flush=True)
    await leashed.wait()
asyncio.run(main())
"""


async def test_the_death_of_the_parent_kills_the_family(tmp_path: Path):
    """kill -9 of the parent leaves neither leash, nor command, nor what the command started."""
    ready = tmp_path / "ready"
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, FAMILY, str(ready)), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    leash = int(await parent.stdout.readline())
    family = await _pids(ready)
    parent.kill()
    await parent.communicate()
    await _all_gone(leash, *family)


async def test_the_death_of_the_leash_kills_the_family(tmp_path: Path):
    """kill -9 of the leash is seen by the parent, which kills the group."""
    leashed, family = await _family(tmp_path)
    os.kill(leashed.leash_pid, signal.SIGKILL)
    assert await leashed.wait() == 128 + signal.SIGKILL
    await _all_gone(*family)


async def test_the_death_of_the_command_kills_what_it_started(tmp_path: Path):
    """kill -9 of the command ends its group, and the exit code names the signal."""
    leashed, family = await _family(tmp_path)
    os.kill(leashed.pid, signal.SIGKILL)
    assert await leashed.wait() == 128 + signal.SIGKILL
    await _all_gone(leashed.leash_pid, *family)


async def test_terminate_reaches_the_command(tmp_path: Path):
    """SIGTERM goes to the command, and its end takes the rest along."""
    leashed, family = await _family(tmp_path)
    leashed.terminate()
    assert await leashed.wait() == 128 + signal.SIGTERM
    await _all_gone(leashed.leash_pid, *family)


async def test_kill_ends_the_whole_group(tmp_path: Path):
    """kill() needs nobody's cooperation and may be called twice."""
    leashed, family = await _family(tmp_path)
    leashed.kill()
    leashed.kill()
    assert await leashed.wait() == 128 + signal.SIGKILL
    leashed.kill()
    await _all_gone(leashed.leash_pid, *family)


async def test_a_stopped_leash_is_killed_with_its_family(tmp_path: Path):
    """kill() works although the leash itself does not run."""
    leashed, family = await _family(tmp_path)
    os.kill(leashed.leash_pid, signal.SIGSTOP)
    leashed.kill()
    await _all_gone(*family)
    os.kill(leashed.leash_pid, signal.SIGCONT)
    await leashed.wait()


async def test_exit_code_output_and_environment_are_the_commands(tmp_path: Path):
    """The code passes through, the output is appended to the log, the environment is the one given."""
    log = tmp_path / "out.log"
    log.write_text("before ")
    leashed = await spawn(["/bin/sh", "-c", "echo $WORD; exit 7"], {"WORD": "said"}, log)
    assert await leashed.wait() == 7
    assert leashed.returncode == 7
    assert log.read_text() == "before said\n"


async def test_a_command_that_does_not_exist_is_one_clear_error(tmp_path: Path):
    """The failure to start is raised where it was asked for, with the name that failed."""
    with pytest.raises(StartupError, match=r"no-such-command: No such file"):
        await spawn(["/no-such-command"], {})
    with pytest.raises(StartupError, match=r"cannot start /bin/true: No such file"):
        await spawn(["/bin/true"], {}, tmp_path / "missing" / "log")


async def _family(folder: Path) -> tuple[LeashedProcess, list[int]]:
    ready = folder / "ready"
    leashed = await spawn([sys.executable, "-c", FAMILY, str(ready)], os.environ)
    pids = await _pids(ready)
    assert pids[0] == leashed.pid
    return leashed, pids


async def _pids(ready: Path) -> list[int]:
    await wait_until(ready.exists)
    return [int(pid) for pid in ready.read_text().split()]  # noqa: ASYNC240  (two numbers)


async def _all_gone(*pids: int) -> None:
    await wait_until(lambda: not any(_alive(pid) for pid in pids))


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
