"""Waiting of tests: a pause of the machine does not use it up, a hang does, and so does a pause for ever."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.server.virtual.loop import played
from tests.support import patience as module
from tests.support.patience import (
    BEAT_SECONDS_MAX,
    HANG_SECONDS,
    LivedTime,
    ended,
    finished,
    forever,
    patience,
    pause,
    said,
    soon,
    wait_until,
    wall_seconds_max,
    watch_until,
)

Jump = Callable[[float], None]


@pytest.fixture
async def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """Lets the machine stand still for so many seconds, without waiting for them."""
    loop, stood, clock = asyncio.get_running_loop(), [0.0], time.monotonic
    monkeypatch.setattr(loop, "time", lambda: clock() + stood[0])
    monkeypatch.setattr(module.time, "monotonic", lambda: clock() + stood[0])

    def stand(seconds: float) -> None:
        stood[0] += seconds

    return stand


async def test_a_pause_is_not_lived(jump: Jump) -> None:
    """However long it is, it counts as one late beat."""
    with LivedTime() as lived:
        jump(50.0)
        await asyncio.sleep(0)
        assert lived.seconds <= 2 * BEAT_SECONDS_MAX
        assert "50" in str(lived)
    kept = lived.seconds
    jump(1.0)
    assert lived.seconds == kept


async def test_what_comes_after_a_pause_came_in_time(jump: Jump) -> None:
    """Ten pauses of most of the deadline, and the deadline has not passed."""
    looks: list[int] = []

    def tenth() -> bool:
        looks.append(1)
        jump(4.0)
        return len(looks) == 10

    await wait_until(tenth)
    async with patience():
        for _ in range(10):
            jump(4.0)
            await asyncio.sleep(0)


async def test_what_hangs_runs_out_of_patience() -> None:
    """Each way of waiting ends what never comes, and says how long it waited."""
    with pytest.raises(TimeoutError, match=r"not within 0\.\d+ s lived"):
        await soon(forever(), 0.1)
    with pytest.raises(AssertionError, match=r"still 0 after 0\.\d+ s lived"):
        await wait_until(lambda: 0, 0.1)
    with pytest.raises(AssertionError, match="still False after"):
        watch_until(lambda: False, 0.1)


async def test_a_pause_for_ever_is_a_hang(jump: Jump) -> None:
    """By the wall patience ends too, late."""

    def stands() -> bool:
        jump(wall_seconds_max(HANG_SECONDS) / 4)
        return False

    with pytest.raises(AssertionError, match="by the wall"):
        await wait_until(stands)
    with pytest.raises(AssertionError, match="by the wall"):
        watch_until(stands)


async def test_another_timeout_stays_what_it_is() -> None:
    """A TimeoutError of what is waited for is not patience's; a cancelled wait is cancelled."""
    with pytest.raises(TimeoutError, match="its own"):
        async with patience():
            raise TimeoutError("its own")
    waiting = asyncio.create_task(soon(forever()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_pauses_and_deadlines_end_inside_each_other() -> None:
    """One heart beats for all that wait on a loop."""
    async with patience():
        await asyncio.gather(pause(0.03), pause(0.05))
        with pytest.raises(TimeoutError):
            async with patience(0.03):
                await forever()


def test_time_that_leaps_needs_no_heart() -> None:
    """An hour of patience is over in an hour of such a loop's time, and in no time of the machine's."""

    async def waits() -> float:
        with LivedTime() as lived, pytest.raises(TimeoutError):
            await soon(forever(), 3600.0)
        await pause(60.0)
        return lived.seconds

    assert played(waits()) == 3600.0


def test_a_process_is_waited_for() -> None:
    """What it was given reaches it, and one that stays is killed."""
    echo = [sys.executable, "-c", "import sys; print(sys.stdin.read()); sys.exit(3)"]
    done = finished(echo, given="word" * 100_000)
    assert (done.stdout, done.returncode) == ("word" * 100_000 + "\n", 3)
    with subprocess.Popen(["sleep", "100"], text=True, stdout=subprocess.PIPE) as stays:
        with pytest.raises(AssertionError, match="runs on"):
            said(stays, 0.1)
        assert stays.returncode != 0


async def test_who_joins_takes_no_lived_time_away(jump: Jump) -> None:
    """Of those who watch already; and once nobody does, no heart beats."""
    with LivedTime() as first:
        jump(0.04)
        with LivedTime():
            assert first.seconds >= 0.04
    beat = module._HEARTS[asyncio.get_running_loop()]._next
    assert beat is not None
    assert beat.cancelled()


def test_short_patience_has_the_wall_time_of_a_hang() -> None:
    """A pause is as long for a deadline of a tenth of a second as for any other."""
    assert (wall_seconds_max(0.1), wall_seconds_max(20.0), wall_seconds_max(100.0)) == (60.0, 60.0, 300.0)


@pytest.mark.parametrize(
    ("beats", "slept"), [(0.5, [0.01]), (1, [0.02]), (3, [0.02, 0.02, 0.02])], ids=["half", "one", "three"]
)
def test_a_dear_look_is_rare(beats: float, slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """So many beats lie between two looks, each of a heart's length at most."""
    sleeps = list[float]()
    monkeypatch.setattr(module.time, "sleep", sleeps.append)
    assert watch_until(lambda: sleeps[:], beats=beats) == slept


def test_a_process_that_stays_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """And fails the test."""
    done = list[str]()

    def note(word: str) -> Callable[[], None]:
        return lambda: done.append(word)

    process: Any = SimpleNamespace(poll=lambda: None, kill=note("kill"), wait=note("wait"), returncode=-9)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)  # pyright: ignore[reportUnknownLambdaType]
    with pytest.raises(AssertionError, match="still False"):
        ended(process, 0.001)
    assert done == ["kill", "wait"]


def test_a_process_is_run_as_its_options_say() -> None:
    """Both of its streams in one."""
    speaks = [sys.executable, "-S", "-c", "import sys; print('error', file=sys.stderr)"]
    done = finished(speaks, stderr=subprocess.STDOUT)
    assert (done.stdout, done.stderr) == ("error\n", None)
