"""What the console shows of a pool and of the last day."""

from dataclasses import dataclass
from typing import Any

import pytest

from admin import status
from admin.status import DAY_MS, RunningRequest, TenantUsage, WorkerStatus, read_status
from billing.api import PinnedPrices, UsageOwner, create_tenant
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.tables.wallets import WalletOwed
from billing.usage import ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from engine.api import ClaimOffer, Enqueue, PoolQueue, RequestInput, Sampling, WorkerView, input_encoder
from tests.support.redis import Redis

NOW_MS = 1_780_000_000_000


@dataclass
class StatusPool:
    """A pool's queue, and the Redis that it is in: these workers hold these requests."""

    workers_there: list[WorkerView]
    held: dict[str, list[tuple[str, str]]]

    def __call__(self, redis: object, pool: str, settings: Settings) -> "StatusPool":
        """Asked for as engine's."""
        assert (redis, pool) == (self, settings.pool)
        return self

    async def now_ms(self) -> int:
        """Redis' time."""
        return NOW_MS

    async def workers(self) -> list[WorkerView]:
        """As engine's."""
        return self.workers_there

    async def claimed(self, worker: str) -> list[tuple[str, str]]:
        """In no order."""
        return self.held[worker]

    async def zcard(self, key: str) -> int:
        """How many wait."""
        return {"{p:default}age:interactive": 3, "{p:default}age:bulk": 5}.get(key, 0)

    async def xlen(self, key: str) -> int:
        """How many ended."""
        assert key == ended_stream("default")
        return 7


async def read(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    workers: list[WorkerView] | None = None,
    held: dict[str, list[tuple[str, str]]] | None = None,
) -> status.PoolStatus:
    """The status of such a pool."""
    made: Any = StatusPool(workers or [], held or {})
    monkeypatch.setattr(status, "PoolQueue", made)
    return await read_status(Settings(), made, database)


def worker(name: str, **info: Any) -> WorkerView:
    """One whose lease ends in two seconds."""
    return WorkerView(name, "fp", alive=True, lease_ms=NOW_MS + 2_000, claims=1, info=info)


async def test_workers_are_shown_as_they_stand(sqlite: Database, monkeypatch: pytest.MonkeyPatch):
    """What one does not say of itself is nothing; a lease that is over has none left."""
    told = worker("w1", node="n", model="m", version="2", slots=4, kv_usage=0.5)
    gone = WorkerView("w2", "fp", alive=False, lease_ms=NOW_MS - 1, claims=0, info={})
    shown = await read(sqlite, monkeypatch, [told, gone], {"w1": [("t", "r")], "w2": []})
    assert shown.workers == [
        WorkerStatus("w1", "n", "m 2", alive=True, lease_ms=2_000, running=1, slots=4, kv_usage=0.5),
        WorkerStatus("w2", "", "", alive=False, lease_ms=0, running=0, slots=0, kv_usage=0.0),
    ]
    assert (shown.now_ms, shown.pool, shown.ended_unread) == (NOW_MS, "default", 7)
    assert shown.waiting == {"interactive": 3, "standard": 0, "bulk": 5}


async def test_two_hundred_of_what_runs_are_shown(sqlite: Database, monkeypatch: pytest.MonkeyPatch):
    """In order, worker by worker; all are counted."""
    held = {"w1": [("t", "b"), ("s", "z"), ("t", "a")], "w2": [("t", f"{at:03}") for at in range(198)]}
    shown = await read(sqlite, monkeypatch, [worker("w1"), worker("w2")], held)
    assert shown.running[:4] == [
        RunningRequest("s", "z", "w1"),
        RunningRequest("t", "a", "w1"),
        RunningRequest("t", "b", "w1"),
        RunningRequest("t", "000", "w2"),
    ]
    assert (len(shown.running), shown.running_total) == (200, 201)


async def test_usage_is_that_of_the_last_day(sqlite: Database, monkeypatch: pytest.MonkeyPatch):
    """To the millisecond; who cost most first, each currency by itself; what is owed stands beside it."""
    acme, beta = [(await create_tenant(sqlite, name)).tenant_id for name in ("acme", "beta")]
    since = NOW_MS - DAY_MS
    async with sqlite.transaction() as session:
        session.add_all(
            [
                _usage(acme, ended_ms=since, cost_nano=1),
                _usage(acme, ended_ms=since + 1, input_cached=5, output_reasoning=2),
                _usage(acme, ended_ms=since - 1),
                _usage(beta, ended_ms=NOW_MS, cost_nano=9_000),
                _usage(beta, ended_ms=NOW_MS, currency="eur", cost_nano=0),
                WalletOwed(tenant_id=beta, request_id="r", owed_nano=12),
            ]
        )
    assert (await read(sqlite, monkeypatch)).usage == [
        TenantUsage(beta, "beta", 1, 3, 7, "9000", "usd", "12"),
        TenantUsage(acme, "acme", 2, 11, 16, "1235", "usd", "0"),
        TenantUsage(beta, "beta", 1, 3, 7, "0", "eur", "12"),
    ]
    assert DAY_MS == 86_400_000
    async with sqlite.transaction() as session:
        session.add_all([_usage(acme, currency=f"{at:03}", cost_nano=1) for at in range(100)])
    shown = (await read(sqlite, monkeypatch)).usage
    assert (len(shown), {row.cost_nano for row in shown[2:]}) == (100, {"1"})


async def test_what_is_held_is_counted_until_somebody_decides(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
):
    """What was decided is kept, and asks for nobody any more."""
    assert (await read(sqlite, monkeypatch)).quarantined == 0
    async with sqlite.transaction() as session:
        session.add_all([_held("a"), _held("b"), _held("c", resolved_ms=NOW_MS)])
    assert (await read(sqlite, monkeypatch)).quarantined == 2


def _held(sha: str, resolved_ms: int | None = None) -> UsageQuarantine:
    return UsageQuarantine(
        event_sha256=sha,
        tenant_id="t",
        request_id="r",
        pool="default",
        reason="unadmitted",
        detail="",
        event=b"",
        created_ms=1,
        resolved_ms=resolved_ms,
    )


async def test_workers_queue_and_usage_are_shown(settings: Settings, redis: Redis, database: Database):
    """One running, one waiting, one ended request: each is counted where it belongs."""
    queue = PoolQueue(redis, settings.pool, settings)
    await queue.register(
        "w1", "fp", {"kv_tokens": 1000, "slots": 1, "model": "m", "version": "1", "node": "n"}
    )
    for _ in range(2):
        result = await queue.enqueue(_request())
        assert not hasattr(result, "code"), result
    await queue.claim("w1", 1, ClaimOffer("fp", slots=1, kv_tokens=1000, prefill_tokens=1000))
    tenant = await create_tenant(database, "acme")
    async with database.transaction() as session:
        session.add(_usage(tenant.tenant_id))
    status = await read_status(settings, redis, database)
    assert [(worker.name, worker.running, worker.alive) for worker in status.workers] == [("w1", 1, True)]
    assert (status.running_total, status.waiting["interactive"]) == (1, 1)
    assert [(row.name, row.output_tokens, row.cost_nano) for row in status.usage] == [("acme", 7, "1234")]


def _request() -> Enqueue:
    now = now_ms()
    request = RequestInput(
        prompt=b"\x01\x00\x00\x00",
        sampling=Sampling(max_tokens=8),
        owner=UsageOwner("p", "k"),
        prices=PinnedPrices("default", 1, 1, 1, 1),
        model="m",
        fingerprint="fp",
        accepted_ms=now,
        deadline_ms=now + 60_000,
    )
    return Enqueue(
        tenant="t",
        id=uuid7(now),
        body_hash="h",
        input=input_encoder.encode(request),
        fingerprint="fp",
        prompt_tokens=1,
        max_tokens=8,
        deadline_ms=now + 60_000,
        accepted_ms=now,
        granted=8,
        model="m",
    )


def _usage(tenant: str, **changes: Any) -> UsageRow:
    now = now_ms()
    facts: dict[str, Any] = {
        "tenant_id": tenant,
        "request_id": uuid7(now),
        "pool": "default",
        "model": "m",
        "fingerprint": "fp",
        "project_id": "p",
        "key_id": "k",
        "user_id": "",
        "conversation_id": "",
        "accepted_ms": now,
        "claimed_ms": now,
        "first_token_ms": now,
        "ended_ms": now,
        "reason": "stop",
        "code": "",
        "input_uncached": 3,
        "input_cached": 0,
        "output_text": 7,
        "output_reasoning": 0,
        "price_book_id": "default",
        "price_version": 1,
        "currency": "usd",
        "cost_nano": 1234,
        "claims": 1,
        "recomputed_tokens": 0,
        "request_metadata": {},
        "event_sha256": "00",
        "posted_ms": now,
    }
    return UsageRow(**facts | changes)
