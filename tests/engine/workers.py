"""Workers in this process, with a scripted engine that says what a test wants, on a real Valkey."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chaos.injected.scripted import NextToken, ScriptedEngine
from core.access.processes import WORKER
from core.clock import ServerClock, now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.pools import announce_pool
from core.tasks import cancel_tasks
from engine.api import (
    Claim,
    Enqueue,
    Enqueued,
    Entry,
    EntryKind,
    LogReader,
    PinnedPolicy,
    PoolQueue,
    PriorityClass,
    RequestStatus,
    Sampling,
    visible_text,
)
from engine.journal.journal import Journal
from engine.models.registry import ModelRecord
from engine.scheduling.capacity import capacity_of
from engine.worker.claimed_request import ClaimedRequest, KnownPolicies
from engine.worker.continuation import ModelLimits
from engine.worker.core import WorkerCore
from engine.worker.policy_cache import PolicyCache
from engine.worker.worker import Worker
from tests.engine.builders import FINGERPRINT, TENANT, request, request_input, tokens
from tests.engine.tokens import EOS, byte_tokenizer, ids_of
from tests.support.patience import HANG_SECONDS, wait_until
from tests.support.redis import Redis
from tests.support.users import client_of

TOKENIZER = byte_tokenizer()
POLICIES = PolicyCache()
LIMITS = ModelLimits(stop_ids=(EOS,), max_model_len=8192)
PROMPT = ids_of("prompt: ")


def later(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """From now on workers know a time that is so much later than the server's: deadlines have passed."""
    true = ServerClock.now_ms
    monkeypatch.setattr(ServerClock, "now_ms", lambda clock: true(clock) + ms)


def saying(text: str, prompt: Sequence[int] = PROMPT) -> NextToken:
    """Answers the prompt with this text, then end-of-sequence, wherever it starts."""
    script = [*ids_of(text), EOS]
    return lambda context: script[min(len(context) - len(prompt), len(script) - 1)]


def open_answer(claim: Claim, policies: KnownPolicies = POLICIES) -> ClaimedRequest:
    """As the worker opens it."""
    return ClaimedRequest(claim, TOKENIZER, LIMITS, entry_bytes_max=16 * 1024, policies=policies)


@dataclass
class PoolWorkers:
    """Workers of one pool and what clients would see. `as_worker`: they have a worker's own Redis user."""

    redis: Redis
    settings: Settings
    pool: str = "default"
    names: Any = field(default_factory=count)
    as_worker: bool = False
    journal: Journal | None = None
    interval: float = 0.01  # seconds between two looks at what comes

    def __post_init__(self) -> None:
        self.queue = PoolQueue(self.redis, self.pool, self.settings)
        self.log = LogReader(self.redis, self.pool)

    @asynccontextmanager
    async def worker(self, engine: ScriptedEngine) -> AsyncGenerator["Running"]:
        """A worker at work. Leaving the block kills it: nothing is given back."""
        name = f"w{next(self.names)}"
        record = ModelRecord("tiny", "1", FINGERPRINT, Path("/nonexistent"), LIMITS.max_model_len)
        capacity = capacity_of(self.settings, engine.kv_tokens)
        chunk = self.settings.chunk_tokens
        policies = PolicyCache()
        opened = partial(open_answer, policies=policies)
        workload = WorkerCore(self.pool, FINGERPRINT, capacity, opened, LIMITS, chunk)
        await announce_pool(self.redis, self.settings, self.pool)  # as its supervisor does
        await engine.start()
        stop = asyncio.Event()
        async with self._client() as redis:
            own = self.settings.model_copy(update={"pool": self.pool})
            worker = Worker(own, redis, engine, record, workload, name, policies, self.journal)
            task = asyncio.create_task(worker.run(stop))
            running = Running(name, engine, stop, task)
            try:
                yield running
            finally:
                await cancel_tasks([task])

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[Redis]:
        if not self.as_worker:
            yield self.redis
            return
        async with client_of(self.redis, self.settings.redis_endpoint, WORKER, self.pool) as redis:
            yield redis

    async def send(
        self, *, prompt: Sequence[int] = PROMPT, fingerprint: str = FINGERPRINT, **sampling: Any
    ) -> str:
        """Enqueue a request; its id."""
        asked = self.request_of(prompt=prompt, fingerprint=fingerprint, **sampling)
        assert isinstance(await self.queue.enqueue(asked), Enqueued)
        return asked.id

    def request_of(
        self, *, prompt: Sequence[int] = PROMPT, fingerprint: str = FINGERPRINT, **sampling: Any
    ) -> Enqueue:
        """A request that is accepted now; `priority`, `deadline_ms` (from now) and `policy` beside
        sampling options."""
        now = now_ms()
        priority = sampling.pop("priority", PriorityClass.INTERACTIVE)
        deadline = now + sampling.pop("deadline_ms", 600_000)
        policy: PinnedPolicy | None = sampling.pop("policy", None)
        options: dict[str, Any] = {"max_tokens": 256, **sampling}
        sampled = Sampling(**options)
        packed = request_input(
            prompt=tokens(*prompt),
            fingerprint=fingerprint,
            sampling=sampled,
            accepted_ms=now,
            deadline_ms=deadline,
            policy=policy.hash if policy else "",
        )
        return request(
            id=uuid7(now),
            input=packed,
            fingerprint=fingerprint,
            prompt_tokens=len(prompt),
            max_tokens=sampled.max_tokens,
            accepted_ms=now,
            deadline_ms=deadline,
            priority=priority,
            shaped=sampled.response_format is not None,
            policy=policy,
        )

    async def lose(self, worker: str) -> None:
        """What the supervisor does when it sees a worker's exit."""
        await self.queue.deregister(worker, "lost")

    async def entries(self, id: str) -> list[Entry]:
        """The whole log."""
        return await self.log.read(TENANT, id, 0, 10_000)

    async def text(self, id: str) -> str:
        """All visible text so far."""
        return visible_text(await self.entries(id))

    async def ended(self, id: str, seconds: float = HANG_SECONDS) -> dict[str, Any]:
        """The END entry's value, once there is one."""

        async def last() -> Entry | None:
            entries = await self.entries(id)
            return entries[-1] if entries and entries[-1].k is EntryKind.END else None

        found = await wait_until(last, seconds, self.interval)
        assert found is not None
        return json.loads(found.v)

    async def reaches(self, id: str, n: int) -> None:
        """Until that many ids are committed."""
        assert await self.reached(id, n), "it ended before anybody saw that many"

    async def reached(self, id: str, n: int) -> bool:
        """Whether that many ids were seen before it ended: nobody looks between two that come at once."""

        async def seen() -> str:
            if len(await self.queue.tokens(TENANT, id)) // 4 >= n:
                return "yes"
            entries = await self.entries(id)
            return "no" if entries and entries[-1].k is EntryKind.END else ""

        return await wait_until(seen) == "yes"

    async def is_parked(self, id: str) -> bool:
        """Nobody works on it, nobody may claim it."""
        view = await self.queue.view(TENANT, id)
        return view is not None and view.status is RequestStatus.PARKED

    async def kinds(self, id: str) -> list[str]:
        """What happened, text left out."""
        events = [entry for entry in await self.entries(id) if entry.k is not EntryKind.TEXT]
        whys = [json.loads(e.v).get("why") if e.k is EntryKind.MOVED else None for e in events]
        return [f"{e.k}:{why}" if why else e.k.value for e, why in zip(events, whys, strict=True)]


@dataclass
class Running:
    """One worker of a test."""

    name: str
    engine: ScriptedEngine
    stop: asyncio.Event
    task: "asyncio.Task[None]"


def pausing(script: NextToken, at: int, engine: Callable[[], ScriptedEngine]) -> NextToken:
    """Hangs the engine after the answer's first `at` ids."""

    def next_token(context: Sequence[int]) -> int:
        if len(context) - len(PROMPT) == at - 1:
            engine().hang()
        return script(context)

    return next_token


def paused_at(n: int, text: str) -> ScriptedEngine:
    """An engine that says this text and hangs after `n` ids."""
    engine: ScriptedEngine = ScriptedEngine(pausing(saying(text), n, lambda: engine), step_seconds=0)
    return engine
