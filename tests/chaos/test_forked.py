"""Forks of the fork server: each is a process like any other, and none outlives who asked for it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos.installation import fork_server, forked
from chaos.installation.forked import Forked, forks, start, streams
from core.runtime.leash import spawn
from tests.chaos.forked_program import PROGRAM, environment, told
from tests.support.patience import wait_until
from tests.support.platform import command_line, processes_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux")


@pytest.mark.parametrize(
    ("how", "code", "error"),
    [
        ("0", 0, ""),
        ("7", 7, ""),
        ("words", 1, "words\n"),
        ("raise", 1, "ValueError: raised"),
        ("kill", -9, ""),
    ],
)
async def test_it_ends_as_an_interpreter_does(tmp_path: Path, how: str, code: int, error: str) -> None:
    """Its code, what it printed, what nobody caught, what it does at its exit, the signal that killed it."""
    ended, out, said = await told(tmp_path, "end", how)
    assert ended == code
    assert out == ("printed\n" + ("left\n" if how != "kill" else ""))
    assert error in said
    assert bool(said) == bool(error)


async def test_two_share_nothing_that_is_drawn_by_chance(tmp_path: Path) -> None:
    """Neither random numbers nor what an earlier one set in its environment."""
    first = await told(tmp_path, "draw", PARLEY_TEST_ONE="1")
    second = await told(tmp_path, "draw", PARLEY_TEST_TWO="2")
    assert first[1].split()[0] != second[1].split()[0]
    ours = {name for name in os.environ if name.startswith("PARLEY_")}  # the run's own
    assert set(first[1].split()[1:]) - ours == {"PARLEY_HOME", "PARLEY_TEST_ONE"}
    assert set(second[1].split()[1:]) - ours == {"PARLEY_HOME", "PARLEY_TEST_TWO"}


async def test_others_see_its_own_command_line_and_environment(tmp_path: Path) -> None:
    """Also of its leash: /proc tells them apart. Its death is seen, and takes its leash along."""
    process = await spawn([*PROGRAM, "stay"], environment(tmp_path), tmp_path / "log")
    found = {each.pid: command_line(each).strip() for each in processes_of(tmp_path)}
    command = " ".join([*PROGRAM, "stay"])
    assert found[process.pid] == command
    assert found[process.leash_pid].endswith(f"leash_main.py {command}")
    assert psutil.Process(process.pid).ppid() == process.leash_pid
    assert os.getsid(process.pid) == process.pid
    os.kill(process.pid, signal.SIGKILL)
    assert await process.wait() == 128 + signal.SIGKILL
    assert not processes_of(tmp_path)


async def test_a_killed_leash_takes_its_command_along(tmp_path: Path) -> None:
    """As a real one: what it started is killed by who sees its end."""
    process = await spawn([*PROGRAM, "stay"], environment(tmp_path), tmp_path / "log")
    os.kill(process.leash_pid, signal.SIGKILL)
    assert await process.wait() == 128 + signal.SIGKILL
    await wait_until(lambda: not processes_of(tmp_path))


async def test_a_command_that_cannot_answer_for_itself_is_started_as_ever(tmp_path: Path) -> None:
    """Not ours, or with what only a new interpreter reads: PYTHON…, LD_PRELOAD, its locale."""
    given = environment(tmp_path)
    assert forks(PROGRAM, given)
    for name in ("PYTHONPATH", "LD_PRELOAD", "LC_ALL", "PYTHONHASHSEED"):
        assert not forks(PROGRAM, given | {name: "x"})
    assert not forks(PROGRAM, given | {"PARLEY_TEST_LONG": "x" * (1 << 16)})
    assert not forks(["valkey-server", "-m", "core.cli"], given)
    assert not forks([sys.executable, "-m", "engine.models.convert"], given)
    assert not forks([sys.executable, "-c", "print(1)"], given)


async def test_who_asks_no_more_leaves_none(tmp_path: Path) -> None:
    """Its last holder lets go of it."""
    held: list[Forked] = []
    with streams(tmp_path / "out", tmp_path / "out") as three:
        held.append(await start([*PROGRAM, "stay"], environment(tmp_path), three).begun())
    assert processes_of(tmp_path)
    held.clear()
    await wait_until(lambda: not processes_of(tmp_path))


async def test_the_death_of_the_starter_leaves_none(tmp_path: Path) -> None:
    """Killed with SIGKILL: neither its fork server, nor its forks, nor what they leashed."""
    starter = await asyncio.to_thread(
        subprocess.Popen, [*PROGRAM, "starter"], env=environment(tmp_path), stdout=subprocess.PIPE
    )
    assert starter.stdout is not None
    with starter.stdout:
        assert await asyncio.to_thread(starter.stdout.readline) == b"begun\n"
        # It, a fork, a leash, its command; a fork server is of no home.
        assert len(processes_of(tmp_path)) == 4
        (server,) = psutil.Process(starter.pid).children()
        starter.kill()
        starter.wait()
    await wait_until(lambda: not processes_of(tmp_path) and not server.is_running())


def test_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork server's address is no file, whose mode would keep others out: it looks who asks."""
    heard: list[socket.socket] = []

    def order(asker: socket.socket) -> tuple[dict[str, Any], list[int]]:
        heard.append(asker)
        raise ValueError("none")

    address = f"\0parley-test-{os.getpid()}"
    monkeypatch.setattr(fork_server, "_order", order)
    monkeypatch.setattr(signal, "set_wakeup_fd", lambda *_, **__: -1)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(1)
        asked = fork_server.ForkServer(server, address)
        for user in (os.getuid(), os.getuid() + 1):
            monkeypatch.setattr(os, "getuid", lambda user=user: user)
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(address)
                asked._obey()
                assert asking.recv(1) == b""
        for end in asked._wake:
            os.close(end)
    assert len(heard) == 1


def test_a_fork_server_of_another_user_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ours has died, its address is anybody's, who would be given environments and open files."""
    address = f"parley-test-{os.getpid()}"
    monkeypatch.setattr(forked, "_address", lambda: address)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{address}")
        server.listen(1)
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        with pytest.raises(PermissionError):
            start(PROGRAM, {"PARLEY_SECRET": "x"}, (0, 1, 2))
        asked, _ = server.accept()
        with asked:
            assert asked.recv(1) == b""
