"""Workers without an engine: they claim requests and append prose to their logs at a set pace.

A process of its own, told what to do by JSON lines on stdin (see `Feeder` for the other side). Appends go
through the pool's real queue, flushed as engine/worker/worker.py does: an engine step a token, at most a
flush every half of PARLEY_WORKER_FLUSH_MS, each worker with its own call for its own answers.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import uvloop

from billing.api import UsageEvent
from billing.usage import encode as encode_usage
from chaos.bench.session.prose import text_of
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient, connect
from engine.api import (
    Append,
    Claim,
    ClaimOffer,
    EndFacts,
    EndReason,
    Entry,
    EntryKind,
    PoolQueue,
    end_payload,
    input_decoder,
)

RENEW_SECONDS = 1.0
CLAIM_WAIT_SECONDS = 0.05
KV_TOKENS = 1 << 30
TOKEN_BYTES = (7).to_bytes(4, "little")


@dataclass
class FedAnswer:
    """One answer that is written. `skew`: where in the prose it starts, so that no two are alike."""

    claim: Claim
    skew: int
    n: int = 0
    o: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        self.o = self.claim.o

    def append(self, tokens: int) -> Append:
        """The next tokens as one entry, as a worker's flush makes it."""
        text = text_of(self.skew + self.n, tokens)
        start, self.position = self.position, self.position + len(text)
        n0, o0 = self.n, self.o
        self.n, self.o = self.n + tokens, self.o + 1
        entry = Entry(self.o, EntryKind.TEXT, text, start, self.position, self.n)
        return self._append(n0, o0, tokens, entry)

    def end(self) -> Append:
        """The end, with the usage and the hash that a worker would write."""
        claim, request = self.claim, input_decoder.decode(self.claim.input)
        facts = EndFacts(
            tenant=claim.tenant,
            request=claim.id,
            pool="default",
            reason=EndReason.LENGTH,
            text=text_of(self.skew, self.n),
            prompt_tokens=len(request.prompt) // 4,
            n=self.n,
            covered=self.n,
            input_cached=0,
            claims=1,
            claimed_ms=claim.claimed_ms,
            first_token_ms=claim.claimed_ms,
            ended_ms=now_ms(),
        )
        ending = end_payload(facts, request)
        entry = Entry(self.o + 1, EntryKind.END, i=self.n, v=ending.payload)
        return self._append(self.n, self.o, 0, entry, ending.event)

    def _append(self, n0: int, o0: int, tokens: int, entry: Entry, event: UsageEvent | None = None) -> Append:
        return Append(
            tenant=self.claim.tenant,
            id=self.claim.id,
            ck=self.claim.ck,
            n0=n0,
            o0=o0,
            raw=self.position,
            visible=self.position,
            tokens=TOKEN_BYTES * tokens,
            entries=[entry],
            end=encode_usage(event) if event else None,
        )


@dataclass
class FeedPlan:
    """What to append: `tokens` for each stream from the monotonic moment `at` on, `rate` a second each.

    `rate` 0: as fast as Redis takes them, `per_entry` at once.
    """

    at: float
    tokens: int
    rate: float = 0.0
    per_entry: int = 8


@dataclass
class FedWorker:
    """One worker: a place in the pool, its streams, its flushes."""

    name: str
    slots: int
    queue: PoolQueue
    fingerprint: str
    flush_seconds: float
    streams: list[FedAnswer] = field(default_factory=list[FedAnswer])
    appended: int = 0
    entries: int = 0

    async def register(self) -> None:
        """Take a place in the pool."""
        info = {"model": "bytes", "version": "1", "kv_tokens": KV_TOKENS}
        await self.queue.register(self.name, self.fingerprint, info)

    async def keep(self) -> None:
        """Keep the lease, for ever."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            await self.queue.renew(self.name, 0, {})

    async def claim(self, call: int, wanted: int) -> int:
        """Claim what waits, as many as fit; how many that were."""
        room = min(self.slots - len(self.streams), wanted)
        if room <= 0:
            return 0
        offer = ClaimOffer(self.fingerprint, room, KV_TOKENS, KV_TOKENS)
        claims = await self.queue.claim(self.name, call, offer)
        self.streams.extend(FedAnswer(claim, sum(claim.id.encode())) for claim in claims.claims)
        return len(claims.claims)

    async def write(self, plan: FeedPlan) -> None:
        """From `plan.at` on, append to all streams in step until each has its tokens."""
        self.appended = self.entries = written = 0
        flushed = 0.0
        while written < plan.tokens:
            if plan.rate:
                ready = max(flushed + self.flush_seconds, plan.at + (written + 1) / plan.rate)
                await asyncio.sleep(ready - time.monotonic())
                due = max(1, int((time.monotonic() - plan.at) * plan.rate) - written)
            else:
                due = plan.per_entry
            due = min(due, plan.tokens - written)
            flushed = time.monotonic()
            await self._commit([stream.append(due) for stream in self.streams])
            written += due
            self.appended += due * len(self.streams)
            self.entries += len(self.streams)

    async def end(self) -> None:
        """End all streams."""
        await self._commit([stream.end() for stream in self.streams])
        self.streams.clear()

    async def trickle(self, pause: float) -> list[tuple[str, float]]:
        """A first text for each stream, one by one: the stream's id and the moment just before its append."""
        firsts: list[tuple[str, float]] = []
        for stream in self.streams:
            await asyncio.sleep(pause)
            firsts.append((stream.claim.id, time.monotonic()))
            await self._commit([stream.append(1)])
        return firsts

    async def _commit(self, appends: list[Append]) -> None:
        for answer in await self.queue.append(self.name, appends):
            if answer.code not in ("OK", "ENDED"):
                raise RuntimeError(f"append: {answer.code}")


class FedWorkers:
    """All workers of the process, fed by a plan."""

    def __init__(self, redis: RedisClient, settings: Settings, fingerprint: str, slots: int) -> None:
        flush = settings.worker_flush_ms / 2000
        self._make = lambda n: FedWorker(
            f"feeder-{n}-{time.monotonic_ns()}",
            slots,
            PoolQueue(redis, settings.pool, settings),
            fingerprint,
            flush,
        )
        self._workers: list[FedWorker] = []
        self._calls = 0
        self._keepers: list[asyncio.Task[None]] = []

    async def open(self, workers: int) -> None:
        """Register."""
        self._workers = [self._make(number) for number in range(workers)]
        for worker in self._workers:
            await worker.register()
            self._keepers.append(asyncio.create_task(worker.keep()))

    async def claim(self, count: int) -> dict[str, Any]:
        """Claim until `count` streams are held."""
        while (held := self._held()) < count:
            self._calls += 1
            got = [await worker.claim(self._calls, count - self._held()) for worker in self._workers]
            if not any(got):
                await asyncio.sleep(CLAIM_WAIT_SECONDS)
        return {"held": held}

    async def write(self, **plan: Any) -> dict[str, Any]:
        """Write a plan with every worker."""
        made = FeedPlan(**plan)
        began = time.process_time()
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(worker.write(made))
        return {
            "tokens": sum(worker.appended for worker in self._workers),
            "entries": sum(worker.entries for worker in self._workers),
            "seconds": time.monotonic() - made.at,
            "cpu_seconds": time.process_time() - began,
        }

    async def trickle(self, pause: float) -> dict[str, Any]:
        """First texts of all streams."""
        return {"firsts": [first for worker in self._workers for first in await worker.trickle(pause)]}

    async def end(self) -> dict[str, Any]:
        """End all streams."""
        for worker in self._workers:
            await worker.end()
        return {}

    def _held(self) -> int:
        return sum(len(worker.streams) for worker in self._workers)


async def serve(fingerprint: str, workers: int, slots: int) -> None:
    """Obey one command a line, {name: arguments}, each answered with one line."""
    settings = Settings()
    redis = connect(settings)
    fed = FedWorkers(redis, settings, fingerprint, slots)
    await fed.open(workers)
    commands = {"claim": fed.claim, "write": fed.write, "trickle": fed.trickle, "end": fed.end}
    while line := await asyncio.to_thread(sys.stdin.readline):
        ((name, arguments),) = json.loads(line).items()
        print(json.dumps(await commands[name](**arguments)), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
