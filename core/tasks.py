"""Ending asyncio tasks for certain."""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
CANCEL_AGAIN_SECONDS = 0.2


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel, again where it was lost: redis-py swallows a cancellation while it connects.

    Cancelled itself, it ends them all the same: else a second cancellation would leave tasks that live on."""
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


class Group(asyncio.TaskGroup):
    """A TaskGroup whose end is certain: it cancels its tasks again where that was lost."""

    def __init__(self) -> None:
        super().__init__()
        self._running = set[asyncio.Task[Any]]()

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **facts: Any
    ) -> asyncio.Task[T]:
        """As asyncio.TaskGroup has it."""
        task = super().create_task(coro, **facts)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def __aexit__(self, *raised: Any) -> None:
        again = asyncio.create_task(self._cancel_again())
        try:
            await super().__aexit__(*raised)
        finally:
            again.cancel()

    async def _cancel_again(self) -> None:
        while True:
            await asyncio.sleep(CANCEL_AGAIN_SECONDS)
            for task in list(self._running):
                if task.cancelling():
                    task.cancel()
