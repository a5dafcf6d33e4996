"""All pools at one moment, for pages that show many: workers, what waits by class, who runs what. Reads only.

Each pool is read in two pipelines, a third where requests wait, and all pools side by side: what it takes
grows with workers, never with requests.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.members import names, readable, set_aside
from core.redis.unreadable import Unreadable, read
from engine.node.reports import NodeReport, WorkerReport
from engine.operations.worker_rows import WorkerRow, registered, unregistered
from engine.queue import redis_keys, script_replies
from engine.queue.client import PoolQueue
from engine.queue.types import WorkerView
from engine.request import PriorityClass

WORKERS_MAX = 1_000  # of a pool
SUPERVISORS_MAX = 1_000
HOLDERS_MAX = 64  # workers whose requests are counted by tenant
PACE_MS_MAX = 60_000.0  # as claim.lua measures it
FACTS: Sequence[str] = ("info", "fingerprint", "state")
PACE: Sequence[str] = ("pace", "taken_at")
DRAINING = b"draining"


class LiveWorker(msgspec.Struct, frozen=True):
    """A worker as operators see it, and what it could run. None: it has not said."""

    row: WorkerRow
    slots: int | None
    fingerprint: str
    version: str
    step_predicted_ms: float | None = None
    step_predicted_ms: float | None = None


class LiveClass(msgspec.Struct, frozen=True):
    """What waits in a class. `oldest_ms`: for how long its oldest request does; `ready`: tenants with waiting
    requests that may be picked, as the others are at a cap of their own."""

    waiting: int = 0
    oldest_ms: int = 0
    ready: int = 0


class LivePool(msgspec.Struct, frozen=True):
    """A pool now. `pace_ms`: between two requests that workers took lately while others waited; None: nobody
    knows. `running`: requests by tenant; only of a pool in which requests wait."""

    pool: str
    workers: list[LiveWorker]
    classes: dict[PriorityClass, LiveClass]
    pace_ms: float | None = None
    running: dict[str, int] = {}


async def read_live_pools(
    redis: RedisClient, settings: Settings, pools: Sequence[str]
) -> tuple[int, list[LivePool]]:
    """Redis' time, and each of these pools."""
    now = await PoolQueue(redis, settings.pool, settings).now_ms()
    return now, await asyncio.gather(*(_pool(redis, pool, now) for pool in pools))


async def _pool(redis: RedisClient, pool: str, now: int) -> LivePool:
    leases, supervisors, classes, pace_ms = await _lines(redis, pool, now)
    views, draining, reports = await _described(redis, pool, leases, supervisors, now)
    by_worker = {slot.worker: (report, slot) for report in reports for slot in report.slots}
    workers = [
        _registered(view, by_worker.pop(view.worker, None), view.worker in draining, now) for view in views
    ]
    workers += [LiveWorker(unregistered(*reported), None, "", "") for reported in by_worker.values()]
    busy = [view.worker for view in views if view.claims]
    waits = any(each.waiting for each in classes.values())
    return LivePool(
        pool,
        sorted(workers, key=lambda each: (each.row.node, each.row.worker)),
        classes,
        pace_ms,
        await running_by_tenant(redis, pool, busy[:HOLDERS_MAX]) if waits and busy else {},
    )


def _registered(
    view: WorkerView, reported: tuple[NodeReport, WorkerReport] | None, draining: bool, now: int
) -> LiveWorker:
    row = registered(view, reported[1] if reported else None, draining, now)
    return LiveWorker(
        row,
        view.count("slots"),
        view.fingerprint,
        str(view.info.get("version", "")),
        view.number("step_predicted_ms"),
    )


async def _lines(
    redis: RedisClient, pool: str, now: int
) -> tuple[list[tuple[bytes, float]], list[bytes], dict[PriorityClass, LiveClass], float | None]:
    """Workers' leases, supervisors, what waits, and the pace at which it is taken."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.zrange(redis_keys.workers(pool), 0, WORKERS_MAX - 1, withscores=True)
    pipeline.zrange(_key(pool, "supervisors"), 0, SUPERVISORS_MAX - 1)
    pipeline.hmget(redis_keys.system(pool), PACE)
    for each in PriorityClass:
        pipeline.zcard(_key(pool, f"age:{each}"))
        pipeline.zrange(_key(pool, f"age:{each}"), 0, 0, withscores=True)
        pipeline.zcard(_key(pool, f"act:{each}"))
    replies = await pipeline.execute(raise_on_error=False)
    got = dict(readable(_key(pool, "age:"), range(len(replies)), replies))
    classes = {
        each: _class(got.get(at, 0), got.get(at + 1, []), got.get(at + 2, 0), now)
        for each, at in zip(PriorityClass, range(3, len(replies), 3), strict=True)
    }
    return got.get(0, []), got.get(1, []), classes, _pace(got.get(2, [None, None]), now)


def _class(waiting: int, oldest: Sequence[tuple[bytes, float]], ready: int, now: int) -> LiveClass:
    since = oldest[0][1] / 1000 if oldest else now
    return LiveClass(waiting, max(0, int(now - since)) if math.isfinite(since) else 0, ready)


def _pace(facts: Sequence[bytes | None], now: int) -> float | None:
    """None as well where nothing was taken for far longer than that: then it says nothing of what comes."""
    pace, taken = (read("number", float, each) for each in (fact or b"0" for fact in facts))
    if isinstance(pace, Unreadable) or isinstance(taken, Unreadable) or not 0 < pace <= PACE_MS_MAX:
        return None
    return pace if now - taken <= 4 * pace + 1000 else None


async def _described(
    redis: RedisClient,
    pool: str,
    leases: Sequence[tuple[bytes, float]],
    supervisors: Sequence[bytes],
    now: int,
) -> tuple[list[WorkerView], set[str], list[NodeReport]]:
    """What workers and supervisors say of themselves; which of the former were told to drain."""
    named = {name: lease for raw, lease in leases for name in names(redis_keys.workers(pool), [raw])}
    reporting = names(_key(pool, "supervisors"), supervisors)
    if not named and not reporting:
        return [], set(), []
    pipeline = redis.pipeline(transaction=False)
    for name in named:
        pipeline.hmget(redis_keys.worker(pool, name), FACTS)
        pipeline.scard(redis_keys.claims(pool, name))
    for name in reporting:
        pipeline.get(_key(pool, f"supervisor:{name}"))
    replies = await pipeline.execute(raise_on_error=False)
    got = dict(readable(_key(pool, "worker:"), range(len(replies)), replies))
    views, draining = list[WorkerView](), set[str]()
    for at, (name, lease) in enumerate(named.items()):
        values: Sequence[bytes | None] = got.get(2 * at) or (None,) * len(FACTS)
        facts = dict(zip(FACTS, values, strict=True))
        view = _view(pool, name, lease, got.get(2 * at + 1, 0), facts, now)
        if view is not None:
            views.append(view)
            draining |= {name} if facts["state"] == DRAINING else set()
    return views, draining, _reports(pool, [got.get(at) for at in range(2 * len(named), len(replies))])


def _view(
    pool: str, name: str, lease: float, held: int, facts: Mapping[str, bytes | None], now: int
) -> WorkerView | None:
    """None where the worker has left meanwhile, or what it wrote cannot be read."""
    fields = {key.encode(): value for key, value in facts.items() if value is not None}
    if not fields:
        return None
    view = read("worker", lambda of: script_replies.worker(name, int(lease), now, held, of), fields)
    if isinstance(view, Unreadable):
        set_aside(redis_keys.worker(pool, name), 1)
        return None
    return view


def _reports(pool: str, raw: Sequence[bytes | None]) -> list[NodeReport]:
    decoded: list[Any] = [
        read("report", lambda data: msgspec.json.decode(data, type=NodeReport), each)
        for each in raw
        if each is not None
    ]
    reports = [each for each in decoded if not isinstance(each, Unreadable)]
    set_aside(_key(pool, "supervisor:"), len(decoded) - len(reports))
    return reports


async def running_by_tenant(redis: RedisClient, pool: str, workers: Sequence[str]) -> dict[str, int]:
    """How many requests these workers have in hand, by tenant."""
    if not workers:
        return {}
    pipeline = redis.pipeline(transaction=False)
    for name in workers:
        pipeline.smembers(redis_keys.claims(pool, name))
    replies = await pipeline.execute(raise_on_error=False)
    held = readable(_key(pool, "claims:"), workers, replies)
    members = (name for _, found in held for name in names(_key(pool, "claims:"), found))
    return dict(Counter(redis_keys.split_member(name)[0] for name in members))


def _key(pool: str, name: str) -> str:
    return f"{{p:{pool}}}{name}"
