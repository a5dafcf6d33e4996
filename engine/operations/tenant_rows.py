"""Tenants of a pool as operators see them: what each has in hand and waiting there, and its terms.

Reads only. It takes three round trips and one more for each class, however many tenants there are; they are
at most TENANTS_PER_CLASS of a class, beside those with requests in workers' hands.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from core.redis.client import RedisClient
from core.redis.members import names, readable, reading
from core.redis.unreadable import Unreadable, read, whole_part
from engine.request import PriorityClass

TENANTS_PER_CLASS = 64
TERMS: Sequence[str] = ("weight", "tokens", "counter")
COUNTER_UNIT = 1000  # thousandths, as in engine/queue/lua/prelude/fair.lua


class TenantRow(msgspec.Struct, frozen=True):
    """One tenant. `blocked`: at one of its caps in some class; `tokens`: KV tokens in flight; `served`: the
    counter by which tenants take turns, in tokens at weight 1."""

    tenant: str
    waiting: int
    running: int
    blocked: bool
    weight: float
    tokens: int
    served: int


async def tenant_rows(redis: RedisClient, pool: str, running: Mapping[str, int]) -> list[TenantRow]:
    """Tenants with requests, who has most first. `running`: how many requests in workers' hands each has."""
    waiting = Counter[str]()
    lines, blocked = await _lines(redis, pool)
    pipeline = redis.pipeline(transaction=False)
    for priority, tenant in lines:
        pipeline.zcard(_key(pool, f"ids:{priority}:{tenant}"))
    counts = await pipeline.execute(raise_on_error=False) if lines else []
    for (_, tenant), count in readable(_key(pool, "ids:"), lines, counts):
        waiting[tenant] += count
    waiting.update({tenant: 0 for _, tenant in lines})
    known = sorted({*waiting, *running}, key=lambda name: (-waiting[name] - running.get(name, 0), name))
    terms = await _terms(redis, pool, known)
    return [
        _tenant(name, waiting[name], running.get(name, 0), name in blocked, terms.get(name)) for name in known
    ]


async def _lines(redis: RedisClient, pool: str) -> tuple[list[tuple[PriorityClass, str]], set[str]]:
    """Classes and tenants of requests that wait, and which tenants are at a cap."""
    act, at_cap = _key(pool, "act:"), _key(pool, "blocked:")
    pipeline = redis.pipeline(transaction=False)
    for priority in PriorityClass:
        pipeline.zrange(f"{act}{priority}", 0, TENANTS_PER_CLASS - 1)
    found = await pipeline.execute(raise_on_error=False)
    eligible = dict(readable(act, list(PriorityClass), found))
    lines, blocked = list[tuple[PriorityClass, str]](), set[str]()
    for priority in PriorityClass:
        key = f"{at_cap}{priority}"
        capped = await reading(key, redis.sscan(key, count=TENANTS_PER_CLASS), (0, []))
        stopped = set(names(key, capped[1]))
        blocked |= stopped
        lines += [(priority, each) for each in {*names(act, eligible.get(priority, []))} | stopped]
    return lines, blocked


async def _terms(redis: RedisClient, pool: str, tenants: Sequence[str]) -> dict[str, Sequence[bytes | None]]:
    """Weight, tokens and counter of each of these tenants."""
    pipeline = redis.pipeline(transaction=False)
    for name in tenants:
        pipeline.hmget(_key(pool, f"ten:{name}"), TERMS)
    replies = await pipeline.execute(raise_on_error=False) if tenants else []
    return dict(readable(_key(pool, "ten:"), tenants, replies))


def _tenant(
    name: str, waiting: int, running: int, blocked: bool, terms: Sequence[bytes | None] | None
) -> TenantRow:
    weight, tokens, counter = (read("number", float, each or b"0") for each in terms or (None,) * len(TERMS))
    served = whole_part(counter) // COUNTER_UNIT
    share = 1.0 if isinstance(weight, Unreadable) else weight or 1.0
    return TenantRow(name, waiting, running, blocked, share, whole_part(tokens), served)


def _key(pool: str, name: str) -> str:
    return f"{{p:{pool}}}{name}"
