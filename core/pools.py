"""Which pools an installation has: every pool that a worker ever joined, or a request was moved to.

Whoever serves all of them (gateways, billers) looks here. Nothing is ever taken out: an empty pool costs
nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from core.names import name_of
from core.redis import Client
from core.settings import Settings

T = TypeVar("T")


async def announce_pool(redis: Client, settings: Settings, pool: str) -> None:
    """The pool exists from now on. Before anything is written to it."""
    client: Any = redis  # redis-py types its replies as unions of its sync and async forms
    await client.sadd(_key(settings), pool)


async def known_pools(redis: Client, settings: Settings) -> set[str]:
    """Their names."""
    client: Any = redis
    found = {_named(name) for name in await client.smembers(_key(settings))}
    return {name for name in found if name is not None}


def _named(raw: bytes) -> str | None:
    """The name of a pool; None for what is none: each worker may write here."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    return name if name_of(name) == name and "{" not in name and "}" not in name else None


def _key(settings: Settings) -> str:
    return f"{settings.installation}:pools"


class ByPool(Mapping[str, T]):
    """One thing for each pool, made when it is first asked for. Iterating sees those made so far."""

    def __init__(self, make: Callable[[str], T], *pools: str) -> None:
        self._make = make
        self._made = {pool: make(pool) for pool in pools}

    def __getitem__(self, pool: str) -> T:
        if pool not in self._made:
            self._made[pool] = self._make(pool)
        return self._made[pool]

    def __contains__(self, pool: object) -> bool:
        return pool in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._made))

    def __len__(self) -> int:
        return len(self._made)
