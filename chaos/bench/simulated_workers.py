"""Workers without engines, as pages see them: leases that are renewed each second, supervisors that report,
requests in hand and in line, and figures of the last hour."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from billing.api import PinnedPrices, UsageOwner
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.observability.recent_figures import MINUTE_MS
from core.observability.request_figures import RequestFigures
from core.redis.client import RedisClient
from core.redis.figure_minutes import figures_key
from core.redis.pools import announce_pool
from core.tasks import cancel_tasks
from engine.api import (
    ClaimOffer,
    Enqueue,
    PoolQueue,
    PriorityClass,
    RequestInput,
    Sampling,
    WorkerProcessState,
    input_encoder,
)
from engine.node.reports import NodeReport, PoolNodes, WorkerReport

BEAT_SECONDS = 1.0
FINGERPRINT = "bench@1"
SLOTS = 16
KV_TOKENS = 1_000_000
WAITING = 10  # in each pool
WORKERS_A_NODE = 8
DAY_MS = 86_400_000
MINUTES = 60


class SimulatedWorkers:
    """So many workers in so many pools, each with `held` requests in hand. `requests`: tenants and ids, those
    in hand first."""

    def __init__(self, redis: RedisClient, settings: Settings, workers: int, pools: int) -> None:
        self._redis = redis
        self._settings = settings.model_copy(update={"worker_lease_ms": 10_000})
        self._chance = random.Random("simulated workers")
        self._pools = [PoolQueue(redis, f"pool-{at}", self._settings) for at in range(pools)]
        self._workers = [(f"w{at}", self._pools[at % pools]) for at in range(workers)]
        self.requests: list[tuple[str, str]] = []

    async def begin(self, tenants: Sequence[str], held: int) -> None:
        """Register them, and have them take requests of these tenants; some more wait."""
        for queue in self._pools:
            await announce_pool(self._redis, self._settings, queue.pool)
        for name, queue in self._workers:
            await queue.register(name, FINGERPRINT, self._facts())
            await self._enqueue(queue, tenants, held)
            await queue.claim(name, 1, ClaimOffer(FINGERPRINT, held, KV_TOKENS, KV_TOKENS))
        for queue in self._pools:
            await self._enqueue(queue, tenants, WAITING)
        await self._count_minutes()

    @asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """Renew leases and reports while the block runs."""
        await self._beat()
        beats = asyncio.create_task(self._beat_on())
        try:
            yield
        finally:
            await cancel_tasks([beats])

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await self._beat()

    async def _beat(self) -> None:
        await asyncio.gather(*(queue.renew(name, 30, self._facts()) for name, queue in self._workers))
        for queue in self._pools:
            own = [name for name, of in self._workers if of is queue]
            for at in range(0, len(own), WORKERS_A_NODE):
                ready = WorkerProcessState.READY
                slots = [
                    WorkerReport(i, name, i, ready) for i, name in enumerate(own[at : at + WORKERS_A_NODE])
                ]
                await PoolNodes(queue).report(NodeReport(f"s{at}", f"node-{at}", 1, slots))

    def _facts(self) -> dict[str, object]:
        chance = self._chance.random()
        facts = {"kv_tokens": KV_TOKENS, "slots": SLOTS, "model": "bench", "version": "1", "node": "node-0"}
        return {**facts, "running": 8, "kv_usage": round(chance, 3), "step_age_ms": round(60 * chance)}

    async def _enqueue(self, queue: PoolQueue, tenants: Sequence[str], number: int) -> None:
        for _ in range(number):
            request = _request(self._chance.choice(tenants))
            await queue.enqueue(request)
            self.requests.append((request.tenant, request.id))

    async def _count_minutes(self) -> None:
        """What a busy hour leaves in the minutes that the console reads."""
        last = now_ms()
        for at in range(MINUTES):
            figures = RequestFigures()
            for _ in range(200):
                for priority in PriorityClass:
                    for metric in ("queue_wait", "first_token", "between_tokens"):
                        figures.series(metric, priority).observe(round(self._chance.expovariate(1 / 100)))
                    figures.ended(priority, "stop", round(self._chance.expovariate(1 / 5_000)))
            figures.add("output_tokens", 300_000)
            for queue in self._pools:
                figures.sample(queue.pool, {"running": 80, "slots": 160, "waiting.interactive": 10})
            key = figures_key(self._settings.installation, last - at * MINUTE_MS)
            commands = [("HINCRBY", key, name, count) for name, count in figures.take().items()]
            await self._redis.all_at_once(commands)


def _request(tenant: str) -> Enqueue:
    now = now_ms()
    asked = RequestInput(
        prompt=b"\x01\x00\x00\x00",
        sampling=Sampling(max_tokens=256),
        owner=UsageOwner(project="bench", key="bench"),
        prices=PinnedPrices(book="bench", version=1, input_nano=1, cached_input_nano=1, output_nano=1),
        model="bench",
        fingerprint=FINGERPRINT,
        accepted_ms=now,
        deadline_ms=now + DAY_MS,
    )
    return Enqueue(
        tenant=tenant,
        id=uuid7(now),
        body_hash="bench",
        input=input_encoder.encode(asked),
        fingerprint=FINGERPRINT,
        prompt_tokens=1,
        max_tokens=256,
        deadline_ms=now + DAY_MS,
        accepted_ms=now,
        granted=256,
        model="bench",
        no_reader_ms=DAY_MS,
    )
