"""Loops that one bad entry does not end."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from redis.exceptions import RedisError, ResponseError
from sqlalchemy.exc import SQLAlchemyError

from core.error_facts import error_facts
from core.redis_errors import is_refusing_everybody

# A store that does not answer: whoever works for all waits for it, instead of blaming what it was asked for.
AWAY = (RedisError, SQLAlchemyError, OSError)


def is_store_down(error: Exception) -> bool:
    """A store does not answer, or refuses everybody for now; not what it was asked for is to blame."""
    return isinstance(error, AWAY) and (not isinstance(error, ResponseError) or is_refusing_everybody(error))


class WarningLog(Protocol):
    """A logger, or one that seldom says the same."""

    def warning(self, event: str, **facts: object) -> object:
        """See core.telemetry."""
        ...


@contextmanager
def logged_failures(log: WarningLog, event: str, **about: object) -> Generator[None]:
    """What is raised within is logged by its type and place, and ends this round alone."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        log.warning(event, **about, **error_facts(error))
