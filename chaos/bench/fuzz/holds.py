"""How long each callback of the event loop holds it, in CPU time of the loop's thread.

CPU time and not the clock's, so that other processes of a busy machine do not count.
"""

import asyncio
import gc
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Holds:
    """The longest hold, and during which input it was."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self.during: list[str] = []
        self.now = ""

    def took(self, seconds: float) -> None:
        """One callback did."""
        if seconds > self.longest_seconds:
            self.longest_seconds = seconds
            self.during.append(f"{seconds * 1000:.1f} ms: {self.now}")


@contextmanager
def watched_holds() -> Generator[Holds]:
    """Measure every callback of asyncio's own loop (uvloop's cannot be looked into) while the block runs.

    Python's garbage collector is off meanwhile: when it runs is nobody's input. Collect between inputs."""
    holds = Holds()
    handle: Any = asyncio.events.Handle
    run, thread_time = handle._run, time.thread_time

    def timed(self: Any) -> None:
        began = thread_time()
        run(self)
        holds.took(thread_time() - began)

    handle._run = timed
    gc.disable()
    try:
        yield holds
    finally:
        gc.enable()
        handle._run = run
