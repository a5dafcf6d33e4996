"""The pools of an installation: those of models, those with a supervisor, those requests were moved to.

Gateways, supervisors and operators' commands announce them, never a worker. Processes that serve all pools
(gateways, billers) look here. Only people remove a pool, by hand: an empty one costs nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from core.configuration.settings import Settings
from core.names import name_of
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient

T = TypeVar("T")
POOLS = ":pools"  # after the installation's name
POOLS_MAX = 256
SCANNED_AT_ONCE = 1_000
HOPS_MAX = 8  # hops that are followed from one pool to the next: more would be a circle
REPEAT_SECONDS = 3_600.0

repeated = RepeatedWarning(logger(__name__), REPEAT_SECONDS)


async def announce_pool(redis: RedisClient, settings: Settings, pool: str) -> None:
    """Register a pool. Call it before anything is written there."""
    await redis.sadd(_key(settings), pool)


async def announced_pools(redis: RedisClient, settings: Settings) -> set[str]:
    """All pools ever announced, for callers that come once and must leave none out."""
    found = {_named(name) for name in await redis.smembers(_key(settings))}
    return {name for name in found if name is not None}


async def installations_in(redis: RedisClient) -> set[str]:
    """Installations that have announced pools in this Redis."""
    keys = [key async for key in redis.scan_iter(match=f"*{POOLS}", count=SCANNED_AT_ONCE)]
    return {key.decode(errors="replace").removesuffix(POOLS) for key in keys if b"{" not in key}


async def known_pools(redis: RedisClient, settings: Settings) -> set[str]:
    """Pools to serve: the first `POOLS_MAX` in order; a longer list is logged."""
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
    """The name of a pool; None where it is not a valid one."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    return name if is_pool_name(name) else None


def is_pool_name(name: str) -> bool:
    """True for what a pool may be called: keys hold it in braces. Pure."""
    return name_of(name) == name and "{" not in name and "}" not in name


def _key(settings: Settings) -> str:
    return f"{settings.installation}{POOLS}"


class ByPool(Mapping[str, T]):
    """One thing for each pool. Those of served pools are kept and iterated; for any other name, which may be
    one that a worker made up, a new one is made each time."""

    def __init__(self, make: Callable[[str], T], *pools: str) -> None:
        self._make = make
        self._made = {pool: make(pool) for pool in pools}

    def __getitem__(self, pool: str) -> T:
        made = self._made.get(pool)
        return self._make(pool) if made is None else made

    def keep(self, pool: str) -> None:
        """Keep the thing of a pool that is served from now on."""
        if pool not in self._made:
            self._made[pool] = self._make(pool)

    def __contains__(self, pool: object) -> bool:
        return pool in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._made))

    def __len__(self) -> int:
        return len(self._made)
