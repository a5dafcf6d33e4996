"""Runs asyncio tasks to their end, and ends them for certain."""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
CANCEL_AGAIN_SECONDS = 0.2
WHOLE_SECONDS_MAX = 5.0


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, again where that was lost: redis-py swallows a cancellation while it connects. Where the
    caller is cancelled too it still ends them all: else a second cancellation would leave tasks alive."""
    current = asyncio.current_task()
    leaving = current is not None and current.cancelling() > 0
    interrupted = False
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        try:
            _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_SECONDS)
        except asyncio.CancelledError:
            interrupted = True
            pending = {task for task in pending if not task.done()}
    if interrupted and not leaving:
        raise asyncio.CancelledError


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Run this, which ends soon, and return what it does. Cancellations wait a while for its end: half of a
    connection to a store would stay open."""
    task, clock = asyncio.create_task(work), asyncio.get_running_loop().time
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        until = clock() + WHOLE_SECONDS_MAX
        while not task.done() and (left := until - clock()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task], timeout=left)
        await cancel_tasks([] if task.done() else [task])
        if not task.cancelled():
            task.exception()  # nobody asks for it any more, and asyncio would complain
        raise


async def run_until(stop: asyncio.Event, work: Coroutine[Any, Any, T], grace_seconds: float) -> T | None:
    """Run this to its end and return what it does. Once `stop` is set it has `grace_seconds`, and is
    cancelled then: None."""
    task, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((task,), timeout=grace_seconds)
    finally:
        await cancel_tasks((task, stopping))
    return None if task.cancelled() else task.result()


class TaskSet:
    """Tasks that nobody awaits. Each is held until it is done: asyncio itself would let them be collected."""

    __slots__ = ("_running",)  # every idle connection has one

    def __init__(self) -> None:
        self._running = set[asyncio.Task[Any]]()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run this to its end. A callback added to the task runs after it is dropped here."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    @property
    def running(self) -> set[asyncio.Task[Any]]:
        """Tasks that are not done."""
        return set(self._running)

    def __len__(self) -> int:
        return len(self._running)


class EndingTaskGroup(asyncio.TaskGroup):
    """A TaskGroup that ends for certain: it cancels its tasks again where that was lost."""

    def __init__(self) -> None:
        super().__init__()
        self._running = set[asyncio.Task[Any]]()
        self._failed = False

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **facts: Any
    ) -> asyncio.Task[T]:
        """As asyncio.TaskGroup has it."""
        task = super().create_task(coro, **facts)
        self._running.add(task)
        task.add_done_callback(self._has_ended)
        return task

    async def __aexit__(self, *raised: Any) -> None:
        self._failed = self._failed or raised[0] is not None
        again = asyncio.create_task(self._cancel_again(asyncio.current_task()))
        try:
            await super().__aexit__(*raised)
        finally:
            again.cancel()

    def _has_ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failed = True

    async def _cancel_again(self, parent: asyncio.Task[Any] | None) -> None:
        while True:
            await asyncio.sleep(CANCEL_AGAIN_SECONDS)
            # Do not decide by `task.cancelling()`: a task whose own timeout runs out counts as cancelled for
            # a moment, and cancelled once more in it, it would end.
            if self._failed or (parent is not None and parent.cancelling()):
                for task in list(self._running):
                    task.cancel()
