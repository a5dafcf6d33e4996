"""Waiting for something to become true, instead of sleeping and hoping."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")
# After so long it hangs. Nothing that is only slow takes so long, on a machine that stops for seconds either.
HANG_SECONDS_MAX = 20.0


async def wait_until(
    check: Callable[[], T | Awaitable[T]], seconds: float = HANG_SECONDS_MAX, interval: float = 0.01
) -> T:
    """The first truthy value of `check` (sync or async). Fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        outcome = check()
        value = cast(T, await outcome if inspect.isawaitable(outcome) else outcome)
        if value:
            return value
        assert time.monotonic() < deadline, f"still {value!r} after {seconds} s"
        await asyncio.sleep(interval)
