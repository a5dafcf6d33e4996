"""Parley's processes as forks of the fork server (fork_server.py) in place of fresh interpreters.

`forking()` starts a fork server; until it ends, whatever this process leashes (core/runtime/leash.py) is a
fork, and so is what those leash: `parley up` and all that it runs. The leash is the real one.
`start` forks without one. A command that is none of ours, or
whose environment only a new interpreter can obey, starts as ever.
"""

import asyncio
import json
import os
import resource
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.runtime import leash

DESCRIPTORS_MAX = 8
ARGUMENT_BYTES_MAX = 16 * 1024
ENVIRONMENT_BYTES_MAX = 64 * 1024
ROOM = "PARLEY_TEST_FORK_SERVER_ROOM"
PROGRAMS = ("core.cli", "engine.main", "chaos", "chaos.", "tests.")
# What an interpreter reads when it begins.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "COVERAGE_")
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 20.0
ASKERS_MAX = 128

_address: Callable[[], str] | None = None
_fresh = leash._start


class Forked:
    """A running fork. It is killed when nobody holds this any more."""

    def __init__(self, asking: socket.socket) -> None:
        self._asking = asking.detach()  # closed in silence with this, as a pid is forgotten
        os.set_blocking(self._asking, False)
        self._heard = b""
        self._ended: asyncio.Future[int] | None = None
        self.returncode: int | None = None
        self.pid: int = -1

    def __del__(self) -> None:
        self._let_go()

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code once it has ended, -n where signal n ended it."""
        if self.returncode is None:
            self._hear()
        return self.returncode

    async def wait(self) -> int:
        """Until it has ended; others go on."""
        while self.poll() is None:
            await self._readable()
        assert self.returncode is not None
        return self.returncode

    async def begun(self) -> "Forked":
        """Once it has a pid."""
        while self.pid < 0 and self.returncode is None:
            self._hear()
            if self.pid < 0 and self.returncode is None:
                await self._readable()
        return self

    def begun_here(self) -> "Forked":
        """The same, for who has no loop."""
        while self.pid < 0 and self.returncode is None:
            if not select.select([self._asking], [], [], START_SECONDS_MAX)[0]:
                raise TimeoutError("the fork server does not answer")
            self._hear()
        return self

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        if self._ended is None or self._ended.done():
            self._ended = waiting = loop.create_future()
            loop.add_reader(self._asking, lambda: waiting.done() or waiting.set_result(0))
            waiting.add_done_callback(lambda _: self._asking < 0 or loop.remove_reader(self._asking))
        await asyncio.shield(self._ended)

    def _hear(self) -> None:
        try:
            received = os.read(self._asking, 4096)
        except BlockingIOError:
            return
        if not received:
            raise ChildProcessError("the fork server has ended")
        *lines, self._heard = (self._heard + received).split(b"\n")
        for line in lines:
            told: dict[str, int] = json.loads(line)
            self.pid, self.returncode = told.get("pid", self.pid), told.get("ended", self.returncode)
        if self.returncode is not None:
            self._let_go()

    def _let_go(self) -> None:
        if self._asking < 0:
            return
        waiting = self._ended
        if waiting is not None and not waiting.done() and not waiting.get_loop().is_closed():
            waiting.get_loop().remove_reader(self._asking)
            waiting.set_result(0)
        os.close(self._asking)
        self._asking = -1


@contextmanager
def forking(begins: Callable[["subprocess.Popen[bytes]"], None] = lambda _: None) -> Generator[None]:
    """A fork server of its own for this process, begun when it is first asked. Only on Linux. `begins`
    hears of it."""
    if _address is not None or sys.platform != "linux":
        yield
        return
    address = f"parley-fork-server-{secrets.token_hex(16)}"
    begun: list[subprocess.Popen[bytes]] = []

    def begin() -> str:
        if not begun:
            begun.append(_fork_server(address))
            begins(begun[0])
        return address

    use(begin)
    try:
        yield
    finally:
        use(None)
        for server in begun:
            assert server.stdin is not None
            server.stdin.close()
            try:
                server.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:  # it is importing still, and has forked nothing
                server.kill()
                server.wait()


def _fork_server(address: str) -> "subprocess.Popen[bytes]":
    """It may be asked at once, and answers when it has imported everything. It is of no installation."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PARLEY_") or name.startswith("PARLEY_TEST_")
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{address}")  # no file, so none is left however who began it dies
        server.listen(ASKERS_MAX)
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "chaos.installation.fork_server",
                str(server.fileno()),
                address,
                "." * ARGUMENT_BYTES_MAX,
            ],
            env={**ours, ROOM: "." * ENVIRONMENT_BYTES_MAX},
            stdin=subprocess.PIPE,
            pass_fds=[server.fileno()],
        )


def use(address: Callable[[], str] | None) -> None:
    """From now on the fork server that listens there; None: no one."""
    global _address
    _address = address
    leash._start = _fresh if address is None else _start_leashed


def forks(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether the fork server can be this command."""
    ours = len(argv) > 2 and argv[0] == sys.executable and argv[1] == "-m"
    if _address is None or not ours or not f"{argv[2]}.".startswith(PROGRAMS):
        return False
    room = sum(len(os.fsencode(f"{name}={value}")) + 1 for name, value in environment.items())
    if room >= ENVIRONMENT_BYTES_MAX or len(os.fsencode(" ".join(argv))) + 1 >= ARGUMENT_BYTES_MAX:
        return False
    names = {name for name in (*environment, *os.environ) if name.startswith(READ_AT_START)}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def start(
    argv: Sequence[str], environment: Mapping[str, str], three: Sequence[int], session: bool = False
) -> Forked:
    """Fork a command that `forks`; `three`: its standard input, output and error. Not begun yet."""
    return _ask(argv, environment, three, session=session)


@contextmanager
def streams(output: Path, error: Path) -> Generator[tuple[int, int, int]]:
    """Nothing to read, and two files to append to."""
    with Path(os.devnull).open("rb") as nothing, output.open("ab") as first, error.open("ab") as second:
        yield nothing.fileno(), first.fileno(), second.fileno()


async def spawn(
    argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> "Forked | leash.LeashedProcess":
    """A process that ends with this one, its output in `log`: a fork where it can be one, else on a leash."""
    if not forks(argv, environment):
        return await leash.spawn(argv, environment, log)
    with streams(log, log) as (first, second, third):
        return await start(argv, environment, (first, second, third)).begun()


async def _start_leashed(
    argv: Sequence[str], env: Mapping[str, str], log_path: Path | None, held: int, report: int
) -> Any:
    """In place of `core.runtime.leash._start`: a leash that is a fork, whose command is one again."""
    if not forks(argv, env):
        return await _fresh(argv, env, log_path, held, report)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log_path else None
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        outputs = (1, 2) if log is None else (log, log)
        asked = _ask(argv, env, (nothing, *outputs, held, report), session=True, leashed=True)
    finally:
        os.close(nothing)
        if log is not None:
            os.close(log)
    return await asked.begun()


def _ask(
    argv: Sequence[str],
    environment: Mapping[str, str],
    fds: Sequence[int],
    session: bool = False,
    leashed: bool = False,
) -> Forked:
    assert _address is not None, "inside of forking()"
    umask = os.umask(0o022)
    os.umask(umask)
    order = {
        "argv": list(argv),
        "environment": dict(environment),
        "folder": os.getcwd(),
        "umask": umask,
        "files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "session": session,
        "leashed": leashed,
    }
    packed = json.dumps(order).encode()
    asking = socket.socket(socket.AF_UNIX)
    try:
        asking.connect(f"\0{_address()}")
        if user_of(asking) != os.getuid():  # ours has died, and its address is anybody's
            raise PermissionError("the fork server is another user's")
        socket.send_fds(asking, [struct.pack("!I", len(packed))], list(fds))
        asking.sendall(packed)
        return Forked(asking)
    finally:
        asking.close()


def user_of(other: socket.socket) -> int:
    """Whose process is at the other end of a Unix socket."""
    _, user, _ = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user
