"""All that a pool keeps in Redis, read key by key, so that a test can recount it."""

from collections.abc import Iterable
from typing import Any

from engine.api import PriorityClass
from tests.engine.builders import Pool


async def pool_state(
    pool: Pool, tenants: Iterable[str], workers: Iterable[str], requests: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """The sets and sums that counts derive from, and each request's record, log and tokens, by key."""
    state: dict[str, Any] = {}
    redis, key = pool.client.pipeline(transaction=False), pool.key
    keep: list[tuple[str, Any]] = []

    def read(name: str, parse: Any, command: Any, *arguments: Any, **options: Any) -> None:
        command(key(name), *arguments, **options)
        keep.append((name, parse))

    for class_ in PriorityClass:
        read(f"age:{class_}", _names, redis.zrange, 0, -1)
        read(f"act:{class_}", _scores, redis.zrange, 0, -1, withscores=True)
        read(f"blocked:{class_}", _set, redis.smembers)
    read("sys", _ints, redis.hmget, *(f"{kind}:{c}" for c in PriorityClass for kind in ("v", "used")))
    for tenant in tenants:
        read(f"run:{tenant}", _set, redis.smembers)
        read(f"ten:{tenant}", _ints, redis.hmget, "counter", "credit", "tokens")
    for worker in workers:
        read(f"claims:{worker}", _set, redis.smembers)
        read(f"fresh:{worker}", _set, redis.smembers)
        read(f"suspects:{worker}", _set, redis.smembers)
    read("parked", _set, redis.zrange, 0, -1)
    read("ended", int, redis.xlen)
    for tenant, id in requests:
        read(f"req:{tenant}:{id}", _names, redis.hmget, "status", "o", "n", "worker", "epoch")
        read(f"log:{tenant}:{id}", _log, redis.xrange)
        read(f"tok:{tenant}:{id}", bytes, redis.getrange, 0, -1)
    for (name, parse), value in zip(keep, await redis.execute(), strict=True):
        state[name] = parse(value)
    return state


def _names(value: list[bytes | None]) -> list[str]:
    return [(part or b"").decode() for part in value]


def _set(value: Iterable[bytes]) -> set[str]:
    return {part.decode() for part in value}


def _scores(value: list[tuple[bytes, float]]) -> dict[str, int]:
    return {name.decode(): int(score) for name, score in value}


def _ints(value: list[bytes | None]) -> list[int]:
    return [int(part or 0) for part in value]


def _log(value: list[tuple[bytes, dict[bytes, bytes]]]) -> tuple[list[int], str]:
    """Its offsets and its text."""
    text = b"".join(fields.get(b"x", b"") for _, fields in value)
    return [int(o.split(b"-")[0]) for o, _ in value], text.decode()
