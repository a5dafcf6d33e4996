"""One read for all who ask at the same time: many open pages cost as much as one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from core.clock import monotonic

Value = TypeVar("Value")


class SharedReads(Generic[Value]):
    """Reads of one thing, one after the other. Who asks while it is read gets what is read; who asks later
    has it read anew, so that nobody sees what was true before they asked, but for the time of one read."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._last: tuple[float, Value] | None = None  # when it was read, and what

    async def get(self, read: Callable[[], Awaitable[Value]]) -> Value:
        """What `read` says, or said while this was asked."""
        asked = monotonic()
        async with self._reading:
            if self._last is None or self._last[0] < asked:
                value = await read()
                self._last = monotonic(), value
            return self._last[1]
