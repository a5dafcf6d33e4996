"""A gateway's side of trials: asks the pool's nodes for verdicts on shapes (engine/trials/server.py), and
remembers them."""

import asyncio
import hashlib
import time
from collections import Counter, OrderedDict

from core.errors import Refusal
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable, read
from engine.queue import redis_keys

RULES = "1"  # raise it where other shapes pass: it makes all earlier verdicts void
KEPT_MAX = 10_000
ASKING_PER_TENANT_MAX = 8
ASKING_MAX = 64
ASK_SECONDS_MAX = 20.0
LISTED_MAX = 1_000
LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 0.02, 0.2
RETRY_MS = 1_000


class ShapeTrials:
    """One gateway's cache of verdicts, by model."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._asking: Counter[str] = Counter()

    async def refusal(self, pool: str, fingerprint: str, tenant: str, packed: str) -> Refusal | None:
        """The reason why this model does not serve a packed shape, None where it does."""
        name = hashlib.sha256(f"{RULES}\n{fingerprint}\n{packed}".encode()).hexdigest()
        problem = self._kept.get(name)
        if problem is None:
            problem = await self._redis_knows(pool, name)
        if problem is None:
            if self._asking[tenant] >= ASKING_PER_TENANT_MAX:
                text = f"{ASKING_PER_TENANT_MAX} new shapes of this tenant are being tried: send it again"
                return Refusal("rate_limited", text, True, RETRY_MS, "tenant")
            problem = await self._asked(pool, fingerprint, tenant, packed, name)
        if problem is None:
            text = "this response_format is new, and no worker's node had time to try it: send it again"
            return Refusal("overloaded", text, True, RETRY_MS)
        self._keep(name, problem)
        return Refusal("bad_request", f"options.response_format: {problem}") if problem else None

    async def _asked(self, pool: str, fingerprint: str, tenant: str, packed: str, name: str) -> str | None:
        listed = redis_keys.trials(pool, fingerprint)
        if self._asking.total() >= ASKING_MAX:
            return None
        self._asking[tenant] += 1
        try:
            kept = round(ASK_SECONDS_MAX) + 1
            if await self._redis.set(redis_keys.trial(pool, tenant, name), packed.encode(), nx=True, ex=kept):
                length = await self._redis.rpush(listed, redis_keys.member(tenant, name))
                await self._redis.expire(listed, kept)
                if length > LISTED_MAX:  # no node takes trials
                    await self._redis.ltrim(listed, -LISTED_MAX, -1)
            return await self._told(pool, name)
        finally:
            self._asking[tenant] -= 1
            if not self._asking[tenant]:
                del self._asking[tenant]

    async def _told(self, pool: str, name: str) -> str | None:
        until, wait = time.monotonic() + ASK_SECONDS_MAX, LOOK_SECONDS_MIN
        while time.monotonic() < until:
            await asyncio.sleep(wait)
            wait = min(LOOK_SECONDS_MAX, wait * 1.5)
            if (problem := await self._redis_knows(pool, name)) is not None:
                return problem
        return None

    async def _redis_knows(self, pool: str, name: str) -> str | None:
        known = await self._redis.get(redis_keys.verdict(pool, name))
        problem = None if known is None else read("verdict", bytes.decode, known)
        return None if isinstance(problem, Unreadable) else problem

    def _keep(self, name: str, problem: str) -> None:
        self._kept[name] = problem
        self._kept.move_to_end(name)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
