"""A worker's calls to Redis beside its decode path: gives back, settles, asks for allowance, loads policies,
ends unreadable claims. Decides nothing; each call is idempotent and repeated until Redis answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from redis.exceptions import RedisError, ResponseError

from billing.api import Quota, UsageEvent
from billing.usage import sided
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.redis_errors import is_refusing_everybody
from core.runtime.failpoints import Failpoint, hit_failpoint
from core.tasks import TaskSet, cancel_tasks
from engine import instruments
from engine.lifecycle.finish import end_claimed
from engine.queue.client import DamagedRecordError, PoolQueue
from engine.queue.types import Claim, ReleaseWhy
from engine.safety.detectors import CATEGORIES
from engine.worker import answer_figures
from engine.worker.allowances import AllowanceRequest
from engine.worker.policy_loader import PolicyLoader
from engine.worker.worker_calls import WorkerCalls

T = TypeVar("T")
AllowanceGiven = Callable[[str, int, bool], None]  # the answer's key, tokens in all, whether more was refused
PolicyLoaded = Callable[[str, str], None]  # its hash, and the problem with it

log = logger(__name__)
repeated = RepeatedWarning(log)

REDIS_RETRY_SECONDS = 0.1
ALLOWANCE_WAIT_MS_MIN = 20


class BackgroundCalls:
    """The pending calls of one worker. `wanted` tells whether the reply for this key still matters."""

    def __init__(
        self,
        queue: PoolQueue,
        quota: Quota,
        worker: str,
        granted: AllowanceGiven,
        wanted: Callable[[str], bool],
        policies: PolicyLoader,
        loaded: PolicyLoaded,
    ) -> None:
        self._queue = queue
        self._quota = quota
        self._worker = worker
        self._granted = granted
        self._wanted = wanted
        self._policies = policies
        self._loaded = loaded
        self._tasks = TaskSet()
        self._asking = TaskSet()
        self._releasing: dict[tuple[str, str], asyncio.Task[None]] = {}

    def begin(self, work: WorkerCalls) -> None:
        """Start the calls that the workload decided on."""
        answer_figures.count_claims(work.opened)
        for tenant, id, ck, why in work.release:
            self._releasing[tenant, id] = self._tasks.start(self._release(tenant, id, ck, why))
        for event in work.settle:
            self._tasks.start(self._settle(event))
        for claim, why in work.unreadable:
            self._tasks.start(self._end_unreadable(claim, why))
        for claim, why in work.unfiltered:
            instruments.safety_failures.add(1)
            log.error("request.filter_failed", tenant=claim.tenant, id=claim.id, error=why)
        for tenant, id in work.unpark:
            self._tasks.start(self._unpark(tenant, id))
        for ask in work.extend:
            self._asking.start(self._extend(ask))
        for hash in work.load:
            self._asking.start(self._load(hash))

    async def finished(self) -> None:
        """Wait until none is pending; questions for allowance and policies do not count."""
        while self._tasks:
            await asyncio.wait(self._tasks.running)

    async def end(self) -> None:
        """Cancel the pending calls."""
        await cancel_tasks(self._tasks.running | self._asking.running)

    async def _release(self, tenant: str, id: str, ck: str, why: ReleaseWhy) -> None:
        try:
            released = await _insist(
                "unclaim", lambda: self._queue.unclaim(self._worker, tenant, id, ck, why)
            )
        except ResponseError as error:
            log.error("worker.unclaim_failed", tenant=tenant, id=id, error=error_summary(error))
            return
        finally:
            self._releasing.pop((tenant, id), None)
        instruments.unclaimed_requests.add(1, {"reason": why})
        log.info("request.unclaimed", tenant=tenant, id=id, why=why, released=released)

    async def _end_unreadable(self, claim: Claim, why: str) -> None:
        """End the claim here and now: given back, it would go from worker to worker."""
        log.error("request.claim_unreadable", tenant=claim.tenant, id=claim.id, error=why)
        try:
            event = await _insist("end", lambda: end_claimed(self._queue, self._quota, self._worker, claim))
        except (ResponseError, DamagedRecordError) as error:
            log.error("worker.end_failed", tenant=claim.tenant, id=claim.id, error=error_summary(error))
            return
        if event is not None:
            await self._settle(event)

    async def _settle(self, event: UsageEvent) -> None:
        instruments.ended_requests.add(1, {"reason": event.reason})
        for count, labels in counted_verdicts(event):
            instruments.safety_verdicts.add(count, labels)
        log.info(
            "request.ended",
            by="worker",
            tenant=event.tenant,
            id=event.request,
            reason=event.reason,
            code=event.code,
            input=event.input_uncached + event.input_cached,
            output=event.output_text,
            claims=event.claims,
            total_ms=event.ended_ms - event.accepted_ms,
        )
        try:
            await self._quota.settle(event)
        except (RedisError, OSError) as error:  # the biller settles every event again
            repeated.warning("worker.settle_failed", error=type(error).__name__)

    async def _unpark(self, tenant: str, id: str) -> None:
        if releasing := self._releasing.get((tenant, id)):
            await asyncio.wait([releasing])  # that call parks it
        try:
            await _insist("unpark", lambda: self._queue.unpark(tenant, id))
        except ResponseError as error:
            log.error("worker.unpark_failed", tenant=tenant, id=id, error=error_summary(error))

    async def _load(self, hash: str) -> None:
        try:
            problem = await _insist("policy", lambda: self._policies.load(hash))
        except ResponseError as error:
            problem = f"safety policy {hash} cannot be read ({error_summary(error)})"
        self._loaded(hash, problem)

    async def _extend(self, ask: AllowanceRequest) -> None:
        """Ask until there is a reply, or the answer no longer needs it."""
        wait_ms = ask.after_ms
        while True:
            await asyncio.sleep(wait_ms / 1000)
            if not self._wanted(ask.key):
                return
            try:
                hit_failpoint(Failpoint.WORKER_BEFORE_EXTEND)
                answer = await _insist("extend", lambda: self._quota.extend(ask.tenant, ask.id, ask.tokens))
                hit_failpoint(Failpoint.WORKER_AFTER_EXTEND)
            except ResponseError as error:  # the rest of its budgets will never be known
                log.error("worker.allowance_failed", tenant=ask.tenant, id=ask.id, error=error_summary(error))
                self._granted(ask.key, 0, True)
                return
            if answer.wait_ms is None:
                instruments.allowance_replies.add(1, {"answer": "refused" if answer.refusal else "granted"})
                self._granted(ask.key, answer.granted, answer.refusal is not None)
                return
            instruments.allowance_replies.add(1, {"answer": "wait"})
            wait_ms = max(answer.wait_ms, ALLOWANCE_WAIT_MS_MIN)


async def _insist(operation: str, call: Callable[[], Awaitable[T]]) -> T:
    """Repeat the call until Redis answers. Raises ResponseError where Redis rejects this call itself."""
    while True:
        try:
            return await call()
        except (RedisError, OSError) as error:
            if isinstance(error, ResponseError) and not is_refusing_everybody(error):
                raise
            repeated.warning("worker.call_failed", operation=operation, error=error_summary(error))
            await asyncio.sleep(REDIS_RETRY_SECONDS)


def counted_verdicts(event: UsageEvent) -> Iterator[tuple[int, dict[str, str]]]:
    """An event's verdicts, with the labels that they count under: names of tenants' rules are none. Pure."""
    for category, actions in event.verdicts.items():
        known = category if category in CATEGORIES else "own"
        for said, count in actions.items():
            of, action = sided(said)
            yield count, {"category": known, "action": action, "of": of}
