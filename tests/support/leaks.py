"""A pytest plugin: a test that leaves something behind is named with what it left, and fails.

After each test, once its fixtures have ended, nothing may be there that was not there before it: no process,
no open file or listening port, no file in the folders for temporary ones, no thread, no task of its loop, no
key in Redis. What a fixture of a wider scope made may stay until that fixture ends. Of the whole run no
process may be left.
"""

import asyncio
import asyncio.runners
import gc
import os
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import redis

from tests.support import living, patience, ports, shared
from tests.support.patience import BEAT_SECONDS, BEAT_SECONDS_MAX

GONE_SECONDS = 3.0  # lived: what was told to end has ended
NAMED_MAX = 20
REMEDY = 'end or remove it there or in the fixture that makes it (docs/development.md, "Nothing stays")'
OF_A_LOOP = "asyncio_"  # its threads end with it, and a loop that nobody closes is a warning
CLOSING = "_terminate_graceful_close"
ALL = {"process", "open", "file", "thread", "task", "key"}
OF_ENGINES = {"process", "key"}  # vLLM has sockets and threads of its own, begun when it likes
LEAKS = pytest.StashKey["Leaks"]()
OF_SQLITE = "etilqs_"  # SQLite unlinks its own as it opens them; kill -9 between the two leaves one
LASTING_FILES = str(ports.LOCKS)  # a block of ports is this process's to its end
SESSION = pytest.StashKey[pytest.Session]()

Thing = tuple[str, Any, str]  # its kind, which one it is, more of it

_left_tasks: set[Thing] = set()


class Leaks:
    """What there was before the running test, and what lasts longer."""

    def __init__(self, folders: list[Path], mark: str) -> None:
        self._host = 0
        self.family = living.ProcessFamily(mark)
        self._folders = folders
        self._redis: redis.Redis | None = None
        self._lasting: dict[object, set[Thing]] = {}
        self._before: set[Thing] | None = None
        self._is_shared = False

    def spare(self, host: "subprocess.Popen[bytes]") -> None:
        """A process that lasts and whose children are the tests', begun in the midst of a test."""
        self._host = host.pid
        fds = {each.fileno() for each in (host.stdin, host.stdout, host.stderr) if each is not None}
        self._lasting[host] = {each for each in _opened() if each[1] in fds}

    def watch_redis(self, url: str) -> None:
        """From now on no test leaves a key there; empty: no more."""
        if self._redis is not None:
            self._redis.close()
        self._redis = (
            redis.Redis.from_url(url, decode_responses=True, encoding_errors="replace") if url else None
        )
        if self._redis is not None:
            self._redis.ping()  # its connection is there before any test's

    def empty_redis(self) -> None:
        """A test is over."""
        if self._redis is not None:
            self._redis.flushall()

    @contextmanager
    def shared(self) -> Generator[None]:
        """Tests of this block make things on their way that others use: the last one answers for all."""
        redis_of_one, self._redis, self._is_shared = self._redis, None, True
        try:
            yield
        finally:
            self._redis, self._is_shared = redis_of_one, False
            self.empty_redis()

    def look(self) -> set[Thing]:
        """All there is."""
        found = {("process", pid, "") for pid in self.family.look() if pid != self._host} | _left_tasks
        found |= {each for each in _opened() if not each[2].startswith(LASTING_FILES)}
        for folder in self._folders:
            names = (name for name in os.listdir(folder) if not name.startswith(OF_SQLITE))
            found |= {("file", f"{folder}/{name}", "") for name in names}
        threads = (each for each in threading.enumerate() if not each.name.startswith(OF_A_LOOP))
        found |= {("thread", each.ident, each.name) for each in threads}
        if self._redis is not None:
            _, keys = self._redis.scan(count=NAMED_MAX)
            found |= {("key", str(key), "") for key in keys}
        return found

    def begin(self) -> None:
        """A test begins, where the one before ended."""
        if self._before is None:
            self._before = self.look()

    def lasts(self, owner: object, before: set[Thing]) -> None:
        """What came since is of this wider fixture until it ends."""
        self._lasting[owner] = self._new(before, self.look())

    def ends(self, owner: object) -> None:
        """It has ended, with all that it made."""
        self._lasting.pop(owner, None)

    def left(self, kinds: set[str]) -> list[str]:
        """What the test left behind of these, named. Its processes are killed."""
        if self._is_shared:
            return []
        before, self._before = self._before or set(), self.look()
        before |= {each for each in self._before if each[0] not in kinds}
        if not self._new(before, self._before):
            return []
        gc.collect()
        left = {each for each in self._after_a_while(before) if each[0] in kinds}
        named = sorted(_named(thing) for thing in left)
        living.kill(which for kind, which, _ in left if kind == "process")
        _left_tasks.clear()
        self._before = self.look()
        return named[:NAMED_MAX]

    def _new(self, before: set[Thing], now: set[Thing]) -> set[Thing]:
        """What there is now, was not there then, and is no lasting fixture's: nor came in at its door."""
        lasting = set[Thing]().union(*self._lasting.values())
        fresh = now - before - lasting
        if not fresh:
            return fresh
        hosts = {which for kind, which, _ in lasting if kind == "process"}
        living_on = self.family.left({which for kind, which, _ in fresh if kind == "process"}, hosts)
        kept = {thing for thing in fresh if thing[0] != "process" or thing[1] in living_on}
        doors = {_address(thing[1]) for thing in lasting if _is_socket(thing) and _listens(thing[1])}
        return {thing for thing in kept if not _is_socket(thing) or _address(thing[1]) not in doors - {None}}

    def _after_a_while(self, before: set[Thing]) -> set[Thing]:
        lived, last = 0.0, monotonic()
        while (left := self._new(before, self.look())) and lived < GONE_SECONDS:
            sleep(BEAT_SECONDS)
            lived, last = lived + min(monotonic() - last, BEAT_SECONDS_MAX), monotonic()
        return left


def _opened() -> set[Thing]:
    found = set[Thing]()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(("open", int(name), os.readlink(f"/proc/self/fd/{name}")))
    return found


def _named(thing: Thing) -> str:
    kind, which, more = thing
    if kind == "process":
        return living.shown(which)
    if kind == "open":
        return _socket(which) if _is_socket(thing) else f"open {more}"
    return f"{kind} {more or which}"


def _is_socket(thing: Thing) -> bool:
    return thing[0] == "open" and thing[2].startswith("socket:")


def _socket(fd: int) -> str:
    return f"listening port {_address(fd)}" if _listens(fd) else f"open socket {_address(fd)}{_other(fd)}"


def _listens(fd: int) -> bool:
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as opened:
        return bool(opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False


def _address(fd: int) -> Any:
    """Its own: an accepted one's is that of who listens. None where it has none."""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as opened:
        return opened.getsockname() or None
    return None


def _other(fd: int) -> str:
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as opened:
        return f" to {opened.getpeername()}"
    return ""


def _remember_tasks() -> None:
    """A loop that closes cancels what runs on it, and tells nobody. SQLAlchemy closes the connection of
    somebody who was cut off in a task of its own: that one is waited for."""
    runners: Any = asyncio.runners
    cancel_all = runners._cancel_all_tasks

    def told(loop: asyncio.AbstractEventLoop) -> None:
        if closing := [task for task in asyncio.all_tasks(loop) if CLOSING in str(task.get_coro())]:
            loop.run_until_complete(asyncio.wait(closing))
        left = (
            set[Any]() if patience.leaps(loop) else asyncio.all_tasks(loop)
        )  # what was played in virtual time
        for task in left:
            _left_tasks.add(("task", task.get_name(), str(task.get_coro())))
        cancel_all(loop)

    runners._cancel_all_tasks = told


class LeakWatch:
    """The hooks of a process that runs tests."""

    def __init__(self, leaks: Leaks) -> None:
        self._leaks = leaks

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        """What is there now was not left by this one."""
        self._leaks.begin()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        """A wider fixture's things are no test's."""
        if fixturedef.scope == "function":
            return (yield)
        before = self._leaks.look()
        try:
            return (yield)
        finally:
            self._leaks.lasts(fixturedef, before)

    def pytest_fixture_post_finalizer(self, fixturedef: Any) -> None:
        """Nor may they stay when it has ended."""
        self._leaks.ends(fixturedef)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """After all else."""
        kinds = OF_ENGINES if item.get_closest_marker("vllm") is not None else ALL
        try:
            outcome = yield
        except BaseException:
            item.add_report_section("teardown", "leaks", "; ".join(self._leaks.left(kinds)))
            raise
        left = self._leaks.left(kinds)
        if left:
            pytest.fail(f"left behind: {'; '.join(left)}\nby {item.nodeid}: {REMEDY}", pytrace=False)
        return outcome


def pytest_configure(config: pytest.Config) -> None:
    """Where tests run."""
    if shared.runs_tests(config):
        config.stash[LEAKS] = Leaks(shared.own_folders(config), os.environ[living.MARK])
        config.pluginmanager.register(LeakWatch(config.stash[LEAKS]), "leaks of this process")
        _remember_tasks()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Its exit status is set at the very end."""
    session.config.stash[SESSION] = session


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """All has ended: what lives on was left by somebody. It is killed, and fails the run."""
    if shared.is_worker(config) or SESSION not in config.stash:
        return
    left = living.marked(config.stash[shared.FOLDERS][0].name)
    for pid in left:
        print(f"LEFT BEHIND by the run: {living.shown(pid)}")
    living.kill(left)
    if left:
        config.stash[SESSION].exitstatus = pytest.ExitCode.TESTS_FAILED
