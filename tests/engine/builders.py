"""Requests, pools and workers for queue tests, with a clock that only moves when told to."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from billing.usage import PinnedPrices, UsageEvent, UsageOwner, encode
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.client import RedisClient
from core.redis.pools import announce_pool
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
    input_encoder,
)
from tests.support.redis import Redis

START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
FINGERPRINT = "smollm2@1"
TENANT = "t1"
PRICES = PinnedPrices(
    book="default", version=1, input_nano=100_000_000, cached_input_nano=50_000_000, output_nano=400_000_000
)


@dataclass
class Clock:
    """Milliseconds that move when told to."""

    ms: int = START_MS

    def __call__(self) -> int:
        return self.ms

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.ms += ms


def tokens(*ids: int) -> bytes:
    """Token ids as the queue keeps them."""
    return b"".join(id.to_bytes(4, "little") for id in ids)


def request_input(prompt_tokens: int = 10, **changes: Any) -> bytes:
    """An encoded RequestInput."""
    fields: dict[str, Any] = {
        "prompt": tokens(*range(prompt_tokens)),
        "sampling": Sampling(max_tokens=64),
        "owner": UsageOwner(project="p1", key="k1"),
        "prices": PRICES,
        "model": "smollm2",
        "fingerprint": FINGERPRINT,
        "accepted_ms": START_MS,
        "deadline_ms": START_MS + 600_000,
        **changes,
    }
    return input_encoder.encode(RequestInput(**fields))


def request(**changes: Any) -> Enqueue:
    """A request for the pool."""
    prompt_tokens = changes.get("prompt_tokens", 10)
    fields: dict[str, Any] = {
        "tenant": TENANT,
        "id": uuid7(START_MS),
        "body_hash": "a body",
        "input": request_input(prompt_tokens),
        "priority": PriorityClass.INTERACTIVE,
        "fingerprint": FINGERPRINT,
        "prompt_tokens": prompt_tokens,
        "max_tokens": 512,
        "deadline_ms": START_MS + 600_000,
        "accepted_ms": START_MS,
        "granted": 256,
        "model": "smollm2",
        **changes,
    }
    return Enqueue(**fields)


def text(o: int, x: str, p: int, i: int) -> Entry:
    """A text entry whose raw and visible positions are the same."""
    return Entry(o=o, k=EntryKind.TEXT, x=x, p=p, r=p + len(x), i=i)


def usage_event(tenant: str, id: str, reason: str = "stop") -> bytes:
    """An encoded usage event."""
    owner = UsageOwner(project="p1", key="k1")
    event = UsageEvent(
        tenant=tenant,
        request=id,
        pool="default",
        model="smollm2",
        fingerprint=FINGERPRINT,
        owner=owner,
        accepted_ms=START_MS,
        ended_ms=START_MS + 100,
        reason=reason,
        prices=PRICES,
    )
    return encode(event)


@dataclass
class Pool:
    """One pool of a real Valkey, its clock, and workers that remember their call numbers."""

    redis: RedisClient
    settings: Settings = field(
        default_factory=lambda: Settings.model_validate({"home": Path("/nonexistent"), "secret": "tests" * 8})
    )
    name: str = "default"
    clock: Clock = field(default_factory=Clock)
    calls: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        if (
            cast("Clock | None", self.clock) is None
        ):  # the server's: nobody renews a lease while the machine stops
            leases = {"worker_lease_ms": HOUR_MS, "gateway_lease_ms": HOUR_MS}
            self.settings = self.settings.model_copy(update=leases)
        self.queue = PoolQueue(self.redis, self.name, self.settings, self.clock)
        self.client: Any = self.redis

    async def worker(self, name: str = "w1", fingerprint: str = FINGERPRINT, kv_tokens: int = 100_000) -> str:
        """A registered worker, in a pool that its supervisor has announced."""
        await announce_pool(self.queue.redis, self.queue.settings, self.queue.pool)
        await self.queue.register(name, fingerprint, {"kv_tokens": kv_tokens})
        return name

    async def claim(self, worker: str = "w1", **room: Any) -> list[Claim]:
        """The worker's next claim call."""
        self.calls[worker] = self.calls.get(worker, 0) + 1
        offer: dict[str, Any] = {
            "fingerprint": FINGERPRINT,
            "slots": 16,
            "kv_tokens": 100_000,
            "prefill_tokens": 100_000,
            **room,
        }
        return (await self.queue.claim(worker, self.calls[worker], ClaimOffer(**offer))).claims

    async def running(self, worker: str = "w1", **changes: Any) -> Claim:
        """A new request, claimed by a worker."""
        await self.worker(worker)
        await self.queue.enqueue(request(**changes))
        return (await self.claim(worker, slots=1))[0]

    async def restart(self) -> None:
        """As if Redis had started anew, with all its data."""
        await self.client.hset(self.key("sys"), "run_id", "of another server")

    def key(self, name: str) -> str:
        """A key of this pool."""
        return f"{{p:{self.name}}}{name}"

    async def places(self, tenant: str, id: str) -> set[str]:
        """Where the request is, by the sets that counts derive from."""
        member, found = f"{tenant}:{id}", set[str]()
        for class_ in PriorityClass:
            if await self.client.zscore(self.key(f"age:{class_}"), member) is not None:
                found.add(f"line:{class_}")
            for lane in ("ids", "big"):
                if await self.client.zscore(self.key(f"{lane}:{class_}:{tenant}"), id) is not None:
                    found.add(f"{lane}:{class_}")
        if await self.client.sismember(self.key(f"run:{tenant}"), id):
            found.add("run")
        for view in await self.queue.workers():
            if await self.client.sismember(self.key(f"claims:{view.worker}"), member):
                found.add(f"claims:{view.worker}")
        if await self.client.zscore(self.key("parked"), member) is not None:
            found.add("parked")
        return found

    async def kinds(self, tenant: str, id: str) -> list[str]:
        """The kinds of the request's log entries, in order."""
        entries = await self.client.xrange(self.key(f"log:{tenant}:{id}"))
        return [fields.get(b"k", b"t").decode() for _, fields in entries]


def pool(redis: Redis, **settings: Any) -> Pool:
    """The default pool, with other limits."""
    changed = Settings.model_validate({"home": Path("/nonexistent"), "secret": "tests" * 8, **settings})
    return Pool(redis, changed)


def append_to(claim: Claim, *, ids: tuple[int, ...] = (), x: str = "", **changes: Any) -> Append:
    """What the claim's worker commits next: these token ids, showing `x`."""
    covered = claim.n + len(ids)
    entries = [text(claim.o + 1, x, claim.visible, covered)] if x else []
    shown = claim.visible + len(x)
    fields: dict[str, Any] = {
        "tenant": claim.tenant,
        "id": claim.id,
        "ck": claim.ck,
        "n0": claim.n,
        "o0": claim.o,
        "tokens": tokens(*ids),
        "entries": entries,
        "raw": shown,
        "visible": shown,
        **changes,
    }
    return Append(**fields)


def end_entry(o: int, n: int, value: bytes = b'{"reason":"stop"}') -> Entry:
    """An END entry."""
    return Entry(o=o, k=EntryKind.END, i=n, v=value)
