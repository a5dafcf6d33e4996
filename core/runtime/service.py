"""Runs one process of the platform: telemetry, event loop, signals, and the exit code."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import cast

import uvloop

from core.configuration.settings import Settings
from core.errors import StartupError
from core.files.private_files import keep_private
from core.observability import telemetry
from core.observability.error_facts import raised_at
from core.runtime import crashes, hooks
from core.runtime.embedded import require_restored
from core.sql.store_errors import store_failure
from core.terminal.terminal import print_line

Main = Callable[[Settings, asyncio.Event], Awaitable[None]]


def run(settings: Settings, name: str, main: Main) -> None:
    """Run `main(settings, stop)` to its end; SIGTERM and SIGINT set `stop`, a second one cancels.

    A StartupError, and a Redis or database that fails, ends it with one line on stderr and exit code 1.
    """
    crashes.install()
    telemetry.configure(settings, name)
    keep_private(settings.home)
    try:
        require_restored(settings.home)
        if hooks.at_start is not None:
            hooks.at_start(settings.home)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_watched(settings, main))
    except asyncio.CancelledError:
        sys.exit(130)
    except Exception as error:
        line = why_it_ended(error, settings)
        if line is None:
            raise
        print_line(f"parley {name}: {line}", err=True)
        sys.exit(1)


def why_it_ended(error: Exception, settings: Settings) -> str | None:
    """One line for the operator about why the process ended: a failed start (also in one of several tasks),
    or a Redis or database failure where nothing waits for it to come back. None for a bug."""
    if isinstance(error, ExceptionGroup):
        several = cast(ExceptionGroup[Exception], error).exceptions
        told = (why_it_ended(each, settings) for each in several)
        return next((line for line in told if line is not None), None)
    if isinstance(error, StartupError):
        return str(error)
    told = store_failure(error, settings)
    return f"{told}, asked at {raised_at(error)}" if told else None


async def _watched(settings: Settings, main: Main) -> None:
    stop = asyncio.Event()
    task = asyncio.current_task()
    assert task is not None

    def on_signal() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    loop = asyncio.get_running_loop()
    crashes.watch(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await main(settings, stop)
