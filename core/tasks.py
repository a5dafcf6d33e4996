"""Ending asyncio tasks for certain."""

import asyncio
from collections.abc import Iterable
from typing import Any

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
