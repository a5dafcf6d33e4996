"""Which pools an installation has: those of models, those with a supervisor, those requests were moved to.

Gateways, supervisors and operators' commands say so, never a worker. Whoever serves all of them (gateways,
billers) looks here. Nothing is ever taken out but by hand: an empty pool costs nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from core.configuration.settings import Settings
from core.names import name_of
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient

T = TypeVar("T")
POOLS_MAX = 256
HOPS_MAX = 8  # that are followed from one pool to the next: who follows longer goes round in a circle
SAID_SECONDS = 3_600.0

repeated = RepeatedWarning(logger(__name__), SAID_SECONDS)


async def announce_pool(redis: RedisClient, settings: Settings, pool: str) -> None:
    """The pool exists from now on. Before anything is written to it."""
    await redis.sadd(_key(settings), pool)


async def announced_pools(redis: RedisClient, settings: Settings) -> set[str]:
    """All that were ever announced, for who comes once and must leave none out."""
    found = {_named(name) for name in await redis.smembers(_key(settings))}
    return {name for name in found if name is not None}


async def known_pools(redis: RedisClient, settings: Settings) -> set[str]:
    """Those to serve: the first `POOLS_MAX` of them in order: of more, there is a line in the log."""
    named = sorted(await announced_pools(redis, settings))
    if len(named) > POOLS_MAX:
        repeated.warning(
            "pools.over_limit",
            hint="take those that there are not out of this set (SREM)",
            key=_key(settings),
            pools=len(named),
            served=POOLS_MAX,
        )
    return set(named[:POOLS_MAX])


def _named(raw: bytes) -> str | None:
    """The name of a pool; None for what is none."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    return name if name_of(name) == name and "{" not in name and "}" not in name else None


def _key(settings: Settings) -> str:
    return f"{settings.installation}:pools"


class ByPool(Mapping[str, T]):
    """One thing for each pool. Those that are to be served are kept, and iterating sees them; for any other
    name, which may be one that a worker made up, one is made each time."""

    def __init__(self, make: Callable[[str], T], *pools: str) -> None:
        self._make = make
        self._made = {pool: make(pool) for pool in pools}

    def __getitem__(self, pool: str) -> T:
        made = self._made.get(pool)
        return self._make(pool) if made is None else made

    def keep(self, pool: str) -> None:
        """It is served from now on."""
        if pool not in self._made:
            self._made[pool] = self._make(pool)

    def __contains__(self, pool: object) -> bool:
        return pool in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._made))

    def __len__(self) -> int:
        return len(self._made)
