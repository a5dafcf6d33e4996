"""The pool's queue in Redis: one Lua call an operation, each of them idempotent under retry.

Decides nothing: the scripts in `engine/queue/lua` do. The keys are listed in docs/redis.md.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from redis.exceptions import OutOfMemoryError

from core.errors import Refusal
from core.redis import RedisClient
from core.settings import Settings
from core.shared_connection import Argument
from core.telemetry import RepeatedWarning, logger
from core.unreadable import Unreadable, read
from engine.queue import lua_scripts, redis_keys, script_replies
from engine.queue.journaled_ends import JournaledEnd
from engine.queue.request_log import pack_entry
from engine.queue.types import (
    Append,
    Appended,
    ClaimOffer,
    ClaimReply,
    EndedAt,
    Enqueue,
    Enqueued,
    MigratedTo,
    ReaderState,
    ReaderView,
    Reaped,
    ReleaseWhy,
    Renewed,
    ReplayCode,
    TenantTerms,
    UnownedRequest,
    Watermark,
    WorkerView,
)
from engine.request import Control, Entry, PriorityClass, RequestStatus

ENDED_UNREAD_MAX = 1_000_000
REAP_BUDGET = 100
BURIED_KEEP_SECONDS = 15 * 60
STEP_AGE_MS_MIN = 3_000
STEP_AGE_MS_MAX = 8_000

unreadable = RepeatedWarning(logger(__name__))


class PoolQueue:
    """One pool's queue. Holds nothing but the client: any process may have one.

    `clock` gives the time in ms to the scripts in tests and simulation; without it they take the server's.
    `ended` is told of every end that this one writes (engine/journal).
    """

    def __init__(
        self,
        redis: RedisClient,
        pool: str,
        settings: Settings,
        clock: Callable[[], int] | None = None,
        ended: Callable[[JournaledEnd], None] | None = None,
    ) -> None:
        self.redis = redis
        self._redis = redis
        self.pool = pool
        self.settings = settings
        self._clock = clock
        self._ended = ended

    async def enqueue(self, e: Enqueue) -> Enqueued | Refusal:
        """Create the request, or return the one there is. The same id with another body: `id_conflict`."""
        s = self.settings
        what = (e.tenant, e.id, e.body_hash, e.input, e.priority.value, e.fingerprint, e.prompt_tokens)
        when = (
            e.max_tokens,
            e.deadline_ms,
            e.accepted_ms,
            min(e.granted, e.max_tokens),
            e.model,
            e.gateway or "",
            "" if e.no_reader_ms is None else e.no_reader_ms,
            int(Control.CANCEL) if e.cancelled else 0,
        )
        bounds = (s.queue_requests_max, s.queue_requests_per_tenant_max, s.maxmemory_fraction_max)
        limits = (s.readers_per_request_max, s.gateway_lease_ms, ENDED_UNREAD_MAX)
        limits = (*limits, s.no_worker_seconds_max * 1000, int(e.shaped))
        try:
            reply = await self._run(lua_scripts.ENQUEUE, *what, *when, *bounds, *limits)
        except OutOfMemoryError:
            return script_replies.refusal("rejected_capacity", 1000)
        return script_replies.enqueued(reply)

    async def claim(self, worker: str, call: int, offer: ClaimOffer) -> ClaimReply:
        """Work for a registered worker. `call` counts from 1; a repeated number repeats its answer."""
        s = self.settings
        room = (offer.slots, offer.kv_tokens, offer.prefill_tokens)
        limits = (s.claim_picks_max, s.deaths_max)
        turns = (s.fair_prompt_weight, s.fair_delta_tokens, s.age_standard_ms, s.age_bulk_ms)
        who = (worker, call, secrets.token_hex(8), offer.fingerprint)
        reply = await self._run(lua_scripts.CLAIM, *who, *room, *limits, *turns, offer.lowest.value)
        return script_replies.claims(reply)

    async def append(self, worker: str, items: Sequence[Append]) -> list[Appended]:
        """Commit one flush: an answer for each item, in order. `worker` is for traces; the fence is each
        `ck`."""
        if not items:
            return []
        packed = msgspec.msgpack.encode([_pack_append(item) for item in items])
        binary = [part for item in items for part in (item.tokens, item.end or b"")]
        reply = await self._run(lua_scripts.APPEND, *self._commit_terms, packed, *binary)
        answers = [script_replies.appended(answer) for answer in reply]
        for item, answer in zip(items, answers, strict=True):
            self._tell(item.tenant, item.id, item.end, answer.ended)
        return answers

    async def rewrite(self, worker: str, position: int, item: Append) -> Appended:
        """Retract: drop the logged text from `position` on, keep all offsets, then commit `item`, whose
        first entry is the RETRACT entry."""
        packed = msgspec.msgpack.encode(_pack_append(item))
        binary = (item.tokens, item.end or b"")
        answer = script_replies.appended(
            await self._run(lua_scripts.REWRITE, *self._commit_terms, position, packed, *binary)
        )
        self._tell(item.tenant, item.id, item.end, answer.ended)
        return answer

    async def control(
        self, tenant: str, id: str, flag: Control, body_hash: str = ""
    ) -> RequestStatus | MigratedTo | None:
        """Set a flag; the owner of a running request is woken. None: the pool does not know the id, or, where
        it is told the hash of what was asked for, knows another request under it. After a CANCEL of a queued
        or parked request call engine.lifecycle.finish.end_unclaimed."""
        return script_replies.status(await self._run(lua_scripts.CONTROL, tenant, id, int(flag), body_hash))

    async def finish(
        self, tenant: str, id: str, expected_o: int, entries: Sequence[Entry], end: bytes
    ) -> EndedAt | None:
        """End a request that nobody owns, if its log still ends at `expected_o`. None: this end is not in the
        log."""
        keep = self.settings.unrecorded_log_keep_seconds
        packed = msgspec.msgpack.encode([pack_entry(entry) for entry in entries])
        at = script_replies.ended_at(
            await self._run(lua_scripts.FINISH, keep, tenant, id, expected_o, packed, end)
        )
        self._tell(tenant, id, end, at)
        return at

    async def ends(self) -> Watermark:
        """In which memory the `ended` stream is, and how far the biller is in it."""
        return script_replies.watermark(await self._run(lua_scripts.ENDS))

    async def replay(self, ends: Sequence[JournaledEnd]) -> list[tuple[ReplayCode, EndedAt]]:
        """Bring back ends that another memory had: what became of each, and where its event is now."""
        packed = msgspec.msgpack.encode([(end.tenant, end.request, end.memory, end.id) for end in ends])
        return script_replies.replayed(
            await self._run(lua_scripts.REPLAY, packed, *(end.event for end in ends))
        )

    async def unclaim(self, worker: str, tenant: str, id: str, ck: str, why: ReleaseWhy) -> bool:
        """Give a request back to its old position in line, or park it. False: it was not yours any more."""
        deaths_max = self.settings.deaths_max
        return bool(await self._run(lua_scripts.UNCLAIM, worker, tenant, id, ck, why, deaths_max))

    async def park(self, tenant: str, id: str) -> RequestStatus | MigratedTo | None:
        """Park a waiting request, ask the worker of a running one to. Answers the status it had."""
        return script_replies.status(await self._run(lua_scripts.PARK, tenant, id))

    async def unpark(self, tenant: str, id: str) -> RequestStatus | MigratedTo | None:
        """Put a parked request back in line. Answers the status it had."""
        return script_replies.status(await self._run(lua_scripts.UNPARK, tenant, id))

    async def reader(self, tenant: str, id: str, gateway: str, state: ReaderState) -> ReaderView | None:
        """Say how this gateway's readers stand; all stuck parks the request. None: unknown id."""
        s = self.settings
        limits = (s.readers_per_request_max, s.gateway_lease_ms)
        return script_replies.view(await self._run(lua_scripts.READER, tenant, id, gateway, state, *limits))

    async def view(self, tenant: str, id: str) -> ReaderView | None:
        """The request as it stands, without registering for anything."""
        return await self.reader(tenant, id, "", "reading")

    async def register(self, worker: str, fingerprint: str, info: Mapping[str, Any]) -> None:
        """A worker starts taking work. `worker` is new for each process; `info["kv_tokens"]` is its size."""
        lease, size = self.settings.worker_lease_ms, int(info.get("kv_tokens", 0))
        await self._run(lua_scripts.REGISTER, worker, fingerprint, size, msgspec.json.encode(info), lease)

    async def set_tenant(self, tenant: str, terms: TenantTerms) -> bool:
        """A tenant's share of the pool, its caps and its reserve, for what waits now too. False: too many
        tenants have a reserve."""
        caps = ("" if cap is None else cap for cap in (terms.slots_max, terms.tokens_max))
        reserve = (terms.highest.value, terms.reserve_tokens, self.settings.tenant_reserves_max)
        return bool(await self._run(lua_scripts.TENANT, tenant, terms.weight, *caps, *reserve))

    async def set_reserve(self, priority: PriorityClass, tokens: int) -> None:
        """KV tokens of the pool that lower classes leave free for this one while it uses less."""
        await self._run(lua_scripts.SET_CLASS_RESERVE, priority.value, tokens)

    async def starting(self, fingerprint: str) -> None:
        """A worker that can run `fingerprint` is starting: requests wait for it, up to 120 s from now."""
        await self._run(lua_scripts.SEEN, fingerprint)

    async def renew(self, worker: str, step_age_ms: int, info: Mapping[str, Any]) -> Renewed:
        """Keep the lease while the engine's step is young; `info["step_predicted_ms"]` stretches that."""
        predicted = int(info.get("step_predicted_ms", 0))
        age_max = min(STEP_AGE_MS_MAX, max(STEP_AGE_MS_MIN, 4 * predicted))
        lease = self.settings.worker_lease_ms
        ages = (step_age_ms, age_max, lease)
        return script_replies.renewed(
            await self._run(lua_scripts.RENEW, worker, *ages, msgspec.json.encode(info))
        )

    async def deregister(self, worker: str, why: ReleaseWhy = "drain") -> int:
        """Take a worker out of the pool; what it held goes back in line. Answers how many that were."""
        return await self._run(lua_scripts.DEREGISTER, worker, why, self.settings.deaths_max)

    async def renew_gateway(self, gateway: str) -> bool:
        """Keep a gateway's lease. False: it had lapsed, so register its readers again."""
        return bool(await self._run(lua_scripts.GATEWAY, gateway, self.settings.gateway_lease_ms))

    async def reap(self, moves: bool = True) -> Reaped:
        """Requeue what dead workers held, drop dead gateways' readers. The caller ends `expired` and finishes
        `moves`, where it can."""
        s = self.settings
        limits = (s.deaths_max, s.no_worker_seconds_max * 1000, s.park_seconds_max * 1000, int(moves))
        return script_replies.reaped(await self._run(lua_scripts.REAP, REAP_BUDGET, *limits))

    async def may_sweep(self, seconds: float) -> bool:
        """Whether the caller is the one that sweeps this pool in the next `seconds`."""
        mark = redis_keys.sweeper(self.pool)
        return bool(await self._redis.set(mark, b"", nx=True, px=round(seconds * 1000)))

    async def refuse_late_enqueue(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Of these ids, those that the pool does not know. One that was accepted until now and comes later is
        refused; a new sending is not."""
        reply = await self._run(lua_scripts.REFUSE_LATE_ENQUEUE, BURIED_KEEP_SECONDS, tenant, *ids)
        return [id.decode() for id in reply]

    async def expire_log(self, tenant: str, id: str, seconds: int) -> bool:
        """An ended request's answer is recorded: keep its log only `seconds` from now."""
        return bool(await self._run(lua_scripts.EXPIRE, tenant, id, seconds))

    async def wait_for_work(self, seconds: float = 0.05) -> bool:
        """Wait until something is put in line, at most `seconds`."""
        return await self._redis.blpop([redis_keys.wake(self.pool)], timeout=seconds) is not None

    async def claimed(self, worker: str) -> set[tuple[str, str]]:
        """The (tenant, id) that the pool thinks this worker holds."""
        names = await self._redis.smembers(redis_keys.claims(self.pool, worker))
        return {redis_keys.split_member(name.decode()) for name in names}

    async def tokens(self, tenant: str, id: str) -> bytes:
        """Every sampled token id of a request that has not ended."""
        return await self._redis.get(redis_keys.tokens(self.pool, tenant, id)) or b""

    async def workers(self) -> list[WorkerView]:
        """All registered workers, those with a lapsed lease too."""
        now = await self.now_ms()
        leases = await self._redis.zrange(redis_keys.workers(self.pool), 0, -1, withscores=True)
        found: list[WorkerView] = []
        for name, lease in leases:
            view = await self._worker(name, int(lease), now)
            if isinstance(view, Unreadable):
                unreadable.warning("queue.worker_unreadable", pool=self.pool, why=view.why)
            elif view is not None:
                found.append(view)
        return found

    async def _worker(self, raw: bytes, lease: int, now: int) -> WorkerView | Unreadable | None:
        name = read("name", bytes.decode, raw)
        if isinstance(name, Unreadable):
            return name
        fields = await self._redis.hgetall(redis_keys.worker(self.pool, name))
        if not fields:
            return None
        held = await self._redis.scard(redis_keys.claims(self.pool, name))
        return read("worker", lambda of: script_replies.worker(name, lease, now, held, of), fields)

    async def unowned(self, tenant: str, id: str) -> UnownedRequest | None:
        """All that ending a queued or parked request takes; None where it is neither."""
        found = await self.recorded(tenant, id)
        return found if found and found.status in (RequestStatus.QUEUED, RequestStatus.PARKED) else None

    async def recorded(self, tenant: str, id: str) -> UnownedRequest | None:
        """The same of a request wherever it is, None where the pool does not know it. Its input is empty
        where it is gone."""
        fields = await self._redis.hgetall(redis_keys.record(self.pool, tenant, id))
        if not fields:
            return None
        packed = await self._redis.get(redis_keys.request_input(self.pool, tenant, id))
        return script_replies.unowned(fields, packed or b"")

    async def now_ms(self) -> int:
        """The time that the scripts go by."""
        return self._clock() if self._clock else await self._run(lua_scripts.CLOCK)

    def _tell(self, tenant: str, id: str, event: bytes | None, at: EndedAt | None) -> None:
        if self._ended is not None and event and at is not None:
            self._ended(JournaledEnd(tenant, id, at.memory, at.id, event))

    @property
    def _commit_terms(self) -> tuple[Argument, ...]:
        s = self.settings
        return s.unrecorded_log_keep_seconds, s.fair_prompt_weight, s.fair_output_weight

    async def _run(self, script: lua_scripts.Script, *arguments: Argument) -> Any:
        now = self._clock() if self._clock else 0
        return await script(self._redis, [redis_keys.system(self.pool)], [now, *arguments])


def _pack_append(item: Append) -> list[Any]:
    entries = [pack_entry(entry) for entry in item.entries]
    cached = -1 if item.input_cached is None else item.input_cached
    commit = [item.n0, item.o0, entries, item.raw, item.visible, cached]
    return [item.tenant, item.id, item.ck, *commit]
