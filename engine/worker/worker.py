"""The worker: claims requests, has the engine decode them, and appends what comes to their logs.

A thin shell around `WorkerCore`, which decides. Five tasks: engine steps, flushes, claims, orders, and
keeping the lease. Steps, orders and claims act on the workload as they come; only the flush task appends,
one call at a time for all answers.
"""

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError, ResponseError

from billing.api import Quota
from core.clock import ServerClock
from core.configuration.settings import Settings
from core.observability.error_facts import error_facts, error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.redis_errors import is_refusing_everybody
from core.runtime.failpoints import Failpoint, hit_failpoint
from core.tasks import cancel_tasks
from engine import instruments
from engine.backends.base import Engine, EngineDeadError, Generation, GenerationRefusedError
from engine.journal import end_counts
from engine.journal.journal import Journal
from engine.journal.token_counts import EngineTokenCounts, publish
from engine.models.registry import ModelRecord
from engine.queue.client import PoolQueue
from engine.queue.notifications import WorkerWakes
from engine.queue.types import Append
from engine.request import PriorityClass
from engine.worker import answer_figures
from engine.worker.background_calls import REDIS_RETRY_SECONDS, BackgroundCalls
from engine.worker.claimed_request import ClaimedRequest
from engine.worker.core import WorkerCore
from engine.worker.policy_cache import PolicyCache
from engine.worker.policy_loader import PolicyLoader
from engine.worker.worker_calls import WorkerCalls

log = logger(__name__)
repeated = RepeatedWarning(log)

KEEP_SECONDS = 0.25
RENEW_SECONDS = 1.0
RECONCILE_SECONDS = 5.0
IDLE_WAIT_SECONDS = 0.05
BUSY_WAIT_SECONDS = 0.2  # an enqueue wakes the wait; this only bounds the cost of a lost wake
FULL_ASK_SECONDS = 0.1
DRAIN_SECONDS_MAX = 10.0
STEP_AGE_MS_ALIVE = 3_000
STEP_AGE_MS_MAX = 24_000


class Worker:
    """One started engine at work for one pool, under a name that no other process had."""

    def __init__(
        self,
        settings: Settings,
        redis: RedisClient,
        engine: Engine,
        record: ModelRecord,
        workload: WorkerCore,
        name: str,
        policies: PolicyCache,
        journal: Journal | None = None,
    ) -> None:
        self.name = name
        self._journal = journal
        ended = journal.add if journal else None
        self._queue = PoolQueue(redis, settings.pool, settings, ended=ended)
        self._wakes = WorkerWakes(redis, settings.pool, name)
        self._engine = engine
        self._redis = redis
        self._counted = EngineTokenCounts(engine.counters())
        self._record = record
        self._workload = workload
        self._info = {
            "model": record.name,
            "version": record.version,
            "node": settings.node,
            "pid": os.getpid(),
            "slots": settings.worker_slots,
            "slots_interactive": workload.capacity.interactive_slots,
            "kv_tokens": engine.kv_tokens,
        }
        # Steps faster than this share a flush; slower ones flush at once.
        self._flush_gap = settings.worker_flush_ms / 2000
        self._last_flush = self._asked = 0.0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._allowances: list[tuple[str, int, bool]] = []
        quota = Quota(redis, settings)
        loader = PolicyLoader(self._queue, policies)
        self._policies: list[tuple[str, str]] = []
        given, loaded = self._allowance_given, self._policy_loaded
        self._background = BackgroundCalls(
            self._queue, quota, name, given, workload.wants_allowance, loader, loaded
        )
        self._clock = ServerClock()
        self._renewed = -math.inf
        self._lease_seconds = settings.worker_lease_ms / 1000
        self._unknown: set[tuple[str, str]] = set()
        self._hopeless: set[tuple[str, str]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then give everything back. Raises EngineDeadError when the engine is
        lost."""
        await self._register()
        await self._wakes.start()
        loops = (self._pump(), self._flush_loop(), self._listen(), self._keep())
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(loop) for loop in loops]
        claiming = asyncio.create_task(self._claim_loop())
        stopping = asyncio.create_task(stop.wait())
        try:
            await self._until_done([*tasks, claiming, stopping])
            await cancel_tasks([claiming])
            draining = asyncio.create_task(self._drain())
            tasks.append(draining)
            await self._until_done(tasks)
        finally:
            await cancel_tasks([*tasks, claiming, stopping])
            await self._background.end()
            await self._wakes.close()

    def missing(self) -> str:
        """The reason why it cannot work, empty where it has a lease and a place in the pool."""
        late = time.monotonic() - self._renewed > self._lease_seconds
        return "no lease: Redis is away, or the engine makes no steps" if late else ""

    async def abandon(self) -> None:
        """Give back the work of a dead engine now, before this process ends."""
        with contextlib.suppress(RedisError, OSError):
            await self._queue.deregister(self.name, "lost")

    async def _until_done(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Wait until the first of them ends or fails."""
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _pump(self) -> None:
        async for batch in self._engine.steps():
            cached = sum(output.cached for output in batch if self._workload.prefills(output.id))
            self._counted.stepped(batch, self._engine.counters())
            await self._do(self._workload.stepped(batch, self._clock.now_ms()))
            stats = self._engine.stats()
            steps = self._engine.measured()
            instruments.count_steps(batch, cached, steps)
            self._workload.measured(steps, stats.waiting, stats.preemptions)
            self._changed.set()

    async def _flush_loop(self) -> None:
        while True:
            await self._changed.wait()
            early = self._last_flush + self._flush_gap - time.monotonic()
            if early > 0:
                await asyncio.sleep(early)
            self._changed.clear()
            try:
                await self._flush()
            except (RedisError, OSError) as error:
                repeated.warning("worker.flush_failed", error=error_summary(error))
                await asyncio.sleep(REDIS_RETRY_SECONDS)
                self._changed.set()

    async def _flush(self) -> None:
        loaded, self._policies = self._policies, []
        for hash, problem in loaded:
            await self._do(self._workload.policy_loaded(hash, problem, self._clock.now_ms()))
        for allowance in self._take_allowances():
            await self._do(self._workload.granted(*allowance))
        self._last_flush = time.monotonic()
        if sent := self._workload.appends(self._clock.now_ms()):
            await self._append(sent)
        await self._do(self._workload.departures())
        self._room.set()

    async def _append(self, sent: list[tuple[ClaimedRequest, Append]]) -> None:
        if any(append.end for _, append in sent):
            hit_failpoint(Failpoint.WORKER_BEFORE_END)
        try:
            answers = await self._queue.append(self.name, [append for _, append in sent])
        except ResponseError as error:
            if is_refusing_everybody(error):
                raise
            await self._append_singly(sent, error)
            return
        if any(append.end for _, append in sent):
            hit_failpoint(Failpoint.WORKER_AFTER_END)
        instruments.flush_seconds.record(time.monotonic() - self._last_flush)
        before = sum(answer.taken for answer, _ in sent)
        work = self._workload.appended(sent, answers, self._clock.now_ms())
        taken = sum(answer.taken for answer, _ in sent) - before
        self._counted.took(taken)
        answer_figures.count_appends(sent, answers, taken)
        for (answer, _), result in zip(sent, answers, strict=True):
            if answer.held is not None:
                instruments.safety_held.record(answer.held)
            if result.code == "ENDED":
                instruments.safety_unbilled.add(answer.unbilled)
            if result.code not in ("OK", "DUP", "ENDED"):
                log.warning("worker.append_refused", code=result.code.value, **_names(answer))
                self._changed.set()
        await self._do(work)

    async def _append_singly(self, sent: list[tuple[ClaimedRequest, Append]], error: ResponseError) -> None:
        """One request's broken keys fail the whole call: find it, give it up, and let the others through."""
        if len(sent) == 1:
            log.error("worker.append_failed", error=error_summary(error), **_names(sent[0][0]))
            await self._do(self._workload.given_up(sent[0][0]))
            return
        for pair in sent:
            await self._append([pair])

    async def _claim_loop(self) -> None:
        call = 0
        while True:
            self._room.clear()
            offer = self._workload.offer(self._engine.stats().waiting, self._clock.now_ms())
            if (not offer.slots or not offer.kv_tokens or not offer.prefill_tokens) and await self._wait():
                continue
            try:
                call += 1
                claims = await self._queue.claim(self.name, call, offer)
                if claims.claims:
                    for claim in claims.claims:
                        instruments.claimed_requests.add(1, {"continued": claim.cn > 1})
                    self._workload.answered(offer, self._clock.now_ms())
                    await self._do(self._workload.claimed(claims.claims, self._clock.now_ms()))
                    self._changed.set()
                elif offer.slots:
                    everything = offer.lowest is PriorityClass.BULK
                    patient = len(self._workload) and everything and not claims.retry_ms
                    await self._queue.wait_for_work(BUSY_WAIT_SECONDS if patient else IDLE_WAIT_SECONDS)
            except (RedisError, OSError) as error:
                repeated.warning("worker.claim_failed", error=error_summary(error))
                call -= 1  # the same number repeats the reply that was lost
                await asyncio.sleep(REDIS_RETRY_SECONDS)

    async def _wait(self) -> bool:
        """Wait until there may be room. False where a full worker should ask all the same, with nothing to
        offer: the pool may then order lower classes to leave."""
        ask_in = max(0.0, self._asked + FULL_ASK_SECONDS - time.monotonic())
        try:
            async with asyncio.timeout(ask_in if self._workload.full else None):
                await self._room.wait()
        except TimeoutError:
            self._asked = time.monotonic()
            return False
        return True

    async def _listen(self) -> None:
        async for tenant, id, control in self._wakes:
            await self._do(self._workload.ordered(tenant, id, control))
            self._changed.set()

    async def _keep(self) -> None:
        """Keep deadlines and the lease, and compare our answers with the engine's and the queue's."""
        renewed = reconciled = time.monotonic()
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            now = time.monotonic()
            await self._do(self._workload.tick(self._clock.now_ms()))
            self._changed.set()
            try:
                if now - renewed >= RENEW_SECONDS:
                    renewed = now
                    await self._renew()
                if now - reconciled >= RECONCILE_SECONDS:
                    reconciled = now
                    await self._reconcile()
            except (RedisError, OSError) as error:
                repeated.warning("worker.renew_failed", error=error_summary(error))

    async def _renew(self) -> None:
        stats = self._engine.stats()
        if stats.step_age_ms > STEP_AGE_MS_MAX:
            raise EngineDeadError(f"no engine step for {stats.step_age_ms} ms")
        predicted = self._workload.step_predicted_ms
        instruments.show_worker(stats, len(self._workload), self._workload.margin, predicted)
        info: dict[str, Any] = {
            **self._info,
            "running": stats.running,
            "waiting": stats.waiting,
            "kv_usage": round(stats.kv_usage, 3),
            "steps": stats.steps,
            "step_age_ms": stats.step_age_ms,
            "step_predicted_ms": predicted,
            "prefill_tokens_per_second": self._workload.prefill_tokens_per_second,
            "waiting_max": self._workload.waiting_max,
        }
        renewed = await self._queue.renew(self.name, stats.step_age_ms, info)
        self._renewed = time.monotonic() if renewed.alive else -math.inf
        await self._clock.set(self._queue.now_ms)
        await self._publish_counts()
        for tenant, id, control in renewed.control:
            await self._do(self._workload.ordered(tenant, id, control))
        if not renewed.alive and stats.step_age_ms < STEP_AGE_MS_ALIVE:
            # We were stopped or cut off for longer than the lease. Everything in hand went to others.
            log.warning("worker.lease_lost", answers=len(self._workload))
            instruments.leases_lost.add(1)
            await self._start_over()

    async def _publish_counts(self) -> None:
        hours = self._counted.hours(self._clock.now_ms())
        await publish(self._redis, self._queue.pool, self.name, hours)
        if self._journal is not None:
            await end_counts.publish(self._redis, self._queue.pool, self.name, self._journal.counted)

    async def _start_over(self) -> None:
        await self._do(self._workload.drop_all())
        await self._queue.deregister(self.name, "drain")
        await self._register()

    async def _reconcile(self) -> None:
        before = self._workload.held
        queue = await self._queue.claimed(self.name)
        held = self._workload.held
        unknown = queue - held - before - self._hopeless
        if unknown & self._unknown:
            # Claims that nobody here works on, twice in a row: their replies were lost for good.
            log.error("worker.claims_unknown", count=len(unknown))
            self._hopeless |= (
                unknown  # once only: where it does not help, other answers must not suffer again
            )
            await self._start_over()
            return
        self._unknown = unknown
        work = self._workload.reconcile(self._engine.unfinished(), queue | (held - before))
        if work.abort:
            instruments.orphans.add(len(work.abort))
            log.warning("worker.orphans_aborted", count=len(work.abort))
        await self._do(work)

    async def _register(self) -> None:
        await self._clock.set(self._queue.now_ms)
        await self._queue.register(self.name, self._record.fingerprint, self._info)
        self._renewed = time.monotonic()

    async def _drain(self) -> None:
        """Give back what runs, log what ended, and leave the pool."""
        await self._do(self._workload.leave("drain"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                while len(self._workload):
                    self._room.clear()
                    self._changed.set()
                    await self._room.wait()
                await self._background.finished()
        try:
            await self._publish_counts()
            requeued = await self._queue.deregister(self.name, "drain")
        except (RedisError, OSError) as error:  # the lease lapses by itself
            log.warning("worker.deregister_failed", error=error_summary(error))
        else:
            log.info("worker.drained", left=len(self._workload), requeued=requeued)

    async def _do(self, work: WorkerCalls) -> None:
        """Carry out the calls that the workload decided on."""
        if work.abort:
            self._counted.aborted(work.abort)
            await self._engine.abort(work.abort)
        for generation in work.submit:
            await self._submit(generation)
        self._background.begin(work)

    async def _submit(self, generation: Generation) -> None:
        try:
            self._counted.submitted(generation)
            await self._engine.submit(generation)
        except GenerationRefusedError as error:
            log.error("worker.generation_refused", id=generation.id, **error_facts(error))
            self._workload.refused(generation.id)
            return
        if generation.id not in self._workload.generating:  # cancelled while it was on its way
            self._counted.aborted([generation.id])
            await self._engine.abort([generation.id])

    def _policy_loaded(self, hash: str, problem: str) -> None:
        self._policies.append((hash, problem))
        self._changed.set()

    def _allowance_given(self, key: str, tokens: int, refused: bool) -> None:
        self._allowances.append((key, tokens, refused))
        self._changed.set()

    def _take_allowances(self) -> list[tuple[str, int, bool]]:
        given, self._allowances = self._allowances, []
        return given


def _names(answer: ClaimedRequest) -> dict[str, str]:
    return {"tenant": answer.claim.tenant, "id": answer.claim.id}
