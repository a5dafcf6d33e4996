"""Quotas and the directory of a tenant's requests, in Redis under `{t:TENANT}`. One Lua call each.

The scripts make all decisions. Every call is idempotent per request id. A script derives further keys from
the data it reads, all of them with the tenant's tag (docs/limits.md, "Quotas").
"""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import msgspec
from sqlalchemy.exc import DBAPIError

from billing.budgets.key_chains import KnownChains
from billing.limits import TOKENS_MAX, MoneyLimit, RequestLimits
from billing.quota import script_calls as calls
from billing.quota.bindings import SEAL, Bindings, Record, directory_of, record_replied
from billing.quota.holds import indexed_holds
from billing.quota.money import MoneyCounts
from billing.quota.packing import SETTLED_KEEP_MS, admit_call, settlement
from billing.quota.redis_keys import mark_key, open_key, open_requests_key, posted_key, rq_key, tag
from billing.quota.script_replies import (
    admitted_of,
    refusal_of,
    refusal_of_key,
)
from billing.quota.scripts import quota_script
from billing.quota.types import (
    Admission,
    Admitted,
    AllowanceExtension,
    Canceller,
    DirectoryEntry,
    Hold,
    LimitUse,
    MoneySum,
    PostedSums,
    Settled,
)
from billing.quota.usage import use_of
from billing.usage import UsageEvent
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.members import names, reading, set_aside, whole
from core.redis.unreadable import Unreadable, read
from core.sql.database import Database

log = logger(__name__)
repeated = RepeatedWarning(log)

CANCEL_MARK_MS = 60_000
STALE_MS = 60_000
TAKEN_OUT_AT_ONCE = 500
WAIT_STEP_MS = 100
WAIT_MS_MAX = 2_000
SEED_TRIES = 5
SEED_SECONDS_MAX = 5.0
OVERLOADED_MS = 1_000
REBIND_TRIES = 8
OPEN_TENANTS = "parley:tenants:open"
OPEN_TENANTS_SECONDS = 60.0
OPEN_TENANTS_MS = 26 * 3_600_000  # longer than any deadline

_ADMIT = quota_script("admit", calls.AdmitCall, calls.AdmitReply, "base", "rates", "money")
_EXTEND = quota_script("extend", calls.ExtendCall, calls.ExtendReply, "base", "rates", "money")
_SETTLE = quota_script("settle", calls.SettleCall, bytes, "base", "rates", "money", "close")
_RELEASE = quota_script("release", calls.ReleaseCall, bool, "base", "rates", "money", "close")
_CANCEL = quota_script("cancel", calls.CancelCall, list[bytes])
_REBIND = quota_script("rebind", calls.RebindCall, bytes)


class Quota:
    """The tenant's keys. Stateless: any process may hold one. `db`: the books to read budgets from. With
    `bindings` (gateways, and processes that move requests) it seals its admissions and trusts no other
    record; without, it decides nothing by a record."""

    def __init__(
        self,
        redis: RedisClient,
        settings: Settings,
        db: Database | None = None,
        bindings: Bindings | None = None,
    ) -> None:
        self.redis = redis
        self._settings = settings
        self._db = db
        self._bindings = bindings
        self._chains = KnownChains(db) if db is not None else None
        self._money = MoneyCounts(redis)
        self._noted_open: dict[str, float] = {}

    async def admit(self, a: Admission) -> Admitted | Refusal:
        """Bind the request to pool, fingerprint and prices, or return its first binding. Where money is
        short, less than a chunk is granted at first, down to one token.

        Refused where a limit is reached (`rate_limited`, `budget_exceeded`, `insufficient_quota`), or where
        the spending of a hard limit is not known (`overloaded`)."""
        if not (0 <= a.input_tokens < TOKENS_MAX and 0 <= a.chunk_tokens < TOKENS_MAX):
            return Refusal("bad_request", f"a request has fewer than {TOKENS_MAX} tokens")
        await self._note_open(a.tenant)
        attempt = secrets.token_hex(8)
        for _ in range(SEED_TRIES):
            answer = await self._try(a, attempt)
            if not isinstance(answer, list):
                return answer
            unknown = [a.limits.money[number - 1] for number in answer]
            if not await self._seeded(a.tenant, unknown):
                if any(limit.hard and not limit.shadow for limit in unknown):
                    break
                # Soft limits do not hold a request up: a later request seeds them.
                rest = tuple(limit for limit in a.limits.money if limit not in unknown)
                a = replace(a, limits=replace(a.limits, money=rest))
        return Refusal("overloaded", "what was spent cannot be known now", retry=True, after_ms=OVERLOADED_MS)

    async def _try(self, a: Admission, attempt: str) -> Admitted | Refusal | list[int]:
        """Try once: the answer, or the numbers of the money limits that Redis has no count for."""
        slot = tag(a.tenant)
        of_limits = [slot + key for key in a.limits.keys]
        keys = [
            rq_key(a.tenant, a.id),
            mark_key(a.tenant, a.id),
            open_key(a.tenant),
            open_requests_key(a.tenant),
            *of_limits,
        ]
        try:
            reply = await _ADMIT(self.redis, keys, admit_call(a, attempt, self._bindings))
        except redis_errors.UnreadableReplyError:
            return _conflict()
        if reply.verdict == "conflict":
            return _conflict()
        if reply.verdict == "seed":
            return reply.unknown
        if reply.refusal is not None:
            return refusal_of(a.limits, reply.refusal, a.now_ms or now_ms())
        if reply.sealed and not self._is_ours(a.tenant, a.id, record_replied(reply.sealed)):
            return _conflict()
        admitted = read("admission", lambda of: admitted_of(a, of, a.now_ms or now_ms()), reply)
        return _conflict() if isinstance(admitted, Unreadable) else admitted

    async def _seeded(self, tenant: str, limits: Sequence[MoneyLimit]) -> bool:
        if self._db is None:
            return False
        try:
            async with asyncio.timeout(SEED_SECONDS_MAX):
                await self._money.seed(self._db, tenant, limits)
        except (DBAPIError, OSError) as error:  # OSError includes TimeoutError
            repeated.warning("quota.budget_read_failed", error=type(error).__name__)
            return False
        return True

    async def _note_open(self, tenant: str) -> None:
        """Record now and then that the tenant has open requests, so that the sweep finds it after Redis lost
        data."""
        now = time.monotonic()
        if now - self._noted_open.get(tenant, -OPEN_TENANTS_SECONDS) >= OPEN_TENANTS_SECONDS:
            await self.redis.zadd(OPEN_TENANTS, {tenant: now_ms()})
            self._noted_open[tenant] = now

    async def extend(self, tenant: str, id: str, to_tokens: int, now_ms: int = 0) -> AllowanceExtension:
        """Ask for an allowance of `to_tokens` output tokens in all. Repeating the call changes nothing.

        Fewer may be granted where money runs short; it is refused only where none is left."""
        call = calls.ExtendCall(
            now_ms=now_ms,
            to_tokens=min(to_tokens, TOKENS_MAX),
            wait_step_ms=WAIT_STEP_MS,
            wait_ms_max=WAIT_MS_MAX,
        )
        reply = await _EXTEND(self.redis, [rq_key(tenant, id)], call)
        if reply.verdict == "unknown":
            # Redis lost the admission, and with it the limits to charge: let the answer continue.
            return AllowanceExtension(to_tokens)
        if reply.verdict == "wait":
            return AllowanceExtension(reply.granted, wait_ms=reply.after_ms)
        if reply.verdict == "refused":
            sums = (reply.limit, reply.left, reply.spent, reply.held)
            return AllowanceExtension(
                reply.granted, refusal=refusal_of_key(reply.key, sums, reply.window_end_ms)
            )
        return AllowanceExtension(reply.granted)

    async def settle(self, event: UsageEvent, line_seq: int | None = None, now_ms: int = 0) -> Settled:
        """Close the request with its usage. Only the first call counts.

        `line_seq`: its last line in the books; None: not in them yet; 0: decided never to be. Raises
        ValueError for impossible amounts."""
        (outcome,) = await self.settle_all([(event, line_seq)], now_ms)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def settle_all(
        self, ended: Sequence[tuple[UsageEvent, int | None]], now_ms: int = 0
    ) -> list[Settled | Exception]:
        """Settle many requests in one round trip; an exception stands in the place of its answer."""
        owners = await self._owner_keys([event for event, line_seq in ended if line_seq])
        settlements = [
            settlement(event, line_seq, now_ms, owners.get((event.tenant, event.owner.key)))
            for event, line_seq in ended
        ]
        good = [each for each in settlements if not isinstance(each, ValueError)]
        replies = iter(await _SETTLE.many(self.redis, good))
        return [
            each if isinstance(each, ValueError) else await self._settled(event.tenant, next(replies))
            for (event, _), each in zip(ended, settlements, strict=True)
        ]

    async def _owner_keys(self, booked: Sequence[UsageEvent]) -> Mapping[tuple[str, str], str]:
        """Owner keys of the keys that booked requests came with. What is not booked counts by its record."""
        if self._chains is None:
            return {}
        return await self._chains.owners({(event.tenant, event.owner.key) for event in booked})

    async def _settled(self, tenant: str, reply: bytes | Exception) -> Settled | Exception:
        if isinstance(reply, Exception):
            return reply
        if reply == b"recount":
            # Redis cannot tell any more if its line was counted: count again from the books.
            if self._db is not None:
                await self._money.reseed(self._db, tenant)
            return "unknown"
        return cast(Settled, reply.decode())

    async def release(self, tenant: str, id: str, now_ms: int = 0) -> bool:
        """Undo an admission that the queue refused; True where there was an open one."""
        return await _RELEASE(self.redis, *_release_of(tenant, id, now_ms))

    async def rebind(self, tenant: str, id: str, pool: str, hop: int) -> str | None:
        """Bind the request to `pool` after its `hop`th move, unless a later move has bound it already.
        Returns the pool that it is bound to; None where the directory does not know it."""
        for _ in range(REBIND_TRIES):
            before, seal = await self._resealed(tenant, id, pool, hop)
            call = calls.RebindCall(pool=pool, hop=hop, seal=seal, seal_before=before)
            bound = await _REBIND.or_none(self.redis, [rq_key(tenant, id)], call)
            if bound is not None:
                bound_to = read("pool", bytes.decode, bound)
                return None if isinstance(bound_to, Unreadable) else bound_to or None
        raise TimeoutError("others bind this request, too")

    async def _resealed(self, tenant: str, id: str, pool: str, hop: int) -> tuple[bytes, bytes]:
        """The record's present seal, and its new one; a record that this secret did not seal gets none."""
        record = await self._record(tenant, id)
        before = record.get(SEAL, b"")
        if self._bindings is None or not before or not self._is_ours(tenant, id, record):
            return before, b""
        moved = {**record, b"pool": pool.encode(), b"hop": b"%d" % hop}
        return before, self._bindings.seal(tenant, id, moved)

    async def is_sealed_alike(self, tenant: str, id: str) -> bool:
        """True where the directory's record of a request has this process's seal or none."""
        record = await self._record(tenant, id)
        return SEAL not in record or self._is_ours(tenant, id, record)

    async def directory(self, tenant: str, id: str) -> DirectoryEntry | None:
        """The directory's entry of a request; None for an id that was never admitted for this tenant, or long
        ago."""
        record = await self._record(tenant, id)
        return self._believed(tenant, id, record) if record.get(b"state") != b"released" else None

    async def _record(self, tenant: str, id: str) -> Record:
        key = rq_key(tenant, id)
        return await reading(key, self.redis.hgetall(key), dict[bytes, bytes]())

    def _believed(self, tenant: str, id: str, record: Record) -> DirectoryEntry | None:
        """Decode a record; None where it has no valid seal or is malformed, as for an unknown request."""
        if not record or not self._is_ours(tenant, id, record):
            return None
        try:
            return directory_of(tenant, id, record)
        except (ValueError, KeyError, msgspec.MsgspecError) as error:
            repeated.warning("quota.directory_unreadable", tenant=tenant, id=id, error=error_summary(error))
            return None

    def _is_ours(self, tenant: str, id: str, record: Record) -> bool:
        if self._bindings is None or self._bindings.good(tenant, id, record):
            return True
        repeated.warning("quota.directory_seal_invalid", tenant=tenant, id=id)
        return False

    async def mark_cancel(self, tenant: str, id: str, canceller: Canceller) -> DirectoryEntry | None:
        """Mark a request as cancelled: returns the entry of a known one, None after marking an unknown id for
        60 s.

        The mark of an unknown id cancels only a request that belongs to the canceller."""
        keys = [rq_key(tenant, id), mark_key(tenant, id)]
        call = calls.CancelCall(mark_ms=CANCEL_MARK_MS, canceller=canceller.member)
        reply = await _CANCEL(self.redis, keys, call)
        fields = dict(zip(reply[::2], reply[1::2], strict=True))
        return self._believed(tenant, id, fields)

    async def use(self, tenant: str, limits: RequestLimits, now_ms: int = 0) -> Sequence[LimitUse]:
        """Current use of each of these limits. Changes nothing."""
        return await use_of(self.redis, tag(tenant), limits, now_ms or int(time.time() * 1000))

    async def reseed(self, tenant: str) -> None:
        """Set the posted sums of every budget to the books' sums, after a correction; holds stay.

        Raises AssertionError where this client has no database."""
        assert self._db is not None, "the books are needed"
        await self._money.reseed(self._db, tenant)

    async def forget_posted(self, tenant: str, line_seq: int) -> None:
        """Forget all that was counted of a tenant's books, once others were restored, which end at this line.
        Holds stay; admissions seed from the books again."""
        await self._money.forget(tenant, line_seq)

    async def forget_user(self, tenant: str, user: str) -> None:
        """Delete the counts of a closed user; the books keep them."""
        await self._money.forget_user(tenant, user)

    async def budget_sums(self, tenant: str) -> Sequence[MoneySum]:
        """Every count of the tenant's money in Redis."""
        return await self._money.sums(tenant)

    async def posted(self, tenant: str) -> PostedSums | None:
        """Sums of the tenant's settled requests; None: none since Redis was empty."""
        key, fields = posted_key(tenant), ("cost_nano", "input", "output", "requests")
        found = await reading(key, self.redis.hmget(key, *fields), [None])
        return PostedSums(*map(whole, found)) if found[-1] is not None else None

    async def open_tenants(self) -> set[str]:
        """Tenants that may have open requests: those with an admission in the last day or so."""
        await self.redis.zremrangebyscore(OPEN_TENANTS, "-inf", now_ms() - OPEN_TENANTS_MS)
        return set(names(OPEN_TENANTS, await self.redis.zrange(OPEN_TENANTS, 0, -1)))

    async def holds(self, tenant: str, admitted_before_ms: int | None = None) -> Sequence[Hold]:
        """The tenant's open requests, or those admitted before a time; oldest first."""
        return (await indexed_holds(self.redis, tenant, _before(admitted_before_ms))).holds

    async def stale(self, tenant: str, older_than_ms: int = STALE_MS) -> Sequence[tuple[str, str]]:
        """(id, pool) of requests that have been open for longer. The sweep asks their pools, and releases
        those that no pool knows. What stands among them and is none is taken out."""
        found = await indexed_holds(self.redis, tenant, _before(now_ms() - older_than_ms))
        key = open_requests_key(tenant)
        for first in range(0, len(found.odd), TAKEN_OUT_AT_ONCE):
            await self.redis.zrem(key, *found.odd[first : first + TAKEN_OUT_AT_ONCE])
        await self._take_out(tenant, found.closed)
        set_aside(key, len(found.closed))
        return [(hold.id, hold.pool) for hold in found.holds]

    async def _take_out(self, tenant: str, ids: Sequence[str]) -> None:
        for first in range(0, len(ids), TAKEN_OUT_AT_ONCE):
            some = ids[first : first + TAKEN_OUT_AT_ONCE]
            await _RELEASE.many(self.redis, [_release_of(tenant, id, not_open=True) for id in some])

    async def open_requests(self, tenant: str) -> int:
        """Number of the tenant's requests that are admitted and not settled."""
        key = open_key(tenant)
        return await reading(key, self.redis.zcard(key), 0)


def _release_of(
    tenant: str, id: str, now_ms: int = 0, not_open: bool = False
) -> tuple[list[str], calls.ReleaseCall]:
    keys = [rq_key(tenant, id), open_key(tenant), open_requests_key(tenant)]
    return keys, calls.ReleaseCall(now_ms=now_ms, id=id, keep_ms=SETTLED_KEEP_MS, not_open=not_open)


def _before(ms: int | None) -> str:
    return "+inf" if ms is None else f"({ms}"


def _conflict() -> Refusal:
    return Refusal("id_conflict", "this id was used for another request")
