"""Facts of an error that may be logged: its type, its server's own code, and where in the code it was raised.

Never its message: that may quote values, a prompt, a key, a row, a URL with a password. Pure.
"""

import errno
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from core.errors import Refused

ROOT = Path(__file__).resolve().parents[2]
OURS = frozenset({"core", "billing", "engine", "server", "admin", "chaos", "clients", "parley_client"})
PLACES_MAX = 8
CAUSES_MAX = 4
REDIS_CODE = re.compile(r"[A-Z]{2,20}(?= )")
SCRIPT_LINE = re.compile(r"user_script:(\d{1,5})")


def kind(error: BaseException) -> str:
    """Type of an error, and the code that a server or the system gave it: `ResponseError OOM`, `OSError
    ENOSPC`."""
    return " ".join([type(error).__name__, *_codes(error)])


def error_summary(error: BaseException) -> str:
    """`kind`, and the place where it was raised."""
    return f"{kind(error)} at {raised_at(error)}"


def origin(error: BaseException) -> str:
    """`kind`, and that of the first cause: `ConnectionError, from ConnectionRefusedError ECONNREFUSED`."""
    first = kind(error)
    last = kind([error, *_causes(error)][-1])
    return first if last == first else f"{first}, from {last}"


def reason(error: Exception) -> str:
    """An error's reason for operators, about a file or folder that they named: the system's text for its
    errno, or the parser's message, which quotes only what they wrote themselves."""
    if not isinstance(error, OSError):
        return next(iter(str(error).splitlines()), kind(error))
    return os.strerror(error.errno) if error.errno else kind(error)


def raised_at(error: BaseException) -> str:
    """File and line of our code that raised the error or called what did; `nowhere` for one never raised."""
    found = list(_places(_leaf(error).__traceback__)) or list(_places(error.__traceback__))
    ours = [place for place, own in found if own]
    return (ours or [place for place, _ in found] or ["nowhere"])[-1]


def error_facts(error: BaseException) -> dict[str, str]:
    """Fields of a log line about an error: its type, place, the calls that led there, and its causes."""
    calls = [place for place, _ in _places(_leaf(error).__traceback__)][-PLACES_MAX:]
    causes = [error_summary(cause) for cause in _causes(error)]
    return {
        "error": kind(error),
        "at": raised_at(error),
        **({"calls": " > ".join(calls)} if len(calls) > 1 else {}),
        **({"cause": ", from ".join(causes)} if causes else {}),
    }


def _codes(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        leaves = _leaves(cast(BaseException, error))
        yield "of " + ", ".join(sorted({type(each).__name__ for each in leaves})[:CAUSES_MAX])
    elif isinstance(error, Refused):
        yield error.refusal.code
    elif _is(error, "redis.exceptions", "ResponseError"):
        if code := REDIS_CODE.match(str(error)):
            yield code[0]
        if line := SCRIPT_LINE.search(str(error)):
            yield f"in line {line[1]} of its script"
    elif _is(error, "sqlalchemy.exc", "DBAPIError"):
        of_driver: Any = error
        yield from _sql_codes(of_driver.orig)
    elif _is(error, "aiosmtplib", "SMTPResponseException"):
        of_server: Any = error
        yield str(int(of_server.code))
    elif isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        yield errno.errorcode[error.errno]


def _is(error: BaseException, module: str, name: str) -> bool:
    """True where the error is of that class. A library that was never imported can have raised none, so none
    is imported for the look."""
    library = sys.modules.get(module)
    return library is not None and isinstance(error, getattr(library, name))


def _sql_codes(orig: BaseException | None) -> Iterator[str]:
    """SQLSTATE, or SQLite's name for it."""
    code = getattr(orig, "sqlstate", None) or getattr(orig, "sqlite_errorname", None)
    if isinstance(code, str):
        yield code
    elif orig is not None:
        yield type(orig).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    for _ in range(CAUSES_MAX):
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None or id(cause) in seen:
            return
        seen.add(id(cause))
        yield (error := cause)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast(BaseExceptionGroup[BaseException], error)
        for each in group.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _leaf(error: BaseException) -> BaseException:
    return next(_leaves(error))


def _places(traceback: TracebackType | None) -> Iterator[tuple[str, bool]]:
    """File and line of each call, outermost first, and whether it is our own code."""
    while traceback is not None:
        path = Path(traceback.tb_frame.f_code.co_filename)
        own = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in OURS
        shown = path.relative_to(ROOT) if own else Path(*path.parts[-2:])
        yield f"{shown}:{traceback.tb_lineno}", own
        traceback = traceback.tb_next
