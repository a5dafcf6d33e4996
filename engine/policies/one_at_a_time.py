"""Work that takes a processor for long, as checking many patterns does, one after the other in threads."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from core.errors import Refusal, Refused

T = TypeVar("T")
WAITING_MAX = 8


class OneAtATime:
    """Runs work that takes a processor for long in a thread, one after the other: it holds nobody else
    up. Where many wait already, one more is refused."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._here = 0

    async def run(self, work: Callable[..., T], *facts: Any) -> T:
        """What the work returns. Raises Refused where WAITING_MAX are here."""
        if self._here >= WAITING_MAX:
            told = "others' questions of this kind are being worked on: ask again in a moment"
            raise Refused(Refusal("overloaded", told, retry=True, after_ms=2000))
        self._here += 1
        try:
            return await asyncio.to_thread(self._in_turn, work, *facts)
        finally:
            self._here -= 1

    def _in_turn(self, work: Callable[..., T], *facts: Any) -> T:
        with self._turn:
            return work(*facts)
