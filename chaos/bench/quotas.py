"""`python -m chaos bench quotas`: what admission costs, and that many streams on one budget end at its limit.

The tenant slot is driven as gateways and workers drive it, against a Valkey and an SQLite file of its own.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import uvloop

from billing.api import (
    Admission,
    Admitted,
    Counts,
    Dimension,
    LimitCache,
    MoneySum,
    PinnedPrices,
    Quota,
    Scope,
    UsageEvent,
    UsageOwner,
    create_tenant,
    rate,
    set_budget,
    set_policy,
)
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.client import RedisClient, connect
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.sql.database import Database, migrate
from core.tasks import cancel_tasks

PRICES = PinnedPrices(
    book="default", version=1, input_nano=100_000_000, cached_input_nano=25_000_000, output_nano=400_000_000
)
SCOPES = (Scope.TENANT, Scope.PROJECT, Scope.USER)
MS_MAX = 1.0
RATE_LEAST = 0.95
INPUT, OUTPUT, CHUNK = 100, 40, 256
USED_LEAST = 0.99
SAMPLE_SECONDS = 0.002
CHUNKS_OF_EACH = 20
WARM = 200


@dataclass(frozen=True)
class BenchTenant:
    """A tenant, and how it is reached."""

    redis: RedisClient
    db: Database
    quota: Quota
    book: LimitCache
    tenant: str

    async def admission(self, user: str) -> Admission:
        """One more request, under the limits that the gateway knows."""
        now = now_ms()
        limits = await self.book.limits_for(self.tenant, "p1", "k1", user, "bench", now)
        return Admission(
            tenant=self.tenant,
            id=uuid7(now),
            body_hash="bench",
            owner_key="k1",
            project="p1",
            user=user,
            model="bench",
            pool="bench",
            fingerprint="bench@1",
            input_tokens=INPUT,
            chunk_tokens=CHUNK,
            deadline_ms=now + 600_000,
            prices=PRICES,
            limits=limits,
        )


@click.command()
@click.option("--seconds", default=20, show_default=True, type=click.IntRange(2, 600), help="Of admissions.")
@click.option("--per-second", default=500, show_default=True, type=click.IntRange(1, 5000))
@click.option("--streams", default=200, show_default=True, type=click.IntRange(2, 2000))
@json_option
def quotas(seconds: int, per_second: int, streams: int, as_json: bool) -> None:
    """What a reservation and its settlement cost, and whether a hard budget holds.

    Three scopes (tenant, project, user), each with limits on requests, tokens and concurrency and a budget;
    then streams that share one hard budget until it has ended every one of them. Goals: reserve + settle
    p99 <= 1 ms at 500 requests/s; overshoot 0 at every sample; at least 99 % of the budget used.
    """
    figures = uvloop.run(_measure(seconds, per_second, streams))
    show("quotas", figures, as_json, {"seconds": seconds, "per_second": per_second, "streams": streams})


async def _measure(seconds: int, per_second: int, streams: int) -> list[Figure]:
    async with slots() as slot:
        return await _cost(slot, seconds, per_second) + await _shared(slot, streams)


async def _cost(slot: BenchTenant, seconds: int, per_second: int) -> list[Figure]:
    """Requests begin at even times, whether those before are settled or not."""
    for scope in SCOPES:
        for dimension, limit in (
            (Dimension.REQUESTS, 1_000_000),
            (Dimension.TOKENS, 1_000_000_000),
            (Dimension.CONCURRENCY, 100_000),
        ):
            await set_policy(slot.db, slot.redis, slot.tenant, scope=scope, dimension=dimension, limit=limit)
        await set_budget(slot.db, slot.redis, slot.tenant, scope=scope, period="month", limit_nano=10**15)
    slot.book.changed(slot.tenant)
    for number in range(WARM):
        await _one(slot, number)
    redis: Any = slot.redis
    unlimited = replace(slot, tenant=(await create_tenant(slot.db, "unlimited")).tenant_id)
    for number in range(WARM):
        await _one(unlimited, number)
    gc.collect()
    gc.freeze()  # as gateways do: a full collection of everything imported would stop all that wait
    gc.set_threshold(50_000, 20, 100)
    floor: list[float] = []

    async def two_pings(_number: int) -> None:
        began = time.perf_counter()
        await redis.ping()
        await redis.ping()
        floor.append((time.perf_counter() - began) * 1000)

    total = seconds * per_second
    progress(
        f"{total} pairs of pings, requests without limits, then under {len(SCOPES) * 4}, at {per_second}/s"
    )
    await _paced(two_pings, total, per_second)
    free, _ = await _requests(unlimited, total, per_second)
    await redis.config_resetstat()
    took, ran = await _requests(slot, total, per_second)
    stats = (await redis.info("commandstats"))["cmdstat_evalsha"]
    server_us = float(stats["usec_per_call"])
    return [*_costs(took, total / ran, per_second), *_beside(free, floor, server_us)]


def _costs(took: Sequence[tuple[float, float]], reached: float, per_second: int) -> list[Figure]:
    """Of requests under limits, that ended at the rate `reached`."""
    both = [sum(each) for each in took]
    return [
        Figure("requests a second", round(reached, 1), "/s", least=per_second * RATE_LEAST),
        *_percentiles("reserve", [reserve for reserve, _ in took]),
        *_percentiles("settle", [settle for _, settle in took]),
        Figure("reserve + settle: p50", round(percentile(both, 0.5), 3), "ms"),
        Figure("reserve + settle: p99", round(percentile(both, 0.99), 3), "ms", most=MS_MAX),
    ]


def _beside(free: Sequence[tuple[float, float]], floor: list[float], server_us: float) -> list[Figure]:
    """What it is compared with."""
    return [
        *_percentiles("the same without limits", [sum(each) for each in free]),
        *_percentiles("two pings instead", floor),
        Figure("server time of a call, mean", round(server_us, 1), "µs"),
    ]


async def _requests(
    slot: BenchTenant, total: int, per_second: int
) -> tuple[list[tuple[float, float]], float]:
    """Milliseconds of each reservation and settlement, and the seconds that all took."""
    took: list[tuple[float, float]] = []

    async def request(number: int) -> None:
        took.append(await _one(slot, number))

    ran = await _paced(request, total, per_second)
    return took, ran


async def _paced(call: Callable[[int], Coroutine[Any, Any, None]], total: int, per_second: int) -> float:
    """Calls that begin at even times, whether those before have ended or not; the seconds that all took."""
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(total):
            group.create_task(call(number))
            await asyncio.sleep(max(0.0, began + (number + 1) / per_second - time.perf_counter()))
    return time.perf_counter() - began


def _percentiles(name: str, took: list[float]) -> list[Figure]:
    return [Figure(f"{name}: p{p:.0f}", round(percentile(took, p / 100), 3), "ms") for p in (50.0, 99.0)]


async def _one(slot: BenchTenant, number: int) -> tuple[float, float]:
    """Milliseconds of the reservation and of the settlement."""
    admission = await slot.admission(f"u{number % 100}")
    began = time.perf_counter()
    answer = await slot.quota.admit(admission)
    reserved = time.perf_counter() - began
    if not isinstance(answer, Admitted):
        raise RuntimeError(f"refused: {answer}")
    event = _ended(admission, OUTPUT)
    began = time.perf_counter()
    await slot.quota.settle(event)
    return reserved * 1000, (time.perf_counter() - began) * 1000


def _ended(admission: Admission, output: int) -> UsageEvent:
    return UsageEvent(
        tenant=admission.tenant,
        request=admission.id,
        pool=admission.pool,
        model=admission.model,
        fingerprint=admission.fingerprint,
        owner=UsageOwner(project=admission.project, key=admission.owner_key, user=admission.user),
        accepted_ms=now_ms(),
        ended_ms=now_ms(),
        reason="budget",
        prices=PRICES,
        input_uncached=admission.input_tokens,
        output_text=output,
        cost_nano=rate(Counts(input_uncached=admission.input_tokens, output_text=output), PRICES)[1],
        claims=1,
    )


async def _shared(slot: BenchTenant, streams: int) -> list[Figure]:
    """Streams of another tenant that only the budget ends."""
    tenant = (await create_tenant(slot.db, "shared")).tenant_id
    shared = BenchTenant(slot.redis, slot.db, slot.quota, LimitCache(slot.db), tenant)
    chunk_nano = rate(Counts(output_text=CHUNK), PRICES)[1]
    limit = CHUNKS_OF_EACH * streams * chunk_nano
    await set_budget(slot.db, slot.redis, tenant, scope=Scope.TENANT, period="month", limit_nano=limit)
    overshoots: list[int] = []
    sampling = asyncio.create_task(_sample(shared, limit, overshoots))
    progress(f"{streams} streams on one budget of {limit:,} nano")
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(_stream(shared, number)) for number in range(streams)]
    finally:
        await cancel_tasks([sampling])
    ended = [task.result() for task in running]
    (left,) = await slot.quota.budget_sums(tenant)
    return _kept(left, limit, ended, overshoots, streams)


def _kept(
    left: MoneySum, limit: int, ended: Sequence[int], overshoots: Sequence[int], streams: int
) -> list[Figure]:
    """Whether the budget held. `left`: its sums once all streams have ended at these costs."""
    spent = left.posted_nano + left.unbooked_nano
    if spent != sum(ended) or left.held_nano or left.open:
        raise RuntimeError(f"the count does not agree with what was settled: {left}")
    return [
        Figure("streams that the budget ended", len(ended), "", least=streams),
        Figure("samples", len(overshoots), ""),
        Figure("overshoot, most of all samples", max(0, *overshoots, spent - limit), "nano", most=0),
        Figure("posted of the limit", round(spent / limit, 5), "", least=USED_LEAST),
    ]


async def _sample(slot: BenchTenant, limit: int, overshoots: list[int]) -> None:
    while True:
        sums = await slot.quota.budget_sums(slot.tenant)
        overshoots += [each.posted_nano + each.unbooked_nano + each.held_nano - limit for each in sums]
        if sums and len(overshoots) % 500 == 0:
            progress(f"{limit + overshoots[-1]:,} of {limit:,} nano")
        await asyncio.sleep(SAMPLE_SECONDS)


async def _stream(slot: BenchTenant, number: int) -> int:
    """What it cost until the budget ended it. It asks as a worker does: a chunk ahead, and again when others'
    holds may come back."""
    admission = await slot.admission(f"u{number}")
    answer = await slot.quota.admit(admission)
    if not isinstance(answer, Admitted):
        raise RuntimeError(f"refused: {answer}")
    granted = answer.granted
    while True:
        extension = await slot.quota.extend(slot.tenant, admission.id, granted + CHUNK)
        granted = extension.granted
        if extension.refusal is not None:
            break
        await asyncio.sleep((extension.wait_ms or 0) / 1000)
    event = _ended(admission, granted)
    await slot.quota.settle(event)
    return event.cost_nano


@asynccontextmanager
async def slots() -> AsyncGenerator[BenchTenant]:
    """A tenant in a Valkey and a database of its own, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        url = f"sqlite+aiosqlite:///{Path(folder) / 'parley.db'}"
        settings = Settings.model_validate({"home": Path(folder), "database_url": url, "secret": "bench" * 8})
        ensure_home(settings)
        await migrate(url)
        valkey = EmbeddedValkey(settings)
        await valkey.start()
        db, redis = Database(url), connect(settings)
        try:
            tenant = (await create_tenant(db, "bench")).tenant_id
            yield BenchTenant(redis, db, Quota(redis, settings, db), LimitCache(db), tenant)
        finally:
            await redis.aclose()
            await db.close()
            await valkey.stop()
