"""Loops that one bad entry does not end."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from core.observability.error_facts import error_facts
from core.redis import redis_errors


def store_errors() -> tuple[type[Exception], ...]:
    """All that a store raises which does not answer, and some where it only refuses (see `is_store_down`)."""
    return (redis_errors.RedisError, SQLAlchemyError, OSError)


def is_store_down(error: Exception) -> bool:
    """A store does not answer, or refuses everybody for now. Whoever works for all waits for it then, instead
    of blaming what it was asked for."""
    if isinstance(error, redis_errors.ResponseError):
        return redis_errors.is_refusing_everybody(error)
    return isinstance(error, store_errors())


class WarningLog(Protocol):
    """A logger, or one that seldom says the same."""

    def warning(self, event: str, **facts: object) -> object:
        """See core.observability.telemetry."""
        ...


@contextmanager
def logged_failures(log: WarningLog, event: str, **about: object) -> Generator[None]:
    """What is raised within is logged by its type and place, and ends this round alone."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        log.warning(event, **about, **error_facts(error))
