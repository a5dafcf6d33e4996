"""Loops that one bad entry does not end."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from core.observability.error_facts import error_facts
from core.redis import redis_errors


def store_errors() -> tuple[type[Exception], ...]:
    """Exceptions of a store that does not answer, and some of one that only refuses (see `is_store_down`)."""
    return (redis_errors.RedisError, SQLAlchemyError, OSError)


def is_store_down(error: Exception) -> bool:
    """True where a store does not answer or refuses everybody for now. A loop that serves all then waits for
    the store, and does not blame the entry it was working on."""
    if isinstance(error, redis_errors.ResponseError):
        return redis_errors.is_refusing_everybody(error)
    return isinstance(error, store_errors())


class WarningLog(Protocol):
    """A logger, or one that limits how often it repeats a line."""

    def warning(self, event: str, **facts: object) -> object:
        """See core.observability.telemetry."""
        ...


@contextmanager
def logged_failures(log: WarningLog, event: str, **about: object) -> Generator[None]:
    """Log an exception of the block by its type and place, and swallow it, so that only this round ends."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        log.warning(event, **about, **error_facts(error))
