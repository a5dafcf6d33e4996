"""Work that takes a processor for long, as checking many patterns does, one after the other in a thread, with
turns that go round those for whom it is done."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from core.errors import Refusal, Refused

T = TypeVar("T")
WAITING_MAX = 8  # with the one at work
WAITING_OF_ONE_MAX = 2  # of one tenant, or of the platform's staff together
AFTER_MS = 2000


class OneAtATime:
    """Runs work that takes a processor for long in a thread, one after the other. Who waits holds no thread,
    so that it holds nobody else up. Turns go round those who ask (`whose`: a tenant, of staff PLATFORM).
    Where many wait already, or this one does, one more is refused."""

    def __init__(self) -> None:
        self._line: tuple[asyncio.AbstractEventLoop, _Line] | None = None

    async def run(self, whose: str, work: Callable[..., T], *facts: Any) -> T:
        """What the work returns. Raises Refused where WAITING_MAX are here, or WAITING_OF_ONE_MAX of `whose`.
        Work whose caller is gone keeps the turn until its thread ends."""
        line = self._line_here()
        await line.enter(whose)
        context, loop = copy_context(), asyncio.get_running_loop()
        working = loop.run_in_executor(None, lambda: context.run(work, *facts))
        working.add_done_callback(lambda ended: line.leave(whose, ended))
        return await asyncio.shield(working)

    def _line_here(self) -> "_Line":
        """The line of this event loop, of which a process has one after the other."""
        loop = asyncio.get_running_loop()
        if self._line is None or self._line[0] is not loop:
            self._line = loop, _Line()
        return self._line[1]


@dataclass(frozen=True, eq=False)
class _Waiter:
    """Somebody who waits, for a turn in this round."""

    round: int
    turn: asyncio.Future[None]


class _Line:
    """Who is at work and who waits, in one event loop. Everybody has one turn in a round: who comes takes
    part in this round, or behind their own last turn. `last`: that one's round, unless it is long over."""

    def __init__(self) -> None:
        self.here = Counter[str]()
        self.at_work = False
        self.waiting: list[_Waiter] = []
        self.round = 0
        self.last: dict[str, int] = {}

    async def enter(self, whose: str) -> None:
        """Wait for a turn. Raises Refused where too many are here."""
        if self.here[whose] >= WAITING_OF_ONE_MAX:
            whose_own = "your tenant's" if whose else "the platform's staff's"
            _refuse(f"{whose_own} own questions of this kind are being worked on")
        if self.here.total() >= WAITING_MAX:
            _refuse("others' questions of this kind are being worked on")
        self.here[whose] += 1
        number = self.last[whose] = max(self.round, self.last.get(whose, -1) + 1)
        if not self.at_work:
            self._begin(number)
            return
        waiter = _Waiter(number, asyncio.get_running_loop().create_future())
        self.waiting.append(waiter)
        try:
            await waiter.turn
        except BaseException:
            if waiter in self.waiting:
                self.waiting.remove(waiter)
                self.here[whose] -= 1
            else:
                self._pass_on(whose)
            raise

    def leave(self, whose: str, working: asyncio.Future[Any]) -> None:
        """The work has ended: the next one's turn."""
        self._pass_on(whose)
        if not working.cancelled():
            working.exception()  # its caller may be gone

    def _pass_on(self, whose: str) -> None:
        self.here[whose] -= 1
        self.at_work = False
        waiting = [each for each in self.waiting if not each.turn.done()]
        if not waiting:
            return
        following = min(waiting, key=lambda each: each.round)  # of one round who came first
        self.waiting.remove(following)
        self._begin(following.round)
        following.turn.set_result(None)

    def _begin(self, number: int) -> None:
        self.at_work, self.round = True, number
        self.last = {whose: last for whose, last in self.last.items() if last >= number}
        self.here = +self.here


def _refuse(why: str) -> NoReturn:
    raise Refused(Refusal("overloaded", f"{why}: ask again in a moment", retry=True, after_ms=AFTER_MS))
