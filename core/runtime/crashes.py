"""One log line, without values, for errors that nobody waits for.

Python's own output (tracebacks on stderr, asyncio's lines that quote callbacks and tasks) repeats messages of
errors, which may hold prompts and secrets.
"""

import asyncio
import logging
import sys
import threading
from typing import Any

from core.configuration.settings import Settings
from core.observability import error_facts, log_lines
from core.observability.telemetry import configure_logs, logger

log = logger(__name__)


def install() -> None:
    """Log in our way what ends this process or a thread, and what is raised where none can catch it."""
    sys.excepthook = _crashed
    threading.excepthook = _thread_crashed
    sys.unraisablehook = _not_raised
    logging.raiseExceptions = False  # else a line that cannot be written is printed with its arguments


def install_in_child(service: str) -> None:
    """Set up logs and crash lines in a process that a library started anew. Does nothing where logs are set
    up already, as after a fork."""
    if not logging.getLogger().handlers:
        install()
        configure_logs(Settings(), service)


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Log errors of this loop's callbacks and forgotten tasks in our way."""
    loop.set_exception_handler(_broke)


def _crashed(kind: type[BaseException], error: BaseException, _traceback: object) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    log.critical("process.crashed", **error_facts.error_facts(error))


def _thread_crashed(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None and not isinstance(what.exc_value, SystemExit):
        log.error("process.thread_crashed", **error_facts.error_facts(what.exc_value))


def _not_raised(what: Any) -> None:
    error = what.exc_value
    log.error("process.uncatchable_error", **(error_facts.error_facts(error) if error is not None else {}))


def _broke(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    said = log_lines.QUOTING.sub("", str(context.get("message", ""))).strip()
    log.error(
        "process.event_loop_error",
        said=said,
        **(error_facts.error_facts(error) if isinstance(error, BaseException) else {}),
    )
