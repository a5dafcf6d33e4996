"""Rules for log lines: no messages of errors, no control characters, at most LINE_BYTES_MAX bytes."""

import copy
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from core.observability import error_facts
from core.terminal.safe_text import printable_line

LINE_BYTES_MAX = 2048
# Lengths of texts and of lists, tried in turn until the line is short enough.
TEXTS_MAX = ((400, 40), (100, 10), (20, 3))
NEEDED = ("timestamp", "level", "service", "event", "error", "at")
UNWRITABLE = "log line that cannot be written"
# asyncio's own lines quote callbacks with their arguments, and tasks with what they raised.
QUOTING = re.compile(r"[(<\n].*", re.DOTALL)

Render = Callable[[EventDict], str]


def without_words(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace an exception by its type and place: no traceback, no stack, no local variable."""
    raised = event.pop("exc_info", None)
    event.pop("stack_info", None)
    event.pop("exception", None)
    if raised is True or (raised and not isinstance(raised, BaseException | tuple)):
        raised = sys.exc_info()
    error: object = cast(tuple[object, ...], raised)[1] if isinstance(raised, tuple) else raised
    return {**event, **error_facts.error_facts(error)} if isinstance(error, BaseException) else event


class BoundedRenderer:
    """The last processor: renders, and cuts values until the line is short enough."""

    def __init__(self, render: Processor) -> None:
        self._render = render

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        """The line."""
        for characters, entries in TEXTS_MAX:
            line = self._line(
                logger, method, {key: bounded(value, characters, entries) for key, value in event.items()}
            )
            if len(line.encode(errors="replace")) <= LINE_BYTES_MAX:
                return line
        needed = {key: bounded(event[key], *TEXTS_MAX[-1]) for key in NEEDED if key in event}
        return self._line(logger, method, {**needed, "cut": True})

    def _line(self, logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
        line = self._render(logger, method, event)
        assert isinstance(line, str), "a renderer makes text"
        return line


def bounded(value: object, characters: int, entries: int) -> object:
    """A value as a line may hold it."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 64) < value < 1 << 64 else "an integer of more than 64 bits"
    if isinstance(value, BaseException):
        return error_facts.error_summary(value)
    if isinstance(value, Mapping):
        kept = list(cast(Mapping[object, object], value).items())[:entries]
        return {
            str(bounded(str(key), characters, entries)): bounded(each, characters, entries)
            for key, each in kept
        }
    if isinstance(value, list | tuple | set | frozenset):
        several = list(cast(Iterable[object], value))
        return [bounded(each, characters, entries) for each in several[:entries]]
    return _text(str(value), characters)


def _text(text: str, characters: int) -> str:
    text = text.strip("\n")
    if len(text) > characters:
        text = f"{text[:characters]}… ({len(text)} characters)"
    return printable_line(text)


class Formatter(structlog.stdlib.ProcessorFormatter):
    """Our own lines, and those of libraries: without tracebacks, and without arguments that are objects."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        try:
            if not isinstance(record.msg, dict):
                record = _of_a_library(record)
            return super().format(record)
        except Exception as error:  # noqa: BLE001  (a log line must not end what it tells of)
            return f"{UNWRITABLE}: {error_facts.error_summary(error)}"


def _of_a_library(record: logging.LogRecord) -> logging.LogRecord:
    record = copy.copy(record)
    if isinstance(record.args, Mapping):
        named = {key: _argument(each) for key, each in record.args.items()}
        record.args = named if "%(" in str(record.msg) else (_argument(record.args),)
    elif record.args:
        record.args = tuple(_argument(each) for each in record.args)
    if not isinstance(record.msg, str):
        record.msg, record.args = _argument(record.msg), ()
    if record.name == "asyncio":
        record.msg, record.args = QUOTING.sub("", record.getMessage()).strip(), ()
    return record


def _argument(value: object) -> object:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return (
        error_facts.error_summary(value) if isinstance(value, BaseException) else f"<{type(value).__name__}>"
    )
