"""How long tests wait: in lived time, which a pause of machine, collector or scheduler does not use up.

A heart beats on the event loop (in code without one: in a loop of small sleeps) and counts what passed since
its last beat, 50 ms at most. Every deadline of a test is one of these constants; most are for hangs.
"""

import asyncio
import inspect
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary

T = TypeVar("T")
BEAT_SECONDS = 0.02
BEAT_SECONDS_MAX = 0.05  # a later beat was a pause
HANG_SECONDS = 20.0  # lived: nothing that is only slow takes so long
START_SECONDS = 60.0  # lived: a process that imports all of Parley, beside others that do
RUN_SECONDS = 100.0  # lived: a command that does a whole piece of work
ENGINE_SECONDS = 300.0  # lived: vLLM with a model
PROMPT_SECONDS = 2.0  # lived: what people would call at once
QUIET_SECONDS = 0.2  # lived: what was going to come has come
FLOOD_SECONDS = 2.0  # lived: how long a flood or an outage lasts
ROUND_TRIP_SECONDS = 1.0  # lived: a ping beside a flood
TEST_SECONDS = 120.0  # lived: a test that lasts longer hangs (tests/support/hangs.py)
LONG_TEST_SECONDS = 400.0  # lived: one that shrinks its failure or uses an engine; what fixtures take
ENGINE_TEST_SECONDS = 900.0  # lived: a test that starts engines
UNWIND_SECONDS = 20.0  # lived: a test that was told that it hangs has ended
WALL_SHARE_MAX = 3.0  # so much longer by the wall, it hangs: the machine is not paused for ever


def wall_seconds_max(seconds: float) -> float:
    """How long `seconds` of lived time may take by the wall."""
    return max(seconds, HANG_SECONDS) * WALL_SHARE_MAX


def leaps(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether its time is not the wall's: no pause is in it, and no heart needs to beat."""
    return getattr(loop, "leaps", False)


class _Heart:
    """What one event loop lived while somebody watched."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lived = 0.0
        self._last = 0.0
        self._next: asyncio.TimerHandle | None = None
        self.watchers: list[Callable[[], None]] = []

    @property
    def lived(self) -> float:
        if leaps(self._loop):
            return self._loop.time()
        return self._lived + min(self._loop.time() - self._last, BEAT_SECONDS_MAX)

    def watch(self, look: Callable[[], None]) -> None:
        if not self.watchers and not leaps(self._loop):
            self._last = self._loop.time()
            self._next = self._loop.call_later(BEAT_SECONDS, self._beat)
        self.watchers.append(look)

    def leave(self, look: Callable[[], None]) -> None:
        self._lived, self._last = self.lived, self._loop.time()
        self.watchers.remove(look)
        if not self.watchers and self._next is not None:
            self._next.cancel()

    def _beat(self) -> None:
        self._lived, self._last = self.lived, self._loop.time()
        self._next = self._loop.call_later(BEAT_SECONDS, self._beat)
        for look in list(self.watchers):
            look()


_HEARTS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Heart] = WeakKeyDictionary()


class LivedTime:
    """`with Lived() as lived:` what the running loop lives inside the block: `lived.seconds`."""

    def __init__(self, seconds_max: float | None = None, tell: Callable[[], None] = lambda: None) -> None:
        self._seconds_max = seconds_max
        self._tell = tell
        self._kept: float | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._heart = _HEARTS.setdefault(self._loop, _Heart(self._loop))
        self._heart.watch(self._look)
        self._began, self._wall = self._heart.lived, self._loop.time()
        return self

    def __exit__(self, *_: object) -> None:
        self._kept = self.seconds
        self._heart.leave(self._look)

    @property
    def seconds(self) -> float:
        """What was lived since the block began."""
        return self._heart.lived - self._began if self._kept is None else self._kept

    @property
    def wall_seconds(self) -> float:
        """What passed by the wall since then: for what must not come early."""
        return self._loop.time() - self._wall

    @property
    def over(self) -> bool:
        """Whether that is more than was granted."""
        if self._seconds_max is None:
            return False
        wall_seconds = wall_seconds_max(self._seconds_max)
        return self.seconds >= self._seconds_max or self.wall_seconds >= wall_seconds

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s lived, {self.wall_seconds:.2f} s by the wall"

    def _look(self) -> None:
        if self.over:
            self._tell()


@asynccontextmanager
async def patience(seconds: float = HANG_SECONDS) -> AsyncGenerator[LivedTime]:
    """asyncio.timeout in lived time."""
    loop, lived = asyncio.get_running_loop(), None
    limit = asyncio.timeout(seconds if leaps(loop) else None)
    try:
        async with limit:
            with LivedTime(
                seconds, lambda: None if limit.expired() else limit.reschedule(loop.time())
            ) as lived:
                yield lived
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"not within {lived}") from error


async def soon(awaitable: Awaitable[T], seconds: float = HANG_SECONDS) -> T:
    """asyncio.wait_for in lived time."""
    async with patience(seconds):
        return await awaitable


async def pause(seconds: float = QUIET_SECONDS) -> None:
    """asyncio.sleep in lived time: what else is due on this loop gets its turns."""
    with suppress(TimeoutError):
        async with patience(seconds):
            await forever()


async def forever() -> None:
    """What never ends by itself."""
    await asyncio.Event().wait()


async def wait_until(
    check: Callable[[], T | Awaitable[T]], seconds: float = HANG_SECONDS, interval: float = 0.01
) -> T:
    """The first truthy value of `check` (sync or async). Fails the test after `seconds` of lived time."""
    with LivedTime(seconds) as lived:
        while True:
            outcome = check()
            value = cast(T, await outcome if inspect.isawaitable(outcome) else outcome)
            if value:
                return value
            assert not lived.over, f"still {value!r} after {lived}"
            await asyncio.sleep(interval)


class _Sleeps:
    """Lived time of code that has no loop: it sleeps a little and looks again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._wall = self._last = time.monotonic()
        self.lived = 0.0

    def look(self) -> bool:
        """Whether patience lasts, counting what passed since the last look."""
        now = time.monotonic()
        self.lived += min(now - self._last, BEAT_SECONDS_MAX)
        self._last = now
        return self.lived < self._seconds and now - self._wall < wall_seconds_max(self._seconds)

    def __str__(self) -> str:
        return f"{self.lived:.2f} s lived, {self._last - self._wall:.2f} s by the wall"


def watch_until(
    check: Callable[[], T], seconds: float = HANG_SECONDS, why: Callable[[], str] = str, beats: float = 0.5
) -> T:
    """wait_until for code without a loop. `why`: what to say of a failure. `beats` between two looks: many,
    where what is waited for takes long and a look costs it time."""
    sleeps = _Sleeps(seconds)
    while True:
        value = check()
        if value:
            return value
        for _ in range(max(1, round(beats))):
            assert sleeps.look(), f"still {value!r} after {sleeps} {why()}"
            time.sleep(BEAT_SECONDS * min(1, beats))


def said(process: "subprocess.Popen[str]", seconds: float = RUN_SECONDS) -> tuple[str, str]:
    """What a process says until it ends. One that does not is killed and fails the test."""
    sleeps = _Sleeps(seconds)
    while True:
        try:
            return process.communicate(timeout=BEAT_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        if not sleeps.look():
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{process.args} runs on after {sleeps}: {out}{err}")


def ended(process: "subprocess.Popen[Any]", seconds: float = START_SECONDS) -> int:
    """A process's status, once it ended. One that does not is killed and fails the test."""
    try:
        watch_until(lambda: process.poll() is not None, seconds)
    except AssertionError:
        process.kill()
        process.wait()
        raise
    return process.returncode


def finished(
    command: Sequence[str], seconds: float = RUN_SECONDS, given: str = "", **options: Any
) -> "subprocess.CompletedProcess[str]":
    """subprocess.run in lived time, with what the command said as text."""
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.write(given)
        stdin.seek(0)
        options = {"stdin": stdin, "stdout": pipe, "stderr": pipe} | options
        with subprocess.Popen(command, text=True, **options) as process:
            out, err = said(process, seconds)
    return subprocess.CompletedProcess(command, process.returncode, out, err)
