"""Redis' counts of money: seeded from the books where Redis has none, and again after corrections; edited
limits reach running answers."""

import asyncio
from collections.abc import Callable, Sequence

from billing.limits import MoneyLimit, Scope
from billing.periods import PeriodWindow
from billing.quota.posted_spending import last_line, posted_of_limit
from billing.quota.redis_keys import posted_key, tag
from billing.quota.script_calls import ForgetCall, SeedCall, SeededCount
from billing.quota.script_replies import split_limit_key, window_member
from billing.quota.scripts import quota_script
from billing.quota.types import MoneySum
from core.clock import now_ms
from core.redis.client import RedisClient
from core.redis.members import names, readable, reading, set_aside, whole
from core.redis.script_calls import EXACT_MAX
from core.redis.unreadable import Unreadable, read
from core.sql.database import Database

SEED_TRIES = 10
COUNTS_MAX = 10_000
AT_ONCE = 100
MONEY = ("money:", "money~:")

_SEED = quota_script("seed", SeedCall, bool, "base", "money")
_FORGET = quota_script("forget", ForgetCall, int)
_FIELDS = ("posted", "unbooked", "held", "open")


class MoneyCounts:
    """Counts of money in tenants' hash slot keys."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._seeding: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def seed(self, db: Database, tenant: str, limits: Sequence[MoneyLimit]) -> None:
        """Seed missing counts from the books. Concurrent calls for the same count share one read."""
        await asyncio.gather(*(asyncio.shield(self._once(db, tenant, limit)) for limit in limits))

    def _once(self, db: Database, tenant: str, limit: MoneyLimit) -> asyncio.Task[None]:
        key = (tenant, limit.key)
        task = self._seeding.get(key)
        if task is None:
            task = self._seeding[key] = asyncio.create_task(self._write(db, tenant, [limit], anew=False))
            task.add_done_callback(lambda done: self._done(key, done))
        return task

    def _done(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._seeding[key]
        if not task.cancelled():
            task.exception()  # retrieved here, as its waiters raise it

    async def reseed(
        self, db: Database, tenant: str, which: Callable[[MoneyLimit], bool] = lambda _: True
    ) -> None:
        """Set the posted part of all counts, or of those selected by `which`, to the books' sums."""
        limits = [limit for limit in await self.counted(tenant) if which(limit)]
        for first in range(0, len(limits), AT_ONCE):
            await self._write(db, tenant, limits[first : first + AT_ONCE], anew=True)

    async def forget_user(self, tenant: str, user: str) -> None:
        """Delete a user's counts."""
        key = _moneys(tenant)
        for name in names(key, await self._redis.zrange(key, 0, -1)):
            if split_limit_key(name)[1:3] == [Scope.USER, user]:
                await self._redis.delete(tag(tenant) + name)
                await self._redis.zrem(key, name)

    async def forget(self, tenant: str, line_seq: int) -> None:
        """Forget all that was counted of a tenant's books, which are others now and end at this line. What
        open requests hold stays; the next admission seeds its counts."""
        key = _moneys(tenant)
        last = max(1, await self._redis.zcard(key))
        for first in range(0, last, AT_ONCE):
            found = names(key, await self._redis.zrange(key, first, first + AT_ONCE - 1))
            money = [tag(tenant) + name for name in found if name.startswith(MONEY)]
            await _FORGET(self._redis, [posted_key(tenant), *money], ForgetCall(line_seq=line_seq))

    async def _write(self, db: Database, tenant: str, limits: Sequence[MoneyLimit], anew: bool) -> None:
        """Read the books and write the counts; repeat while lines are booked in between."""
        posted, untrue = posted_key(tenant), (0, 0)
        for _ in range(SEED_TRIES):
            seeds = await self._seeds(tenant, limits)
            posted_now = [(limit, *(await posted_of_limit(db, tenant, limit))) for limit in limits]
            if await self.put(tenant, posted_now, anew=anew, untrue=untrue, seeds=seeds):
                return
            # A line is marked after it was booked: what is beyond the books now is no line's mark.
            mark = whole(await reading(posted, self._redis.hget(posted, "line_seq"), None))
            last = await last_line(db, tenant)
            untrue = (mark, last) if mark > last else (0, 0)
        raise TimeoutError("lines are booked faster than the books can be read")

    async def _seeds(self, tenant: str, limits: Sequence[MoneyLimit]) -> list[int]:
        """The last line that each count in Redis claims to include; 0: none. Who reads it before the books
        knows one beyond them as made up, since a seed is written after the books had its line."""
        pipeline = self._redis.pipeline(transaction=False)
        for limit in limits:
            pipeline.hget(tag(tenant) + limit.key, "seed")
        replies = await pipeline.execute(raise_on_error=False)
        found = dict(readable(f"{tag(tenant)}money:", range(len(limits)), replies))
        seeds = [whole(found.get(at)) for at in range(len(limits))]
        return [seed if seed <= EXACT_MAX else 0 for seed in seeds]  # the script reads those as none

    async def put(
        self,
        tenant: str,
        amounts: Sequence[tuple[MoneyLimit, int, int]],
        *,
        anew: bool,
        untrue: tuple[int, int] = (0, 0),
        seeds: Sequence[int] | None = None,
    ) -> bool:
        """Write counts, each with its amount and last line. False: more has been booked since. `anew`: also
        over an older amount in Redis. `untrue`: a mark in Redis that is beyond the books, and their last
        line, which it becomes. `seeds`: what each count claimed before the books were read."""
        slot = tag(tenant)
        keys = [f"{slot}posted", f"{slot}windows", f"{slot}moneys"]
        keys += [slot + limit.key for limit, _, _ in amounts]
        counts = [
            SeededCount(
                key=limit.key,
                spent=str(amount),
                line_seq=line_seq,
                untrue_seed=seed if seed > line_seq else 0,
                window_end_ms=limit.window.end_ms,
                window=window_member(limit),
            )
            for (limit, amount, line_seq), seed in zip(amounts, seeds or [0] * len(amounts), strict=True)
        ]
        call = SeedCall(now_ms=now_ms(), anew=anew, counts=counts, untrue_seq=untrue[0], last_seq=untrue[1])
        return await _SEED(self._redis, keys, call)

    async def sums(self, tenant: str) -> list[MoneySum]:
        """All counts of a tenant."""
        limits = await self.counted(tenant)
        pipeline = self._redis.pipeline(transaction=False)
        for limit in limits:
            pipeline.hmget(f"{{t:{tenant}}}{limit.key}", "seed", *_FIELDS)
        replies = await pipeline.execute(raise_on_error=False) if limits else []
        return [
            _sum_of(limit, values) for limit, values in readable(f"{{t:{tenant}}}money:", limits, replies)
        ]

    async def counted(self, tenant: str) -> list[MoneyLimit]:
        """The money limits that Redis counts for a tenant, with `limit_nano` 0."""
        key = _moneys(tenant)
        found = await self._redis.zrange(key, 0, COUNTS_MAX - 1, withscores=True)
        limits = [read("count", lambda each: _named(each[0].decode(), int(each[1])), each) for each in found]
        good = [limit for limit in limits if not isinstance(limit, Unreadable)]
        set_aside(key, len(limits) - len(good))
        return good


def _named(key: str, window_end_ms: int) -> MoneyLimit:
    """The money limit that a key counts, with `limit_nano` 0."""
    kind, scope, scope_id, period, start = split_limit_key(key)
    window = PeriodWindow(int(start), window_end_ms)
    return MoneyLimit(Scope(scope), scope_id, period, window, 0, hard=False, shadow=kind.endswith("~"))


def _sum_of(limit: MoneyLimit, values: Sequence[bytes | None]) -> MoneySum:
    seed, *amounts = values
    return MoneySum(
        limit.scope.value,
        limit.scope_id,
        limit.period,
        limit.window.start_ms,
        limit.window.end_ms,
        limit.shadow,
        None if seed is None else whole(seed),
        *map(whole, amounts),
    )


def _moneys(tenant: str) -> str:
    return f"{tag(tenant)}moneys"
