"""What a fork of the fork server is when it begins, how it ends, and what is kept of it."""

import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from chaos.installation import fork_server, forked
from chaos.installation.forked import Forked, forking, forks, start, streams
from core.runtime import leash
from core.runtime.leash import spawn
from tests.chaos.forked_program import PROGRAM, environment, told

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux")
INTERRUPTED = -signal.SIGINT


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """This process stands in another folder, with another umask and fewer files than most."""
    assert forked._address is not None
    forked._address()  # the fork server begins where the tests are: what it imports is this tree's
    (tmp_path / "stood in").mkdir()
    monkeypatch.chdir(tmp_path / "stood in")
    umask, (soft, hard) = os.umask(0o027), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.umask(umask) == 0o027  # to ask is to change nothing


def as_a_fresh_one(told: dict[str, Any], tmp_path: Path) -> None:
    """As exec would have made it."""
    assert told["folder"] == str(tmp_path / "stood in")
    assert told["umask"] == 0o027
    assert told["files"] == list(resource.getrlimit(resource.RLIMIT_NOFILE))
    assert told["arguments"][1:] == ["be"]
    assert told["command"] == [*PROGRAM, "be"]
    assert told["signals"] == [True, True, -1]
    assert told["open"] == [0, 1, 2]


@pytest.mark.usefixtures("elsewhere")
async def test_it_begins_as_a_fresh_process_does(tmp_path: Path) -> None:
    """Where who asked stands, with its limits and three streams, and nothing of the fork server's."""
    with streams(tmp_path / "other", tmp_path / "other") as three:
        other = await start([*PROGRAM, "stay"], environment(tmp_path), three).begun()
    _, out, _ = await told(tmp_path, "be")
    as_a_fresh_one(json.loads(out), tmp_path)
    assert json.loads(out)["leads"] is False
    other.kill()
    assert await other.wait() == -signal.SIGKILL


@pytest.mark.usefixtures("elsewhere")
async def test_a_leashed_one_begins_as_a_fresh_process_does(tmp_path: Path) -> None:
    """Its log is for this user alone and grows; its leash is out of reach of this session's Ctrl-C."""
    log = tmp_path / "log"
    for _ in range(2):
        process = await spawn([*PROGRAM, "be"], environment(tmp_path), log)
        assert await process.wait() == 0
    first, second = map(json.loads, log.read_text().splitlines())
    as_a_fresh_one(first, tmp_path)
    as_a_fresh_one(second, tmp_path)
    assert (first["leads"], first["is_alone"]) == (True, True)
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("how", "code", "left", "error"),
    [
        ("none", 0, "left\n", ""),
        ("-2", 254, "left\n", ""),
        ("interrupt", INTERRUPTED, "left\n", "KeyboardInterrupt"),
        ("thread", 0, "late\nleft\n", ""),
        ("tell and kill", -signal.SIGKILL, "", "told\n"),
    ],
)
async def test_it_ends_as_an_interpreter_does_in_rarer_ways(
    tmp_path: Path, how: str, code: int, left: str, error: str
) -> None:
    """By no code, by a negative one, by Ctrl-C, after its threads; errors are out at each line's end."""
    ended, out, said = await told(tmp_path, "end", how)
    assert (ended, out) == (code, "printed\n" + left)
    assert error in said
    assert bool(said) == bool(error)


async def test_what_cannot_be_printed_in_the_end_is_an_error(tmp_path: Path) -> None:
    """Whoever reads its exit code knows that the output is not whole."""
    with streams(Path("/dev/full"), tmp_path / "error") as three:
        process = await start([*PROGRAM, "draw"], environment(tmp_path), three).begun()
    assert await process.wait() == 120


async def test_a_module_that_is_there_already_is_not_warned_of(tmp_path: Path) -> None:
    """Commands are imported before they are forked; a fresh interpreter says nothing of that."""
    with streams(tmp_path / "out", tmp_path / "error") as three:
        argv = [sys.executable, "-m", "core.cli", "--help"]
        process = await start(argv, environment(tmp_path), three).begun()
    assert await process.wait() == 0
    assert (tmp_path / "error").read_text() == ""


def test_what_only_a_new_interpreter_reads_starts_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given, or taken away; so does a command line for which the fork server has no room."""
    given = environment(tmp_path)
    for name in ("LANGUAGE", "MALLOC_ARENA_MAX", "COVERAGE_RCFILE"):
        assert not forks(PROGRAM, given | {name: "x"})
    most = forked.ARGUMENT_BYTES_MAX - len(" ".join(PROGRAM)) - 2
    assert forks([*PROGRAM, "x" * (most - 1)], given)
    assert not forks([*PROGRAM, "x" * most], given)
    assert forks(PROGRAM, given)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert not forks(PROGRAM, given)


def test_inside_of_a_fork_server_there_is_no_second_one() -> None:
    """Its start stays the first one's."""
    began = leash._start
    with forking():
        assert leash._start is began


def test_what_the_fork_server_tells_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has ended no signal is sent: its pid may be another's."""
    ours, its = socket.socketpair()
    process = Forked(ours)
    assert process.poll() is None
    its.sendall(b'{"pid": 12')
    assert process.poll() is None
    its.sendall(b'34567}\n{"en')
    assert process.begun_here().pid == 1234567
    its.sendall(b'ded": -15}\n')
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a stranger was killed"))
    process.kill()
    process.terminate()
    assert process.returncode == -15
    its.close()


def test_the_fork_servers_end_is_not_its_forks() -> None:
    """It is told; nobody waits for ever."""
    ours, its = socket.socketpair()
    process = Forked(ours)
    its.close()
    with pytest.raises(ChildProcessError, match="fork server has ended"):
        process.poll()


def test_who_breaks_off_is_no_order() -> None:
    """The fork server waits for no rest that never comes."""
    ours, its = socket.socketpair()
    with its:
        with ours:
            ours.sendall(struct.pack("!I", 10) + b"half")
        with pytest.raises(ValueError, match="gone"):
            fork_server._order(its)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[fork_server.ForkServer, socket.socket]]:
    """A fork server in this process that forks nothing, and who listens."""
    monkeypatch.setattr(signal, "set_wakeup_fd", lambda *_, **__: -1)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(fork_server.os, "fork", lambda: 1234567)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0parley-test-{os.getpid()}")
        server.listen(1)
        made = fork_server.ForkServer(server, "nowhere")
        yield made, server
        for end in made._wake:
            os.close(end)


@pytest.mark.parametrize("leashed", [True, False])
def test_the_fork_server_keeps_nothing_of_what_has_ended(
    leashed: bool, asked: tuple[fork_server.ForkServer, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the streams, whose readers wait for their end, nor a pid that is another's one day. A leash is
    left to end by itself."""
    made, server = asked
    given, killed = os.open(os.devnull, os.O_RDONLY), list[int]()
    monkeypatch.setattr(fork_server, "_order", lambda _: ({"leashed": leashed}, [given]))  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(server.getsockname())
        made._obey()
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(given)
        made._forget(1234567)
        assert killed == ([] if leashed else [1234567])
    ended = iter([(1234567, 0), (0, 0)])
    monkeypatch.setattr(os, "waitpid", lambda *_: next(ended))
    made._report_ended()
    assert (made._askers, made._leashes) == ({}, set())
