"""What `parley up` runs: when it is started again, how it is ended, and that its logs stay small."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from admin import child_processes
from admin.child_processes import ChildProcess, rotate_logs, rotate_once
from core.access.processes import GATEWAY
from core.errors import StartupError
from tests.server.virtual.loop import passed, passing, played

ALWAYS_SECONDS = 1e9


class StubProcess:
    """One that runs so long, and then takes so long to end; killed it ends within a second."""

    def __init__(self, lasts_seconds: float, ends_seconds: float, code: int) -> None:
        self.returncode: int | None = None
        self.told = list[str]()
        self._ends_seconds, self._code = ends_seconds, code
        self._ended = asyncio.Event()
        self._timer = asyncio.get_running_loop().call_later(lasts_seconds, self._end, code)

    def _end(self, code: int) -> None:
        self.returncode = code
        self._timer.cancel()
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self.told.append("terminate")
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._ends_seconds, self._end, 143)

    def kill(self) -> None:
        self.told.append("kill")
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(1, self._end, 137)


class ChildrenContext:
    """A child whose processes are these, and when each was started."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts = list[Callable[[], StubProcess]]()
        self.running = list[StubProcess]()
        self.began = list[float]()
        self.said = list[str]()
        (home / "logs").mkdir()
        self.child = ChildProcess(GATEWAY, ["gateway", "--x"], home, {"MORE": "1"}, self.said.append)
        monkeypatch.setattr(child_processes, "spawn", self._spawn)

    async def _spawn(self, argv: Sequence[str], env: Mapping[str, str], log: Path) -> StubProcess:
        assert argv[1:] == ["-m", "core.cli", "gateway", "--x"]
        assert (env["MORE"], log.name) == ("1", "gateway.log")
        self.began.append(passed())
        if not self.starts:
            raise StartupError("cannot start python: Permission denied")
        self.running.append(self.starts.pop(0)())
        return self.running[-1]

    @property
    def waits(self) -> list[float]:
        return [round(b - a, 3) for a, b in zip(self.began, self.began[1:], strict=False)]


@pytest.fixture
def stage(home: Path, monkeypatch: pytest.MonkeyPatch) -> ChildrenContext:
    """Nothing of it is a process."""
    return ChildrenContext(home, monkeypatch)


def ending(lasts_seconds: float, code: int = 1) -> Callable[[], StubProcess]:
    """A start of one that lasts so long by itself."""
    return lambda: StubProcess(lasts_seconds, 0.0, code)


async def soon_stopped(stage: ChildrenContext, after_seconds: float) -> None:
    """Run it so long, then stop it."""
    running = asyncio.create_task(stage.child.run())
    await passing(after_seconds)
    await stage.child.stop()
    await running


def test_what_ends_is_started_again_ever_slower_until_it_is_stable(stage: ChildrenContext):
    """1 s, 2, 4, 8, then 10 at most; what ran for over 30 s is started again at once and counts anew."""
    stage.starts = [ending(0, 3) for _ in range(6)] + [
        ending(30.0),
        ending(30.5),
        ending(0),
        ending(ALWAYS_SECONDS),
    ]
    played(soon_stopped(stage, 1000.0))
    assert stage.waits == [1, 2, 4, 8, 10, 10, 40, 30.5, 1]
    assert stage.running[-1].told == ["terminate"]
    assert len(stage.said) == 9
    told = f"gateway ended with code 3 and is started again: nothing logged (log: {stage.child.log})"
    assert stage.said[0] == told


def test_what_could_be_started_once_is_tried_for_ever(stage: ChildrenContext):
    """The first time it is an error; later it may come back: a full disk, a lack of memory."""
    with pytest.raises(StartupError, match="Permission denied"):
        played(stage.child.run())
    assert stage.said == []
    stage.began.clear()
    stage.starts = [ending(0)]
    played(soon_stopped(stage, 16.0))
    assert stage.waits == [1, 2, 4, 8]
    assert stage.said[1:] == ["cannot start python: Permission denied"] * 4


def test_stopping_asks_first_and_kills_what_does_not_end_in_time(stage: ChildrenContext):
    """8 s, and waits until it has ended; nothing of it is told as a fault, and nothing is started again."""

    async def day(ends_seconds: float) -> float:
        stage.starts = [lambda: StubProcess(ALWAYS_SECONDS, ends_seconds, 0)] * 2
        stage.child = ChildProcess(
            GATEWAY, ["gateway", "--x"], stage.child.log.parent.parent, {"MORE": "1"}, stage.said.append
        )
        running = asyncio.create_task(stage.child.run())
        await passing(1)
        began = passed()
        await stage.child.stop()
        took = passed() - began
        await running
        await stage.child.stop()  # ended already: nobody is asked
        return round(took, 3)

    assert [played(day(seconds)) for seconds in (0, 7.9, 8.1)] == [0, 7.9, 8 + 1]
    assert [each.told for each in stage.running] == [["terminate"], ["terminate"], ["terminate", "kill"]]
    assert stage.said == []


def test_one_that_is_stopped_before_it_began_never_begins(stage: ChildrenContext):
    """Nothing runs that could be asked to end."""

    async def day() -> None:
        await stage.child.stop()
        await stage.child.run()

    played(day())
    assert stage.began == []


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (b"", "nothing logged"),
        (b"one\ntwo \n\n", "two"),
        (b"a\n" + b"b" * 400, "b" * 300),
        (b"a\n" + b"c" * 5000 + b"\nlast", "last"),
        (b"first " + b"d" * 4090 + b"\n", "irst " + "d" * 295),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_the_end_of_a_log_says_why(stage: ChildrenContext, log: bytes, told: str):
    """Its last line, of which the first 300 characters."""
    stage.child.log.write_bytes(log)
    assert stage.child._last_line() == f"{told} (log: {stage.child.log})"


def test_a_log_that_is_too_long_is_moved_aside(home: Path):
    """One at the limit is not; the copy before is written over; one that cannot be moved stays, and the
    others do not wait for it."""
    (home / "a.log").write_bytes(b"x" * 101)
    (home / "a.log.1").write_bytes(b"older")
    (home / "b.log").write_bytes(b"y" * 100)
    (home / "c.txt").write_bytes(b"z" * 101)
    (home / "d.log").write_bytes(b"1" * 101)
    (home / "d.log.1").mkdir()
    (home / "e.log").write_bytes(b"2" * 101)
    with (home / "a.log").open("ab") as writer:
        rotate_once(home, 100)
        writer.write(b"more")
    files = {each.name: each.read_bytes() for each in home.iterdir() if each.is_file()}
    assert files == {
        "a.log": b"more",
        "a.log.1": b"x" * 101,
        "b.log": b"y" * 100,
        "c.txt": b"z" * 101,
        "d.log": b"1" * 101,
        "e.log": b"",
        "e.log.1": b"2" * 101,
    }


def test_logs_are_looked_at_every_half_minute(home: Path, monkeypatch: pytest.MonkeyPatch):
    """For 16 MiB, at once and for ever."""
    seen = list[tuple[float, Path, int]]()

    async def here(work: Callable[..., None], *arguments: Any) -> None:
        assert work is rotate_once
        seen.append((passed(), *arguments))

    async def day() -> None:
        rotating = asyncio.create_task(rotate_logs(home))
        await passing(70)
        rotating.cancel()

    monkeypatch.setattr(asyncio, "to_thread", here)
    played(day())
    assert seen == [(seconds, home, 16 * 1024 * 1024) for seconds in (0, 30, 60)]
