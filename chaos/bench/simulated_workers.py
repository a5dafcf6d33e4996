"""Workers without engines, as pages see them: leases that are renewed each second, supervisors that report,
requests in hand and in line, and figures of the last hour."""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

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
    Append,
    Claim,
    ClaimOffer,
    Enqueue,
    Entry,
    EntryKind,
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
PROMPT, ANSWERED, AGO_MS = (200, 4_000), (20, 250), (500, 20_000)  # from, to
WORKERS_A_NODE = 8
DAY_MS = 86_400_000
MINUTES = 60
MEANS_MS = {"queue_wait": 40, "first_token": 100, "between_tokens": 15}
ERRORS = 0.002


@dataclass(frozen=True)
class PoolOfWorkers:
    """A pool's workers. `waiting`: requests in line; `tenant`: whose requests alone, by id."""

    workers: int
    model: str = "bench"
    waiting: int = 10
    tenant: str = ""


def even_pools(workers: int, pools: int) -> dict[str, PoolOfWorkers]:
    """So many workers, as evenly as can be in so many pools."""
    return {f"pool-{at}": PoolOfWorkers(len(range(at, workers, pools))) for at in range(pools)}


class SimulatedWorkers:
    """The workers of some pools. `requests`: tenants and ids of those in hand, then of those in line."""

    def __init__(self, redis: RedisClient, settings: Settings, pools: Mapping[str, PoolOfWorkers]) -> None:
        self._redis = redis
        self._of = pools
        self._settings = settings.model_copy(update={"worker_lease_ms": 10_000})
        self._chance = random.Random("simulated workers")
        self._pools = [PoolQueue(redis, name, self._settings) for name in pools]
        self._workers = [
            (f"{of.pool}-w{at}", of) for of in self._pools for at in range(pools[of.pool].workers)
        ]
        self._held = 0
        self.requests: list[tuple[str, str]] = []

    async def begin(self, tenants: Sequence[str], held: int) -> None:
        """Register them, and have each take `held` requests of these tenants and begin answers; more wait."""
        self._held = held
        for queue in self._pools:
            await announce_pool(self._redis, self._settings, queue.pool)
        for name, queue in self._workers:
            await queue.register(name, FINGERPRINT, self._facts(queue))
            await self._enqueue(queue, tenants, held)
            offer = ClaimOffer(FINGERPRINT, held, KV_TOKENS, KV_TOKENS)
            taken = await queue.claim(name, 1, offer)
            await queue.append(name, [self._begun(each) for each in taken.claims])
        for queue in self._pools:
            await self._enqueue(queue, tenants, self._of[queue.pool].waiting)
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
        await asyncio.gather(*(queue.renew(name, 30, self._facts(queue)) for name, queue in self._workers))
        for queue in self._pools:
            own = [name for name, of in self._workers if of is queue]
            for at in range(0, len(own), WORKERS_A_NODE):
                ready = WorkerProcessState.READY
                slots = [
                    WorkerReport(i, name, i, ready) for i, name in enumerate(own[at : at + WORKERS_A_NODE])
                ]
                await PoolNodes(queue).report(NodeReport(f"s{at}", f"node-{at}", 1, slots))

    def _facts(self, queue: PoolQueue) -> dict[str, object]:
        chance = self._chance.random()
        facts = {"kv_tokens": KV_TOKENS, "slots": SLOTS, "model": self._of[queue.pool].model, "version": "1"}
        facts |= {"node": "node-0", "running": self._held, "kv_usage": round(0.2 + 0.6 * chance, 3)}
        return {**facts, "step_age_ms": round(20 + 40 * chance)}

    async def _enqueue(self, queue: PoolQueue, tenants: Sequence[str], number: int) -> None:
        for _ in range(number):
            pool, (prompt, ago_ms) = (
                self._of[queue.pool],
                (self._chance.randint(*each) for each in (PROMPT, AGO_MS)),
            )
            request = _request(pool.tenant or self._chance.choice(tenants), pool.model, prompt, ago_ms)
            await queue.enqueue(request)
            self.requests.append((request.tenant, request.id))

    async def _count_minutes(self) -> None:
        """What a busy hour leaves in the minutes that the console reads."""
        last = now_ms()
        for at in range(MINUTES):
            figures, wave = RequestFigures(), 0.85 + 0.15 * math.sin(at / 9) + 0.05 * self._chance.random()
            for _ in range(round(200 * wave)):
                for priority in PriorityClass:
                    for metric, mean_ms in MEANS_MS.items():
                        figures.series(metric, priority).observe(round(self._chance.expovariate(1 / mean_ms)))
                    outcome = "error" if self._chance.random() < ERRORS else "stop"
                    figures.ended(priority, outcome, round(self._chance.expovariate(1 / 5_000)))
            figures.add("output_tokens", round(300_000 * wave))
            for name, pool in self._of.items():
                running = round(pool.workers * self._held * wave)
                levels = {"running": running, "slots": pool.workers * SLOTS}
                figures.sample(name, {**levels, "waiting.interactive": pool.waiting})
            key = figures_key(self._settings.installation, last - at * MINUTE_MS)
            commands = [("HINCRBY", key, name, count) for name, count in figures.take().items()]
            await self._redis.all_at_once(commands)

    def _begun(self, claim: Claim) -> Append:
        """The beginning of an answer."""
        number = self._chance.randint(*ANSWERED)
        text = Entry(o=claim.o + 1, k=EntryKind.TEXT, x="…", p=0, r=1, i=number)
        return Append(
            tenant=claim.tenant,
            id=claim.id,
            ck=claim.ck,
            n0=claim.n,
            o0=claim.o,
            raw=1,
            visible=1,
            tokens=bytes(4 * number),
            entries=[text],
        )


def _request(tenant: str, model: str, prompt_tokens: int, ago_ms: int) -> Enqueue:
    now = now_ms()
    asked = RequestInput(
        prompt=b"\x01\x00\x00\x00",
        sampling=Sampling(max_tokens=256),
        owner=UsageOwner(project="bench", key="bench"),
        prices=PinnedPrices(book="bench", version=1, input_nano=1, cached_input_nano=1, output_nano=1),
        model=model,
        fingerprint=FINGERPRINT,
        accepted_ms=now - ago_ms,
        deadline_ms=now + DAY_MS,
    )
    return Enqueue(
        tenant=tenant,
        id=uuid7(now - ago_ms),
        body_hash="bench",
        input=input_encoder.encode(asked),
        fingerprint=FINGERPRINT,
        prompt_tokens=prompt_tokens,
        max_tokens=256,
        deadline_ms=now + DAY_MS,
        accepted_ms=now - ago_ms,
        granted=256,
        model=model,
        no_reader_ms=DAY_MS,
    )
