"""`overview.show` on a real Valkey, on SQLite and Postgres."""

from collections.abc import Sequence

import msgspec
import pytest

from admin.overview.answer import Overview
from admin.overview.show import ShowOverview, show_overview
from billing.operations import desired_pools, tenants
from billing.operations.desired_pools import CreatePool
from billing.operations.tenants import CreateTenant
from billing.posting.biller import post
from billing.reconciliation.comparison import Check, Comparison
from billing.reconciliation.last_run import store_last_run
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import ENDED_FIELD, ended_stream
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.request_figures import RequestFigures
from core.operations import Role
from core.redis.figure_minutes import FigureWriter
from core.redis.pools import announce_pool
from core.sql.database import Database
from engine.node.reports import NodeReport, PoolNodes, WorkerProcessState, WorkerReport
from engine.queue.types import ClaimOffer
from tests.engine.builders import FINGERPRINT, Pool, request, usage_event
from tests.support.models import add_model
from tests.support.ports import free_ports
from tests.support.redis import Redis

OWNER = OperationActor(Author("Ann", "command"), Role.OWNER)
FAR_MS = 4_000_000_000_000
OFFER = ClaimOffer(FINGERPRINT, slots=1, kv_tokens=100_000, prefill_tokens=10_000)


@pytest.fixture
def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """Both databases, and a real Valkey."""
    return Stores(settings, database, lambda: redis)


async def show(stores: Stores, role: Role = Role.OWNER) -> Overview:
    """What somebody of staff sees, as it goes over the wire."""
    who = OperationActor(Author("Ann", "api"), role)
    answer = await answer_of(show_overview, stores, who, ShowOverview())
    return msgspec.json.decode(msgspec.json.encode(answer), type=Overview)


async def serve(stores: Stores, name: str, workers: Sequence[str], slots: int) -> Pool:
    """A pool with workers."""
    pool = Pool(stores.redis, stores.settings, name=name, clock=None)  # pyright: ignore[reportArgumentType]
    await announce_pool(stores.redis, stores.settings, name)
    for worker in workers:
        facts = {"kv_tokens": 100_000, "slots": slots, "model": "smollm2", "version": "1", "node": "n1"}
        await pool.queue.register(worker, FINGERPRINT, {**facts, "kv_usage": 0.5, "step_age_ms": 31})
    return pool


async def full_pool(stores: Stores, tenant: str) -> None:
    """eu-1, whose one worker runs a request of the tenant while two wait for 20 s; the other one died."""
    pool = await serve(stores, "eu-1", ["w1"], 1)
    slots = [
        WorkerReport(0, "w1", 11, WorkerProcessState.READY),
        WorkerReport(1, "w2", 0, WorkerProcessState.RESTARTING, why="ended with code -9"),
    ]
    await PoolNodes(pool.queue).report(NodeReport("s1", "n1", 1, slots))
    for _ in range(3):
        await pool.queue.enqueue(request(tenant=tenant, deadline_ms=FAR_MS))
    await pool.queue.claim("w1", 1, OFFER)
    line = "{p:eu-1}age:interactive"
    waiting = await stores.redis.zrange(line, 0, -1)
    await stores.redis.zadd(line, {member: (now_ms() - 20_000) * 1000 for member in waiting})


async def test_a_full_pool_leads_with_what_helps(stores: Stores) -> None:
    """Workers, what waits and for how long, whose the pools are, and where its tenant could go on."""
    acme = (await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"))).tenant
    await add_model(stores.db, "m")
    made = CreatePool(pool="acme-1", model="m", tenant=acme)
    await answer_of(desired_pools.create_pool, stores, OWNER, made, Terms("order 7"))
    await serve(stores, "acme-1", ["w9"], 4)
    await full_pool(stores, acme)
    seen = await show(stores)
    assert (seen.verdict.state, seen.verdict.text) == (
        "bad",
        "Pool eu-1 is full: 2 interactive requests wait, the oldest for 20 s.",
    )
    assert seen.verdict.detail == (
        "w2 on n1 was lost: ended with code -9. All 1 slot of 1 worker are taken. acme-1 is well."
    )
    assert [each.lead for each in seen.remedies] == [
        "Move acme out of eu-1.",
        "Look at w2 on n1.",
        "Add a worker to eu-1.",
    ]
    own, shared = seen.pools
    assert (own.pool, own.shared, own.tenants, own.model) == ("acme-1", False, ["acme"], "smollm2 1")
    assert (shared.pool, shared.shared, shared.running, shared.slots, shared.kv) == ("eu-1", True, 1, 1, 0.5)
    assert [(each.worker, each.state, each.running) for each in shared.workers] == [
        ("w1", "serving", 1),
        ("w2", "lost", 0),
    ]
    assert (seen.waiting[0].name, seen.waiting[0].waiting) == ("interactive", 2)
    assert seen.strip.running is not None
    assert (seen.strip.running.value, seen.strip.running.of) == (1, 5)
    assert [each.text for each in seen.happened] == [
        "pool acme-1 was created for acme: “order 7”",
        "model m was added",
        "tenant acme was created",
    ]


async def test_support_sees_all_and_finance_the_books(stores: Stores) -> None:
    """Nothing of workers and requests reaches finance, in words neither."""
    acme = (await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"))).tenant
    await full_pool(stores, acme)
    seen = [(await show(stores, role)).verdict for role in (Role.SUPPORT, Role.OWNER)]
    assert seen[0].detail == seen[1].detail  # its text says for how long they wait, by now
    seen = await show(stores, Role.FINANCE)
    assert (seen.verdict.text, seen.verdict.detail) == ("All well.", "The books were not compared yet.")
    assert (seen.pools, seen.waiting, seen.load, seen.remedies) == ([], [], None, [])
    assert seen.strip.running is None
    assert "eu-1" not in msgspec.json.encode(seen).decode()


async def test_what_is_not_billed_yet_is_counted(stores: Stores) -> None:
    """What ended and nobody read, what is held back; and the books as they were last compared."""
    await serve(stores, "default", ["w1"], 4)
    await stores.redis.xadd(ended_stream("default"), {ENDED_FIELD: usage_event("t1", "r1")})
    await post(stores.db, "default", [b"no event at all"])
    differs = Comparison(Check.R4, "t1", "cost", "tokens", 12, 0)
    await store_last_run(stores.db, [differs], now_ms())
    seen = await show(stores)
    assert (seen.strip.unbilled.ended_unread, seen.strip.unbilled.quarantined) == (1, 1)
    assert seen.strip.unbilled.seconds is not None
    assert seen.verdict.text.startswith("The books differ: R4 (Redis posted = SQL posted) by -12 tokens")
    assert [(each.check, each.state) for each in seen.books if each.state == "differs"] == [("R4", "differs")]


async def test_what_processes_counted_is_shown(stores: Stores) -> None:
    """Of all processes, in the strip and in the load."""
    figures = RequestFigures()
    figures.series("first_token", "interactive").observe(80)
    figures.ended("interactive", "stop", 900)
    figures.add("output_tokens", 3_000)
    figures.sample("eu-1", {"running": 1, "slots": 4})
    await FigureWriter(stores.redis, stores.settings, figures).flush()
    seen = await show(stores)
    assert seen.strip.output is not None
    assert seen.strip.first_token is not None
    assert seen.load is not None
    assert (seen.strip.first_token.p99, len(seen.strip.first_token.series)) == (0.0998, 60)
    assert (seen.load.slots[-1], len(seen.load.minutes)) == (4.0, 60)


async def test_without_redis_the_sentence_says_so(
    settings: Settings, sqlite: Database, redis_url: str
) -> None:
    """What SQL has is shown all the same."""
    gone = Redis.from_url(f"redis://127.0.0.1:{free_ports(1)[0]}")
    stores = Stores(settings, sqlite, lambda: gone)
    created = Stores(settings, sqlite, lambda: Redis.from_url(redis_url))
    await answer_of(tenants.create_tenant, created, OWNER, CreateTenant(name="acme"))
    seen = await show(stores)
    assert (seen.verdict.state, seen.strip.running, seen.strip.unbilled.ended_unread) == (
        "unknown",
        None,
        None,
    )
    assert [each.text for each in seen.happened] == ["tenant acme was created"]
    await gone.aclose()
    await created.redis.aclose()
