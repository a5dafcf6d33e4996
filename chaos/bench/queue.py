"""`python -m chaos bench queue`: what the pool's scripts cost a Redis that holds a long line.

Times are the server's own, from its slow log with every call in it, so they hold no network and no Python;
only what a request waits for an idle worker is from call to answer.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import click
import uvloop

from billing.api import PinnedPrices, UsageOwner
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.client import RedisClient, connect
from core.redis.scripts import Script
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.tasks import cancel_tasks
from engine.api import (
    Append,
    Claim,
    ClaimOffer,
    Enqueue,
    PoolQueue,
    PriorityClass,
    RequestInput,
    Sampling,
    input_encoder,
)
from engine.queue import lua_scripts

CLAIM_MS_MAX = 5.0
WAKE_MS_MAX = 3.0
WAKES_MAX = 200
IDLE_SECONDS = 0.02
FINGERPRINT = "bench@1"
PROMPT_TOKENS = 64
FLUSH_REQUESTS = 32
AT_ONCE = 64
STEP = 20_000
DAY_MS = 24 * 3600 * 1000
CLASSES = tuple(PriorityClass)
INPUT = input_encoder.encode(
    RequestInput(
        prompt=b"\x01\x00\x00\x00" * PROMPT_TOKENS,
        sampling=Sampling(max_tokens=256),
        owner=UsageOwner(project="bench", key="bench"),
        prices=PinnedPrices(book="bench", version=1, input_nano=1, cached_input_nano=1, output_nano=1),
        model="bench",
        fingerprint=FINGERPRINT,
        accepted_ms=0,
        deadline_ms=0,
    )
)


@dataclass(frozen=True)
class CallCost:
    """Milliseconds: of each call from begin to end, which on a busy machine holds the time others had the
    core; and by call the processor time of the server's main thread, for all that was called meanwhile."""

    durations: list[float]
    cpu: float


class Costs(NamedTuple):
    """Of each kind of call."""

    sixteen: CallCost
    one: CallCost
    nothing_fits: CallCost
    flush: CallCost
    put: CallCost


class WaitingPool:
    """A pool with waiting requests, and one worker of it."""

    def __init__(self, redis: RedisClient, settings: Settings) -> None:
        self.queue = PoolQueue(redis, "bench", settings)
        self._redis: Any = redis
        self._calls = 0

    async def fill(self, tenants: int, requests: int) -> None:
        """Put so many requests of so many tenants in line, in all three classes."""
        for first in range(0, requests, AT_ONCE):
            several = range(first, min(requests, first + AT_ONCE))
            await asyncio.gather(*(self.enqueue(at % tenants, at // tenants) for at in several))
            if first // STEP != (first + AT_ONCE) // STEP:
                progress(f"{first + AT_ONCE} requests wait")

    async def settle(self) -> None:
        """Until no rewrite of the append-only file runs beside us; none begins."""
        await self._redis.config_set("auto-aof-rewrite-percentage", 0)
        while (await self._redis.info("persistence"))["aof_rewrite_in_progress"]:  # noqa: ASYNC110  (not measured)
            await asyncio.sleep(0.1)

    async def enqueue(self, tenant: int, number: int) -> None:
        """One more."""
        request = request_of(f"tenant{tenant}", now_ms(), priority=CLASSES[number % len(CLASSES)])
        reply = await self.queue.enqueue(request)
        if not getattr(reply, "created", False):
            raise RuntimeError(f"not put in line: {reply}")

    async def claim(self, slots: int, kv_tokens: int = 10_000_000) -> list[Claim]:
        """The worker's next call; it is registered for it anew."""
        await self.queue.register("worker", FINGERPRINT, {"kv_tokens": 10_000_000})
        self._calls += 1
        return (
            await self.queue.claim(
                "worker", self._calls, ClaimOffer(FINGERPRINT, slots, kv_tokens, 10_000_000)
            )
        ).claims

    async def timed(self, script: Script[Any, Any], calls: Iterable[Any]) -> CallCost:
        """What the server spent on `script` while these are awaited."""
        await self._redis.config_set("slowlog-max-len", 100_000)
        await self._redis.config_set("slowlog-log-slower-than", 0)
        await self._redis.slowlog_reset()
        before = await self._cpu_seconds()
        for call in calls:
            await call
        cpu = await self._cpu_seconds() - before
        await self._redis.config_set("slowlog-log-slower-than", -1)
        found: list[dict[str, Any]] = await self._redis.slowlog_get(100_000)
        durations = [entry["duration"] / 1000 for entry in found if script.sha.encode() in entry["command"]]
        return CallCost(durations, cpu * 1000 / len(durations))

    async def _cpu_seconds(self) -> float:
        info = await self._redis.info("cpu")
        return info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]


def request_of(tenant: str, now: int, priority: PriorityClass = PriorityClass.INTERACTIVE) -> Enqueue:
    """A request for the pool, due in a day."""
    return Enqueue(
        tenant=tenant,
        id=uuid7(now),
        body_hash="bench",
        input=INPUT,
        fingerprint=FINGERPRINT,
        prompt_tokens=PROMPT_TOKENS,
        max_tokens=256,
        deadline_ms=now + DAY_MS,
        accepted_ms=now,
        granted=256,
        model="bench",
        priority=priority,
    )


@click.command()
@click.option("--tenants", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--requests", default=100_000, show_default=True, type=click.IntRange(1000), help="In line.")
@click.option("--calls", default=1_000, show_default=True, type=click.IntRange(10), help="Of each kind.")
@json_option
def queue(tenants: int, requests: int, calls: int, as_json: bool) -> None:
    """What claim, append and enqueue cost, short line and long.

    Goals: claim p99 < 5 ms; from enqueue to the claim of an idle worker p50 < 3 ms.
    """
    figures = uvloop.run(_measure(tenants, requests, calls))
    show("queue", figures, as_json, {"tenants": tenants, "requests": requests})


async def _measure(tenants: int, requests: int, calls: int) -> list[Figure]:
    found: list[Figure] = []
    async with lines() as redis:
        found += await _idle(WaitingPool(redis[0], redis[1]), min(calls, WAKES_MAX))
        for count, waiting in ((min(tenants, 10), 1_000), (tenants, requests)):
            line = WaitingPool(redis[0], redis[1])
            await redis[0].execute_command("FLUSHALL")
            began = time.monotonic()
            await line.fill(count, waiting)
            await line.settle()
            progress(f"{waiting} requests of {count} tenants in {time.monotonic() - began:.1f} s")
            found += await _costs(line, f"{count} tenants, {waiting} waiting", calls, waiting)
    return found


async def _idle(line: WaitingPool, times: int) -> list[Figure]:
    """From before the enqueue to the claim in the hands of a worker that waits as workers do."""
    claimed: asyncio.Queue[float] = asyncio.Queue()

    async def worker() -> None:
        for call in count(1):
            if (await line.queue.claim("idle", call, ClaimOffer(FINGERPRINT, 1, 10_000, 10_000))).claims:
                claimed.put_nowait(time.perf_counter())
            else:
                await line.queue.wait_for_work()

    working = asyncio.create_task(worker())
    took: list[float] = []
    try:
        for number in range(times):
            await line.queue.register("idle", FINGERPRINT, {"kv_tokens": 10_000_000})
            await asyncio.sleep(IDLE_SECONDS)
            began = time.perf_counter()
            await line.enqueue(0, number)
            took.append(1000 * (await claimed.get() - began))
    finally:
        await cancel_tasks([working])
    return _wakes(took)


def _wakes(took: Sequence[float]) -> list[Figure]:
    """Milliseconds of each."""
    return [
        Figure("enqueue to claim, idle worker: p50", percentile(took, 0.5), "ms", most=WAKE_MS_MAX),
        Figure("enqueue to claim, idle worker: p99", percentile(took, 0.99), "ms"),
    ]


async def _costs(line: WaitingPool, where: str, calls: int, waiting: int) -> list[Figure]:
    nothing_fits = await line.timed(lua_scripts.CLAIM, (line.claim(16, kv_tokens=1) for _ in range(calls)))
    claims = await line.claim(16) + await line.claim(16)
    flush = await line.timed(lua_scripts.APPEND, _flushes(line, claims[:FLUSH_REQUESTS], calls))
    singles = min(calls, waiting // 4)
    one = await line.timed(lua_scripts.CLAIM, (line.claim(1) for _ in range(singles)))
    sixteen = await line.timed(lua_scripts.CLAIM, (line.claim(16) for _ in range(min(calls, waiting // 40))))
    put = await line.timed(lua_scripts.ENQUEUE, (line.enqueue(0, at) for at in range(calls)))
    return _of_scripts(where, Costs(sixteen, one, nothing_fits, flush, put))


def _of_scripts(where: str, costs: Costs) -> list[Figure]:
    return [
        *_figures(f"claim of 16, {where}", costs.sixteen, CLAIM_MS_MAX),
        *_figures(f"claim of 1, {where}", costs.one, CLAIM_MS_MAX),
        *_figures(f"claim that finds nothing, {where}", costs.nothing_fits, CLAIM_MS_MAX),
        *_figures(f"append for {FLUSH_REQUESTS}, {where}", costs.flush, None),
        *_figures(f"enqueue, {where}", costs.put, None),
    ]


def _flushes(line: WaitingPool, claims: Sequence[Claim], calls: int) -> Iterable[Any]:
    """Appends of a token to each of these, one after the other."""
    for n in range(calls):
        yield line.queue.append("worker", [_token(claim, n) for claim in claims])


def _token(claim: Claim, n: int) -> Append:
    return Append(
        tenant=claim.tenant,
        id=claim.id,
        ck=claim.ck,
        n0=n,
        o0=claim.o,
        raw=0,
        visible=0,
        tokens=b"\x01\x00\x00\x00",
    )


def _figures(name: str, cost: CallCost, most: float | None) -> list[Figure]:
    return [
        Figure(f"{name}: p50", percentile(cost.durations, 0.5), "ms"),
        Figure(f"{name}: p99", percentile(cost.durations, 0.99), "ms", most=most),
        Figure(f"{name}: processor, mean", cost.cpu, "ms"),
    ]


@asynccontextmanager
async def lines(**settings: object) -> AsyncGenerator[tuple[RedisClient, Settings]]:
    """A Valkey of its own, with bounds that no line here meets; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        own = Settings.model_validate(
            {
                "home": Path(folder),
                "redis_maxmemory_mib": 8192,
                "queue_requests_max": 10_000_000,
                "queue_requests_per_tenant_max": 10_000_000,
                **settings,
            }
        )
        ensure_home(own)
        valkey = EmbeddedValkey(own)
        await valkey.start()
        redis = connect(own)
        try:
            yield redis, own
        finally:
            await redis.aclose()
            await valkey.stop()
