"""What reads behind a taken-over worker: sweeps, commands, billers, reconciliation. None may end in a
traceback, each goes on past what was planted, and a neighbour in another pool is served as ever."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from admin.status import read_status
from billing.api import (
    Admission,
    Admitted,
    Dimension,
    OwnerFilter,
    PinnedPrices,
    Quota,
    Reconciliation,
    RequestLimits,
    Scope,
    Tenant,
    UsageOwner,
    held_of,
    keys_of_requests,
    open_of,
    tenants_holding,
)
from billing.limits import COUNTS, UnitLimit, wallet_limit
from billing.posting.biller import Biller
from billing.quota.unposted_usage import unposted_usage
from chaos.bench.fuzz.plants import IDS, POOL, TENANTS, WORKERS
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.observability.request_figures import BOUNDS_MS, LEVELS, RequestFigures
from core.redis.client import RedisClient
from core.redis.figure_minutes import FigureWriter, read_figures
from core.redis.pools import announce_pool
from core.sql.database import Database
from engine.api import (
    Claim,
    ClaimOffer,
    Enqueue,
    Enqueued,
    PoolQueue,
    PriorityClass,
    Reaper,
    RequestInput,
    Sampling,
    explain_request,
    input_encoder,
)
from engine.lifecycle.finish import end_claimed
from engine.lifecycle.stale_admissions import release_stale_admissions
from engine.node.reports import PoolNodes
from engine.operations.cancel import cancel_requests
from engine.operations.inspection import Inspection
from engine.queue import redis_keys
from server.conversations.erasure import erase_texts

STOPPED = ("reaper.run_failed", "reaper.stale_admissions_failed")  # said, and not done
OTHER, NEIGHBOUR, DUE = "other", "n1", "good"
ROUNDS_MAX = 250  # of a reaper that ends 100 a round, behind 10,000 members and more
SWEEP_SECONDS_MAX = 60.0
PRICES = PinnedPrices("default", 1, 1_000_000, 500_000, 2_000_000)
LIMITS = RequestLimits((UnitLimit(Scope.TENANT, "", "*", Dimension.REQUESTS, 10**9, 10**9),), ())


@dataclass
class FuzzedSite:
    """One installation's Redis and books, as those see it who are not the worker."""

    settings: Settings
    redis: RedisClient
    db: Database

    @property
    def queue(self) -> PoolQueue:
        """The pool of the worker that was taken over."""
        return PoolQueue(self.redis, POOL, self.settings)

    async def begin(self) -> None:
        """An empty Redis with both pools, tenants with open requests, and one request that is due."""
        await self.redis.execute_command("FLUSHALL")
        for pool in (POOL, OTHER):
            await announce_pool(self.redis, self.settings, pool)
        await self.redis.zadd("parley:tenants:open", {tenant: now_ms() for tenant in TENANTS})
        assert isinstance(
            await self.queue.enqueue(_request(DUE, POOL, deadline_ms=now_ms() + 60_000)), Enqueued
        )
        await self.redis.zadd(f"{{p:{POOL}}}deadlines", {f"{NEIGHBOUR}:{DUE}": 1})
        await self.redis.hset(redis_keys.record(POOL, NEIGHBOUR, DUE), mapping={"deadline": 1})


def sweeps(site: FuzzedSite, *, slow: bool) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    """By name. `slow`: also commands that wait for gateways."""
    s, redis, db = site.settings, site.redis, site.db
    queue, quota = site.queue, Quota(redis, s, db)
    inspection = Inspection(queue)
    one, id = TENANTS[0], IDS[0]
    found: dict[str, Callable[[], Awaitable[Any]]] = {
        "reaper": lambda: _reaped(site),
        "stale admissions": lambda: release_stale_admissions(queue, quota, older_than_ms=-1_000),
        "workers": queue.workers,
        "claimed": lambda: queue.claimed(WORKERS[0]),
        "pool status": lambda: read_status(s, redis, db),
        "requests list": lambda: inspection.requests(None, None, 500),
        "pool view": inspection.snapshot,
        "request view": lambda: inspection.request(one, id),
        "explain": lambda: _or_refused(explain_request(db, redis, s, id, one)),
        "supervisors": PoolNodes(queue).reports,
        "orders": lambda: PoolNodes(queue).next_order(WORKERS[0], 0.01),
        "holds": lambda: quota.holds(one),
        "use": lambda: quota.use(one, _counted()),
        "budgets": lambda: quota.budget_sums(one),
        "directory": lambda: quota.directory(one, id),
        "open requests": lambda: open_of(redis, OwnerFilter(one)),
        "senders": lambda: keys_of_requests(redis, one, IDS),
        "held": lambda: held_of(redis, one, id),
        "holders": lambda: tenants_holding(redis, TENANTS, id),
        "biller": Biller(db, redis, s, [POOL]).drain,
        "month close": lambda: _unposted(site),
        "rebind": lambda: quota.rebind(one, id, OTHER, 1),
        "ends": queue.ends,
        "reconciliation": Reconciliation(db, redis, s).run,
        "figures": lambda: _figures(site),
        "erase": lambda: _or_refused(erase_texts(db, redis, s, one, None)),
        "neighbour": lambda: served(site),
    }
    return found | ({"cancel": lambda: cancel_requests(redis, s, OwnerFilter(one))} if slow else {})


async def broken_by(site: FuzzedSite, *, slow: bool) -> list[str]:
    """Which sweeps did not go on, each with why and where."""
    broken: list[str] = []
    for name, sweep in sweeps(site, slow=slow).items():
        lines: list[Any] = []
        try:
            with capture_logs() as lines:
                async with asyncio.timeout(SWEEP_SECONDS_MAX):
                    await sweep()
        except Exception as error:  # noqa: BLE001  (a user would see a traceback)
            broken.append(f"{name}: {type(error).__name__} {str(error)[:80]!r} at {_place(error)}")
        broken += [f"{name}: {line}" for line in lines if line["event"] in STOPPED]
    return broken


def _place(error: Exception) -> str:
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"


async def _reaped(site: FuzzedSite) -> None:
    """What is due behind all that was planted is ended, where it is still in the list."""
    client, record = site.redis, redis_keys.record(POOL, NEIGHBOUR, DUE)
    reaper = Reaper(site.queue, Quota(client, site.settings), 1_000, site.settings.keyring)
    due = await client.execute_command("TYPE", f"{{p:{POOL}}}deadlines") == b"zset"
    due = due and await client.zscore(f"{{p:{POOL}}}deadlines", f"{NEIGHBOUR}:{DUE}") is not None
    for _ in range(ROUNDS_MAX if due else 3):
        await reaper.once()
        if due and await client.hget(record, "status") == b"ended":
            return
    assert not due, "the reaper never came to what is due"


async def _figures(site: FuzzedSite) -> None:
    """What a process counted is added, and what all did is shown."""
    figures = RequestFigures()
    figures.sample(OTHER, dict.fromkeys(LEVELS, 1))
    await FigureWriter(site.redis, site.settings, figures).flush()
    read = await read_figures(site.redis, site.settings)
    for metric in BOUNDS_MS:
        read.percentiles(metric)
        read.series(metric)
    shown = (read.rate("output_tokens"), read.faults(), read.levels("running"), read.ended())
    assert {len(each) for each in shown} == {60}


async def served(site: FuzzedSite) -> None:
    """A request of another tenant in another pool, from its admission to its settlement."""
    queue, quota = PoolQueue(site.redis, OTHER, site.settings), Quota(site.redis, site.settings)
    id = f"r{now_ms()}"
    deadline = now_ms() + 600_000
    asked = Admission(
        tenant=NEIGHBOUR,
        id=id,
        body_hash="h",
        owner_key="k1",
        project="p1",
        user="u1",
        model="m",
        pool=OTHER,
        fingerprint="f",
        input_tokens=2,
        chunk_tokens=16,
        deadline_ms=deadline,
        prices=PRICES,
        limits=LIMITS,
    )
    admitted = await quota.admit(asked)
    assert isinstance(admitted, Admitted), admitted
    assert isinstance(await queue.enqueue(_request(id, OTHER, deadline)), Enqueued)
    await queue.register("wn", "f", {"kv_tokens": 100_000})
    claim = await _claimed(queue)
    assert (await quota.extend(NEIGHBOUR, id, 32)).granted >= 32
    event = await end_claimed(queue, quota, "wn", claim)
    assert event is not None
    assert await quota.settle(event) == "settled"
    await queue.deregister("wn")


async def _claimed(queue: PoolQueue) -> Claim:
    offer = ClaimOffer(fingerprint="f", slots=4, kv_tokens=100_000, prefill_tokens=100_000)
    (claim,) = (await queue.claim("wn", 1, offer)).claims
    return claim


def _request(id: str, pool: str, deadline_ms: int) -> Enqueue:
    accepted = now_ms()
    sent = RequestInput(
        prompt=b"\1\0\0\0\2\0\0\0",
        sampling=Sampling(max_tokens=8),
        owner=UsageOwner("p1", "k1", "u1"),
        prices=PRICES,
        model="m",
        fingerprint="f",
        accepted_ms=accepted,
        deadline_ms=deadline_ms,
    )
    return Enqueue(
        tenant=NEIGHBOUR,
        id=id,
        body_hash="h",
        input=input_encoder.encode(sent),
        priority=PriorityClass.STANDARD,
        fingerprint="f",
        prompt_tokens=2,
        max_tokens=8,
        deadline_ms=deadline_ms,
        accepted_ms=accepted,
        granted=16,
        model="m",
    )


def _counted() -> RequestLimits:
    units = (UnitLimit(Scope.TENANT, "", "*", each, 9, 9) for each in (*COUNTS, Dimension.CONCURRENCY))
    return RequestLimits(tuple(units), (wallet_limit(1, 1),))


async def _unposted(site: FuzzedSite) -> None:
    found = await unposted_usage(site.redis, [POOL], TENANTS[0], now_ms() + 1_000)
    assert not found.unreachable


async def _or_refused(work: Awaitable[Any]) -> None:
    """A refusal in words is an answer."""
    try:
        await work
    except Refused:
        return


async def with_tenants(db: Database) -> None:
    """The tenants whose keys are planted, in the books."""
    async with db.transaction() as session:
        for name in (*TENANTS, NEIGHBOUR):
            session.add(
                Tenant(
                    tenant_id=name,
                    name=name,
                    price_book_id="default",
                    priority_max="interactive",
                    created_ms=1,
                )
            )
