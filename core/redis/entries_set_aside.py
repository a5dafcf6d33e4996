"""Counts and logs entries of Redis that could not be read."""

from core.observability.telemetry import RepeatedWarning, logger, meter

log = logger(__name__)
repeated = RepeatedWarning(log)
_set_aside = meter("core").create_counter(
    "parley_redis_entries_set_aside", description="entries of Redis that could not be read"
)


def tell(key: str, count: int) -> None:
    """Count so many entries of a key, and log the key, never their content."""
    _set_aside.add(count)
    repeated.warning("redis.entries_set_aside", key=key, count=count)
