"""Current use of a tenant's limits. Reads only."""

from collections.abc import Sequence
from typing import Any

from billing.limits import WALLET, Dimension, MoneyLimit, RequestLimits, UnitLimit
from billing.quota.types import LimitUse
from core.redis.client import RedisClient
from core.redis.members import readable, whole

UNIT = 60_000
MONEY_FIELDS = ("seed", "posted", "unbooked", "held")


async def use_of(redis: RedisClient, tag: str, limits: RequestLimits, now_ms: int) -> list[LimitUse]:
    """Use of the limits in their order: rates and concurrency, then money."""
    pipeline = redis.pipeline(transaction=False)
    for unit in limits.units:
        if unit.dimension is Dimension.CONCURRENCY:
            pipeline.zcount(tag + unit.key, f"({now_ms}", "+inf")
        else:
            pipeline.get(tag + unit.key)
    for money in limits.money:
        pipeline.hmget(tag + money.key, *MONEY_FIELDS)
    asked = range(len(limits.units) + len(limits.money))
    replies = await pipeline.execute(raise_on_error=False) if asked else []
    known = dict(readable(tag, asked, replies))
    found = [known.get(at) for at in asked]
    units = [_of_unit(*each, now_ms) for each in zip(limits.units, found, strict=False)]
    moneys = zip(limits.money, found[len(limits.units) :], strict=True)
    return units + [_of_money(*each, now_ms) for each in moneys]


def _of_unit(limit: UnitLimit, value: Any, now_ms: int) -> LimitUse:
    most, spent, resets = limit.limit, 0, None
    if limit.dimension is Dimension.CONCURRENCY:
        spent = int(value or 0)
    elif value is not None:
        most = limit.burst
        used, at, rate = (whole(part) for part in (value.split(b":") + [b""] * 3)[:3])
        used = max(0, used - max(0, now_ms - at) * rate)
        spent, resets = -(-used // UNIT), now_ms + -(-used // max(1, rate))
    else:
        most, resets = limit.burst, now_ms
    return LimitUse(
        scope=limit.scope.value,
        scope_id=limit.scope_id,
        model_glob=limit.model_glob,
        dimension=limit.dimension.value,
        shadow=limit.shadow,
        hard=not limit.shadow,
        limit=limit.limit,
        burst=None if limit.dimension is Dimension.CONCURRENCY else limit.burst,
        spent=spent,
        held=0,
        remaining=max(0, most - spent) if limit.limit else 0,
        resets_at_ms=resets,
    )


def _of_money(limit: MoneyLimit, values: Sequence[bytes | None] | None, now_ms: int) -> LimitUse:
    seed, *amounts = values or [None] * len(MONEY_FIELDS)
    posted, unbooked, held = map(whole, amounts)
    most = limit.limit_at(now_ms)
    return LimitUse(
        scope=limit.scope.value,
        scope_id=limit.scope_id,
        model_glob="*",
        dimension=limit.period,
        shadow=limit.shadow,
        hard=limit.hard and not limit.shadow,
        limit=most,
        burst=None,
        spent=posted + unbooked,
        held=held,
        remaining=max(0, most - posted - unbooked - held),
        resets_at_ms=None if limit.period in (WALLET, "lifetime") else limit.window.end_ms,
        known=seed is not None,
    )
