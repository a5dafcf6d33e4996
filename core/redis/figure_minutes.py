"""The figures of all processes by the minute: added to a hash in Redis, and read from it.

Each process adds what it counted every few seconds, to the minute that Redis' clock shows: its own may be
wrong. A flush that fails is lost, and so is what a process that is killed had not added: figures are for
looking at, and nothing is billed or decided by them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.recent_figures import MINUTE_MS, FigureMinute, RecentFigures, figure_minute
from core.observability.request_figures import FIGURES, RequestFigures
from core.observability.telemetry import RepeatedWarning, logger
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.members import readable, set_aside, whole

FLUSH_SECONDS = 5.0
FLUSH_SECONDS_MAX = 5.0
KEEP_SECONDS = 3 * 3_600
MINUTES_MAX = 170  # of those that are kept, so that the oldest one read is whole
FIELDS_MAX = 4_096  # of a minute; ours are 250, and 6 for each pool

LATE_MS_MAX = 30_000  # after a minute's end; a flush that takes longer has given up

repeated = RepeatedWarning(logger(__name__))
_over: WeakKeyDictionary[RedisClient, dict[str, FigureMinute]] = WeakKeyDictionary()


class FigureWriter:
    """Adds what this process counts to the minutes in Redis."""

    def __init__(self, redis: RedisClient, settings: Settings, figures: RequestFigures = FIGURES) -> None:
        self._redis = redis
        self._installation = settings.installation
        self._figures = figures

    async def run(self) -> None:
        """Flush every few seconds, for ever. Who ends it flushes once more."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Add what was counted since the last call. What cannot be added is lost."""
        if not (counted := self._figures.take()):
            return
        try:
            async with asyncio.timeout(FLUSH_SECONDS_MAX):
                await self._add(counted)
        except (redis_errors.RedisError, OSError) as error:
            repeated.warning("figures.flush_failed", error=error_summary(error), fields=len(counted))

    async def _add(self, counted: Mapping[str, int]) -> None:
        key = figures_key(self._installation, await server_ms(self._redis))
        commands = [("HINCRBY", key, name, count) for name, count in counted.items()]
        replies = await self._redis.all_at_once([*commands, ("EXPIRE", key, KEEP_SECONDS)])
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply


async def read_figures(redis: RedisClient, settings: Settings, minutes: int = 60) -> RecentFigures:
    """The figures of the last minutes, of all processes: three round trips at most. Minutes of which nobody
    told anything are empty; one that is over is read once by each client."""
    assert 0 < minutes <= MINUTES_MAX, "older minutes may be gone"
    now = await server_ms(redis)
    last = now - now % MINUTE_MS
    keys = [figures_key(settings.installation, last - at * MINUTE_MS) for at in reversed(range(minutes))]
    known = _over.setdefault(redis, {})
    told = await _read(redis, [key for key in keys if key not in known])
    _remember(known, told, now)
    found = tuple(told.get(key) or known.get(key) or FigureMinute() for key in keys)
    return RecentFigures(tuple(_begin_of(key) for key in keys), now, found)


async def _read(redis: RedisClient, keys: Sequence[str]) -> dict[str, FigureMinute]:
    """Minutes by their keys. One that is no hash, or has more fields than ours have, is passed over."""
    lengths, hashes = redis.pipeline(transaction=False), redis.pipeline(transaction=False)
    for key in keys:
        lengths.hlen(key)
    sizes = dict(readable("figures:", keys, await lengths.execute(raise_on_error=False)))
    fitting = [key for key, size in sizes.items() if 0 < size <= FIELDS_MAX]
    for key in fitting:
        hashes.hgetall(key)
    replies = await hashes.execute(raise_on_error=False) if fitting else []
    read = {key: figure_minute(fields, whole) for key, fields in readable("figures:", fitting, replies)}
    set_aside("figures:", sum(odd for _, odd in read.values()))
    empty = {key: FigureMinute() for key, size in sizes.items() if not size}
    return {key: minute for key, (minute, _) in read.items()} | empty


def _remember(known: dict[str, FigureMinute], told: Mapping[str, FigureMinute], now_ms: int) -> None:
    """Keep minutes to which nobody adds any more, as long as they may be asked for."""
    for key in [key for key in known if _begin_of(key) < now_ms - MINUTES_MAX * MINUTE_MS]:
        del known[key]
    known |= {key: each for key, each in told.items() if _begin_of(key) + MINUTE_MS + LATE_MS_MAX < now_ms}


def figures_key(installation: str, at_ms: int) -> str:
    """Redis key of the minute that this moment is in."""
    return f"{installation}:figures:{at_ms - at_ms % MINUTE_MS}"


def _begin_of(key: str) -> int:
    return int(key.rpartition(":")[2])


async def server_ms(redis: RedisClient) -> int:
    """Unix time in ms as Redis has it; of a cluster, as any of its nodes."""
    reply: Any = await redis.execute_command("TIME")
    of_nodes = getattr(reply, "values", None)
    seconds, microseconds = next(iter(of_nodes())) if of_nodes else reply
    return int(seconds) * 1000 + int(microseconds) // 1000
