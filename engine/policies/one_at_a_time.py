"""Work that takes a processor for long, as checking many patterns does, one after the other in a thread."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from core.errors import Refusal, Refused

T = TypeVar("T")
WAITING_MAX = 8  # with the one at work
AFTER_MS = 2000


class OneAtATime:
    """Runs work that takes a processor for long in a thread, one after the other. Who waits holds no thread,
    so that it holds nobody else up. Where many wait already, one more is refused."""

    def __init__(self) -> None:
        self._line: tuple[asyncio.AbstractEventLoop, _Line] | None = None

    async def run(self, work: Callable[..., T], *facts: Any) -> T:
        """What the work returns. Raises Refused where WAITING_MAX are here. Work whose caller is gone keeps
        the turn until its thread ends."""
        line = self._line_here()
        if line.here >= WAITING_MAX:
            told = "others' questions of this kind are being worked on: ask again in a moment"
            raise Refused(Refusal("overloaded", told, retry=True, after_ms=AFTER_MS))
        line.here += 1
        try:
            await line.turn.acquire()
        except BaseException:
            line.here -= 1
            raise
        context, loop = copy_context(), asyncio.get_running_loop()
        working = loop.run_in_executor(None, lambda: context.run(work, *facts))
        working.add_done_callback(line.leave)
        return await asyncio.shield(working)

    def _line_here(self) -> "_Line":
        """The line of this event loop, of which a process has one after the other."""
        loop = asyncio.get_running_loop()
        if self._line is None or self._line[0] is not loop:
            self._line = loop, _Line()
        return self._line[1]


class _Line:
    """Who is at work and who waits, in one event loop."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.here = 0

    def leave(self, working: asyncio.Future[Any]) -> None:
        """The work has ended: the next one's turn."""
        self.here -= 1
        self.turn.release()
        if not working.cancelled():
            working.exception()  # its caller may be gone
