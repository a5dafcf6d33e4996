"""The pool's queue in Redis: one Lua call an operation, each of them idempotent under retry.

Decides nothing: the scripts in `engine/queue/lua` do. The keys are listed in docs/redis.md.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from redis.exceptions import OutOfMemoryError

from core.configuration.settings import Settings
from core.errors import Refusal
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.members import names, reading, set_aside
from core.redis.scripts import Script
from core.redis.unreadable import Unreadable, read
from engine.queue import lua_scripts, redis_keys, script_replies
from engine.queue import script_calls as calls
from engine.queue.journaled_ends import JournaledEnd
from engine.queue.packing import append_call, claim_call, enqueue_call, rewrite_call
from engine.queue.pinned_policies import MARGIN_SECONDS, keep_seconds
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
    PinnedPolicy,
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
from engine.queue.worker_views import worker_views
from engine.request import Control, Entry, PriorityClass, RequestStatus

REAP_BUDGET = 100
APPENDED_AT_ONCE = 250  # each costs Redis some ten commands
IDS_AT_ONCE = 500
REFUSED_IDS_KEEP_SECONDS = 15 * 60
STEP_AGE_MS_MIN = 3_000
STEP_AGE_MS_MAX = 8_000

Call = TypeVar("Call", bound=calls.PoolCall)
Reply = TypeVar("Reply")

repeated = RepeatedWarning(logger(__name__))


class DamagedRecordError(ValueError):
    """A request's record that cannot be read. The message has no content of it."""


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
        try:
            reply = await self._run(lua_scripts.ENQUEUE, enqueue_call(e, self.settings))
            if reply.refusal == script_replies.NO_POLICY and e.policy is not None:
                await self.store_policy(e.policy)
                reply = await self._run(lua_scripts.ENQUEUE, enqueue_call(e, self.settings))
        except OutOfMemoryError:
            return script_replies.refusal("rejected_capacity", 1000)
        return script_replies.enqueued(reply)

    async def store_policy(self, policy: PinnedPolicy) -> None:
        """Store a safety policy for longer than any request lives that is enqueued in the next hour."""
        key = redis_keys.policy(self.pool, policy.hash)
        await self._redis.set(key, policy.document, ex=keep_seconds(self.settings))

    async def keep_policy(self, policy: PinnedPolicy, seconds: int) -> None:
        """Store a safety policy for a request that lives so long, for others' as long as they had it."""
        key = redis_keys.policy(self.pool, policy.hash)
        seconds += MARGIN_SECONDS
        if not await self._redis.set(key, policy.document, ex=seconds, nx=True):
            await self._redis.expire(key, seconds, gt=True)

    async def policy(self, hash: str) -> bytes | None:
        """A safety policy's document as it stands here, unchecked; None where there is none."""
        key = redis_keys.policy(self.pool, hash)
        return await reading(key, self._redis.get(key), None)

    async def claim(self, worker: str, call: int, offer: ClaimOffer) -> ClaimReply:
        """Work for a registered worker. `call` counts from 1; a repeated number repeats its answer."""
        given = claim_call(worker, call, secrets.token_hex(8), offer, self.settings)
        found = script_replies.claims(await self._run(lua_scripts.CLAIM, given))
        set_aside(redis_keys.claims(self.pool, worker), found.odd)
        return found

    async def append(self, worker: str, items: Sequence[Append]) -> list[Appended]:
        """Commit one flush: an answer for each item, in order; a large one in parts. `worker` is for traces;
        the fence is each `ck`."""
        answers: list[Appended] = []
        for at in range(0, len(items), APPENDED_AT_ONCE):
            call = append_call(items[at : at + APPENDED_AT_ONCE], self.settings)
            reply = await self._run(lua_scripts.APPEND, call)
            answers += [script_replies.appended(answer) for answer in reply.answers]
        for item, answer in zip(items, answers, strict=True):
            self._tell(item.tenant, item.id, item.end, answer.ended)
        return answers

    async def rewrite(self, worker: str, position: int, item: Append) -> Appended:
        """Retract: drop the logged text from `position` on, keep all offsets, then commit `item`, whose first
        entry is the RETRACT entry."""
        call = rewrite_call(position, item, self.settings)
        answer = script_replies.appended(await self._run(lua_scripts.REWRITE, call))
        self._tell(item.tenant, item.id, item.end, answer.ended)
        return answer

    async def control(
        self, tenant: str, id: str, flag: Control, body_hash: str = ""
    ) -> RequestStatus | MigratedTo | None:
        """Set a flag; the owner of a running request is woken. None: the pool does not know the id, or knows
        another request under it than the one with `body_hash`. After a CANCEL of a queued or parked request
        call engine.lifecycle.finish.end_unclaimed."""
        call = calls.ControlCall(tenant=tenant, id=id, flag=int(flag), body_hash=body_hash or None)
        return script_replies.status(await self._run_or_none(lua_scripts.CONTROL, call))

    async def finish(
        self, tenant: str, id: str, expected_o: int, entries: Sequence[Entry], end: bytes
    ) -> EndedAt | None:
        """End a request without an owner whose log still ends at `expected_o`. None: this end is not in
        it."""
        call = calls.FinishCall(
            tenant=tenant,
            id=id,
            log_keep_seconds=self.settings.unrecorded_log_keep_seconds,
            expected_o=expected_o,
            entries=[pack_entry(entry) for entry in entries],
            event=end,
        )
        at = script_replies.ended_at(await self._run_or_none(lua_scripts.FINISH, call))
        self._tell(tenant, id, end, at)
        return at

    async def ends(self) -> Watermark:
        """The memory that the `ended` stream is in, and the biller's position in it."""
        return script_replies.watermark(await self._run(lua_scripts.ENDS, calls.PoolCall()))

    async def replay(
        self, ends: Sequence[JournaledEnd], again: bool = False
    ) -> list[tuple[ReplayCode, EndedAt]]:
        """Bring back ends that another memory had: the outcome of each, and the id of its event now. `again`:
        also those that a biller acknowledged, for books that lack them."""
        call = calls.ReplayCall(
            ends=[calls.ReplayedEnd(end.tenant, end.request, end.memory, end.id) for end in ends],
            again=again,
            events=[end.event for end in ends],
        )
        return script_replies.replayed(await self._run(lua_scripts.REPLAY, call))

    async def unclaim(self, worker: str, tenant: str, id: str, ck: str, why: ReleaseWhy) -> bool:
        """Give a request back to its old position in line, or park it. False: the claim was lost before."""
        del worker  # for traces; the fence is `ck`
        call = calls.UnclaimCall(tenant=tenant, id=id, ck=ck, why=why, deaths_max=self.settings.deaths_max)
        return await self._run(lua_scripts.UNCLAIM, call)

    async def park(self, tenant: str, id: str) -> RequestStatus | MigratedTo | None:
        """Park a waiting request, ask the worker of a running one to. Returns the status it had."""
        return script_replies.status(
            await self._run_or_none(lua_scripts.PARK, calls.RequestCall(tenant=tenant, id=id))
        )

    async def unpark(self, tenant: str, id: str) -> RequestStatus | MigratedTo | None:
        """Put a parked request back in line. Returns the status it had."""
        return script_replies.status(
            await self._run_or_none(lua_scripts.UNPARK, calls.RequestCall(tenant=tenant, id=id))
        )

    async def reader(self, tenant: str, id: str, gateway: str, state: ReaderState) -> ReaderView | None:
        """Register this gateway's readers; where all are stuck the request is parked. None: unknown id."""
        call = calls.ReaderCall(
            tenant=tenant,
            id=id,
            gateway=gateway or None,
            state=state,
            readers_max=self.settings.readers_per_request_max,
            gateway_lease_ms=self.settings.gateway_lease_ms,
        )
        return script_replies.view(await self._run_or_none(lua_scripts.READER, call))

    async def view(self, tenant: str, id: str) -> ReaderView | None:
        """The request's state, without registering for anything."""
        return await self.reader(tenant, id, "", "reading")

    async def register(self, worker: str, fingerprint: str, info: Mapping[str, Any]) -> None:
        """Register a worker. `worker` is new for each process; `info["kv_tokens"]` is its size."""
        call = calls.RegisterCall(
            worker=worker,
            fingerprint=fingerprint,
            kv_tokens=int(info.get("kv_tokens", 0)),
            lease_ms=self.settings.worker_lease_ms,
            info=msgspec.json.encode(info),
        )
        await self._run(lua_scripts.REGISTER, call)

    async def set_tenant(self, tenant: str, terms: TenantTerms) -> bool:
        """Set a tenant's share of the pool, its caps and its reserve, for waiting requests too. False: too
        many tenants have a reserve."""
        call = calls.TenantCall(
            tenant=tenant,
            weight=terms.weight,
            slots_max=terms.slots_max,
            tokens_max=terms.tokens_max,
            highest=terms.highest.value,
            reserve_tokens=terms.reserve_tokens,
            reserves_max=self.settings.tenant_reserves_max,
        )
        return await self._run(lua_scripts.TENANT, call)

    async def set_reserve(self, priority: PriorityClass, tokens: int) -> None:
        """Set the KV tokens of the pool that lower classes leave free for this one while it uses less."""
        await self._run(
            lua_scripts.SET_CLASS_RESERVE, calls.ReserveCall(priority=priority.value, tokens=tokens)
        )

    async def admit(self, tenants: Sequence[str]) -> bool:
        """Let these tenants into the pool from now on and no others; none named: all. What others sent before
        goes on. True: that is new."""
        return await self._run(lua_scripts.ADMIT, calls.LetInCall(tenants=list(tenants)))

    async def starting(self, fingerprint: str) -> None:
        """Announce a starting worker of `fingerprint`: requests wait for it, up to 120 s from now."""
        await self._run(lua_scripts.SEEN, calls.SeenCall(fingerprint=fingerprint))

    async def renew(self, worker: str, step_age_ms: int, info: Mapping[str, Any]) -> Renewed:
        """Keep the lease while the engine's step is young; `info["step_predicted_ms"]` stretches that."""
        predicted = int(info.get("step_predicted_ms", 0))
        call = calls.RenewCall(
            worker=worker,
            step_age_ms=step_age_ms,
            step_age_ms_max=min(STEP_AGE_MS_MAX, max(STEP_AGE_MS_MIN, 4 * predicted)),
            lease_ms=self.settings.worker_lease_ms,
            kv_tokens=int(info.get("kv_tokens", 0)),
            info=msgspec.json.encode(info),
        )
        renewed = script_replies.renewed(await self._run(lua_scripts.RENEW, call))
        set_aside(redis_keys.claims(self.pool, worker), renewed.odd)
        return renewed

    async def deregister(self, worker: str, why: ReleaseWhy = "drain") -> int:
        """Take a worker out of the pool; its requests go back in line. Returns their number."""
        call = calls.DeregisterCall(worker=worker, why=why, deaths_max=self.settings.deaths_max)
        return await self._run(lua_scripts.DEREGISTER, call)

    async def renew_gateway(self, gateway: str) -> bool:
        """Keep a gateway's lease. False: it had lapsed, so register its readers again."""
        call = calls.GatewayCall(gateway=gateway, lease_ms=self.settings.gateway_lease_ms)
        return await self._run(lua_scripts.GATEWAY, call)

    async def reap(self, moves: bool = True) -> Reaped:
        """Requeue what dead workers held, drop dead gateways' readers. The caller ends `expired` and finishes
        `moves`, where it can."""
        s = self.settings
        call = calls.ReapCall(
            budget=REAP_BUDGET,
            deaths_max=s.deaths_max,
            no_worker_ms=s.no_worker_seconds_max * 1000,
            park_ms=s.park_seconds_max * 1000,
            moves=moves,
        )
        return script_replies.reaped(await self._run(lua_scripts.REAP, call))

    async def may_sweep(self, seconds: float) -> bool:
        """True for the one caller that sweeps this pool in the next `seconds`."""
        mark = redis_keys.sweeper(self.pool)
        return bool(await self._redis.set(mark, b"", nx=True, px=round(seconds * 1000)))

    async def refuse_late_enqueue(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Of these ids, those that the pool does not know. A late enqueue of one that was accepted until now
        is refused; a new send is not."""
        refused: list[str] = []
        for at in range(0, len(ids), IDS_AT_ONCE):
            call = calls.RefuseLateEnqueueCall(
                keep_seconds=REFUSED_IDS_KEEP_SECONDS, tenant=tenant, ids=list(ids[at : at + IDS_AT_ONCE])
            )
            refused += (await self._run(lua_scripts.REFUSE_LATE_ENQUEUE, call)).ids
        return refused

    async def expire_log(self, tenant: str, id: str, seconds: int) -> bool:
        """Keep an ended request's log only `seconds` from now, as its answer is recorded."""
        call = calls.ExpireCall(tenant=tenant, id=id, keep_seconds=seconds)
        return await self._run(lua_scripts.EXPIRE, call)

    async def wait_for_work(self, seconds: float = 0.05) -> bool:
        """Wait until something is put in line, at most `seconds`."""
        return await self._redis.blpop([redis_keys.wake(self.pool)], timeout=seconds) is not None

    async def claimed(self, worker: str) -> set[tuple[str, str]]:
        """(tenant, id) of each request that the pool counts as this worker's."""
        key = redis_keys.claims(self.pool, worker)
        found = await reading(key, self._redis.smembers(key), set[bytes]())
        return {redis_keys.split_member(name) for name in names(key, found)}

    async def tokens(self, tenant: str, id: str) -> bytes:
        """Every sampled token id of a request that has not ended."""
        key = redis_keys.tokens(self.pool, tenant, id)
        return await reading(key, self._redis.get(key), None) or b""

    async def workers(self) -> list[WorkerView]:
        """All registered workers, those with a lapsed lease too."""
        now = await self.now_ms()
        found: list[WorkerView] = []
        for view in await worker_views(self._redis, self.pool, now):
            if isinstance(view, Unreadable):
                repeated.warning("queue.worker_unreadable", pool=self.pool, why=view.why)
            else:
                found.append(view)
        return found

    async def unowned(self, tenant: str, id: str) -> UnownedRequest | None:
        """Everything needed to end a queued or parked request; None where it is neither. Raises
        DamagedRecordError."""
        found = await self.recorded(tenant, id)
        return found if found and found.status in (RequestStatus.QUEUED, RequestStatus.PARKED) else None

    async def recorded(self, tenant: str, id: str) -> UnownedRequest | None:
        """The same of a request in any state, None where the pool does not know it. Its input may be gone:
        then it is empty. Raises DamagedRecordError."""
        key, sent = redis_keys.record(self.pool, tenant, id), redis_keys.request_input(self.pool, tenant, id)
        fields = await reading(key, self._redis.hgetall(key), dict[bytes, bytes]())
        if not fields:
            return None
        packed = await reading(sent, self._redis.get(sent), None) or b""
        found = read("the record", lambda of: script_replies.unowned(of, packed), fields)
        if isinstance(found, Unreadable):
            raise DamagedRecordError(f"{id}: {found}")
        return found

    async def now_ms(self) -> int:
        """The scripts' time."""
        return self._clock() if self._clock else await self._run(lua_scripts.CLOCK, calls.PoolCall())

    def _tell(self, tenant: str, id: str, event: bytes | None, at: EndedAt | None) -> None:
        if self._ended is not None and event and at is not None:
            self._ended(JournaledEnd(tenant, id, at.memory, at.id, event))

    async def _run(self, script: Script[Call, Reply], call: Call) -> Reply:
        call.now_ms = self._clock() if self._clock else 0
        return await script(self._redis, [redis_keys.system(self.pool)], call)

    async def _run_or_none(self, script: Script[Call, Reply], call: Call) -> Reply | None:
        call.now_ms = self._clock() if self._clock else 0
        return await script.or_none(self._redis, [redis_keys.system(self.pool)], call)
