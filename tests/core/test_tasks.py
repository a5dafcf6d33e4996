"""Tasks that were ended have ended, however slowly they go."""

import asyncio
import contextlib

import pytest

from core import tasks
from core.tasks import CANCEL_AGAIN_SECONDS, EndingTaskGroup, TaskSet, cancel_tasks, whole
from tests.support.patience import BEAT_SECONDS, forever, patience, pause


async def _slow_to_end() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        until = asyncio.get_running_loop().time() + 2 * CANCEL_AGAIN_SECONDS
        while (left := until - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(left)


async def test_whoever_is_cancelled_again_still_ends_its_children():
    """The second cancellation comes while the first one's cleanup waits for a slow child."""
    child = asyncio.create_task(_slow_to_end())

    async def parent() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await cancel_tasks([child])

    outer = asyncio.create_task(parent())
    await asyncio.sleep(0)
    await cancel_tasks([outer])
    assert outer.cancelled()
    assert child.done()


async def test_what_is_to_be_whole_ends_before_its_caller_does(monkeypatch: pytest.MonkeyPatch):
    """However often the caller is cancelled; what does not end is cancelled after a while."""
    go_on, done = asyncio.Event(), list[str]()

    async def work() -> str:
        await go_on.wait()
        done.append("whole")
        return "said"

    caller = asyncio.create_task(whole(work()))
    await asyncio.sleep(0)
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0)
    assert not caller.done()
    go_on.set()
    await asyncio.wait([caller])
    assert (caller.cancelled(), done) == (True, ["whole"])
    assert await whole(work()) == "said"
    monkeypatch.setattr(tasks, "WHOLE_SECONDS_MAX", 0.0)
    go_on.clear()
    endless = asyncio.create_task(whole(work()))
    await asyncio.sleep(0)
    await cancel_tasks([endless])
    assert (endless.cancelled(), len(done)) == (True, 2)


async def test_a_cancellation_is_not_lost():
    """Cancelled while it ends others in the normal course of things, it says so once they have ended."""
    child = asyncio.create_task(_slow_to_end())
    await asyncio.sleep(0)
    ending = asyncio.create_task(cancel_tasks([child]))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert child.done()


async def test_a_group_ends_a_task_that_lost_its_cancellation():
    """As a call to Redis does that is cancelled in the moment when it is done."""
    lost: list[bool] = []

    async def loses_one() -> None:
        while True:
            try:
                await forever()
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append(True)

    async def parent() -> None:
        async with EndingTaskGroup() as group:
            group.create_task(loses_one())

    outer = asyncio.create_task(parent())
    await pause(BEAT_SECONDS)
    outer.cancel()
    async with patience():
        with pytest.raises(asyncio.CancelledError):
            await outer
    assert lost


async def test_a_group_whose_task_fails_ends_the_others():
    """Also one that loses its cancellation; the error is the group's."""
    ended: list[int] = []

    async def stubborn() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await forever()
            ended.append(1)

    async def fails() -> None:
        await pause(BEAT_SECONDS)
        raise ValueError("broken")

    async def parent() -> None:
        async with patience(), EndingTaskGroup() as group:
            group.create_task(stubborn())
            group.create_task(fails())

    with pytest.raises(ExceptionGroup):
        await parent()
    assert len(ended) == 3


async def test_a_group_leaves_its_tasks_timeouts_alone(monkeypatch: pytest.MonkeyPatch):
    """A timeout cancels its task for a moment: cancelled once more in it, the task would end."""
    monkeypatch.setattr(tasks, "CANCEL_AGAIN_SECONDS", 0)
    waits = 0

    async def waits_in_vain() -> None:
        nonlocal waits
        while waits < 20:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    await forever()
            waits += 1

    async with EndingTaskGroup() as group:
        group.create_task(waits_in_vain())
    assert waits == 20


async def test_a_task_is_kept_until_it_is_done():
    """However it ends; who asked to be told of that finds it gone."""
    kept, left, may_end = TaskSet(), list[int](), asyncio.Event()

    async def fails() -> None:
        await may_end.wait()
        raise ValueError("its own affair")

    good, bad = kept.start(may_end.wait()), kept.start(fails())
    for task in (good, bad):
        task.add_done_callback(lambda _: left.append(len(kept)))
    running = kept.running
    running.clear()  # a copy
    assert (len(kept), kept.running) == (2, {good, bad})
    may_end.set()
    await asyncio.wait([good, bad])
    assert (left, kept.running, bool(kept)) == ([1, 0], set(), False)
    assert isinstance(bad.exception(), ValueError)
