"""Migrates requests to another pool: out of one slot of Redis, into the other, each step idempotent.

No script touches both pools, so a migration is a series of calls that any process can repeat: `move` takes
the request out of its pool (from then on nobody there can append to it), `copy` and `adopt` create it in the
other, the tenant's directory follows, and `moved` leaves a redirect for 15 minutes. The process that began
may die in between: the reaper of the old pool finishes where the order's seal is good, since a worker could
have written the rest. `hop`, a request's number of migrations, tells a late call of an earlier migration from
this one's.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from billing.api import Bindings, Quota
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.members import reading, whole
from core.redis.pools import HOPS_MAX, known_pools
from core.redis.script_calls import EXACT_MAX
from core.redis.scripts import Script
from core.redis.unreadable import Unreadable, read
from core.signing.signed_text import Keyring
from engine.queue import lua_scripts, redis_keys
from engine.queue import script_calls as calls
from engine.queue.client import PoolQueue
from engine.queue.migration_orders import HOP_MAX, MigrationOrders, order_of
from engine.queue.pinned_policies import is_policy
from engine.queue.types import MigratedTo, PinnedPolicy, WorkerView
from engine.request import TOKEN_BYTES, Control, RequestStatus, input_decoder

MOVED_KEEP_SECONDS = 15 * 60
MOVED_LOG_KEEP_SECONDS = 60
RETRY_MS = 1_000
PAGE_ENTRIES = 256
COPIES_MAX = 8
ROUND_TRIPS_MAX = 8

Call = TypeVar("Call", bound=calls.PoolCall)
Reply = TypeVar("Reply")


class MigrationRefusalReason(StrEnum):
    """Reasons why a request stays where it is."""

    UNKNOWN = "unknown"
    ENDED = "ended"
    SAME_POOL = "same_pool"
    UNKNOWN_POOL = "unknown_pool"
    NO_WORKER = "no_worker"
    TOO_LARGE = "too_large"
    MOVING_ELSEWHERE = "moving_elsewhere"
    ALREADY_MOVED = "already_moved"
    OTHER_SECRET = "other_secret"
    STRANGER = "stranger"


class MigrationRefused(Exception):  # noqa: N818  (an answer, not a fault)
    """A migration that did not begin; the message says why."""

    def __init__(self, reason: MigrationRefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class MigrationNotOrdered(Exception):  # noqa: N818  (an answer, not a fault)
    """A migration without a valid order: unsealed, too old, or to an unknown pool. The request stays."""


class MigrationRecord(msgspec.Struct, frozen=True):
    """A migrating request, as it left its pool: nothing of it changes any more but a cancel."""

    dest: str
    hop: int
    head: int
    control: Control
    fields: dict[bytes, bytes]
    input: bytes
    tokens: bytes


class Migrator:
    """Migrates requests between the pools of one Redis. Only processes with the signing secret have one.
    `let_in`: the tenants that a pool lets in, none: all; who only finishes what was ordered needs none."""

    def __init__(
        self,
        redis: RedisClient,
        settings: Settings,
        keyring: Keyring,
        clock: Callable[[], int] | None = None,
        let_in: Callable[[str], Awaitable[Collection[str]]] | None = None,
    ) -> None:
        self._let_in = let_in
        self._client = redis
        self._redis = redis
        self._settings = settings
        self._clock = clock
        self._orders = MigrationOrders(keyring, settings.installation)
        self._quota = Quota(redis, settings, bindings=Bindings(keyring, settings.installation))

    async def migrate(self, pool: str, tenant: str, id: str, dest: str) -> MigratedTo:
        """Move a request that has not ended to `dest`, where a worker of its fingerprint lives. Repeating it
        changes nothing. Raises MigrationRefused, and then it has stayed."""
        try:
            status, where = await self._begin(pool, tenant, id, dest)
            if status is RequestStatus.ENDED:
                raise _refused(MigrationRefusalReason.ENDED, "it has ended")
            if where != dest:
                reason = (
                    MigrationRefusalReason.ALREADY_MOVED
                    if status is RequestStatus.MOVED
                    else MigrationRefusalReason.MOVING_ELSEWHERE
                )
                raise _refused(reason, f"it is in pool {where} or on its way there")
            await self._finish(pool, tenant, id)  # by this order, whichever process began it
        except (ValueError, KeyError) as error:
            raise _refused(MigrationRefusalReason.UNKNOWN, "its record is damaged") from error
        return MigratedTo(dest)

    async def finish(self, pool: str, tenant: str, id: str) -> bool:
        """Bring a move that another one has begun to its end. False: there is none, or somebody else has.
        Raises MigrationNotOrdered, and then nothing has been done."""
        names = ("status", "dest", "hop", "ordered", "seal")
        status, *found = await self._redis.hmget(redis_keys.record(pool, tenant, id), *names)
        if status != RequestStatus.MOVING.value.encode():
            return False
        order = order_of(*found)
        good = self._orders.good(tenant, id, pool, order, self._now_ms())
        if not good or order.dest not in await known_pools(self._client, self._settings):
            raise MigrationNotOrdered
        return await self._finish(pool, tenant, id)

    async def _finish(self, pool: str, tenant: str, id: str) -> bool:
        found = await self._departure(pool, tenant, id)
        if found is None:
            return False
        adopted = await self._arrive(pool, found, tenant, id)
        await self._quota.rebind(tenant, id, found.dest, found.hop)
        # A process that adopted it earlier may have done so before the cancel came.
        known = found.control if adopted else Control(0)
        while (flags := await self._leave(pool, found, known, tenant, id)) >= 0:
            known = Control(flags)
            await self._cancel(found.dest, tenant, id)
        return True

    async def _cancel(self, pool: str, tenant: str, id: str) -> None:
        """Pass on a cancel that came on the way. The destination's reaper ends what no worker has."""
        for _ in range(HOPS_MAX):
            reply = await self._queue(pool).control(tenant, id, Control.CANCEL)
            if not isinstance(reply, MigratedTo):
                return
            pool = reply.pool

    async def _begin(self, pool: str, tenant: str, id: str, dest: str) -> tuple[RequestStatus, str]:
        """Take it out of its pool. Returns the status it had, and the pool that it goes or went to."""
        for _ in range(ROUND_TRIPS_MAX):
            hop = await self._check(pool, tenant, id, dest) + 1
            order = self._orders.give(tenant, id, pool, dest, hop, self._now_ms())
            call = calls.MigrateBeginCall(
                tenant=tenant,
                id=id,
                dest=dest,
                hop=hop,
                retry_ms=RETRY_MS,
                ordered_ms=order.at_ms,
                seal=order.seal,
            )
            reply = await self._run(lua_scripts.MIGRATE_BEGIN, pool, call)
            if reply is None:
                raise _refused(MigrationRefusalReason.UNKNOWN, f"pool {pool} knows no such request")
            if reply.status in (RequestStatus.MOVING, RequestStatus.MOVED, RequestStatus.ENDED):
                return reply.status, reply.dest
            # It was migrated away and back since we looked at it.
        raise TimeoutError("others move this request, too")

    async def _check(self, pool: str, tenant: str, id: str, dest: str) -> int:
        """Number of migrations so far. Raises MigrationRefused where it can never go on in `dest`."""
        if dest == pool:
            raise _refused(MigrationRefusalReason.SAME_POOL, f"it is in pool {pool}")
        if dest not in await known_pools(self._client, self._settings):
            problem = f"there is no pool {dest}: a supervisor makes it (parley supervisor --pool {dest})"
            raise _refused(MigrationRefusalReason.UNKNOWN_POOL, problem)
        admitted = await self._let_in(dest) if self._let_in else ()
        if admitted and tenant not in admitted:
            problem = f"pool {dest} is another tenant's and does not let it in"
            raise _refused(MigrationRefusalReason.STRANGER, problem)
        if not await self._quota.is_sealed_alike(tenant, id):
            problem = "its admission was sealed under another PARLEY_SECRET than this one, or tampered with"
            raise _refused(MigrationRefusalReason.OTHER_SECRET, problem)
        record = redis_keys.record(pool, tenant, id)
        facts = self._redis.hmget(record, "fingerprint", "hop")
        fingerprint, hops = await reading(record, facts, [None, None])
        packed = await self._packed(redis_keys.request_input(pool, tenant, id))
        if not 0 <= (moves := whole(hops)) < HOP_MAX - 1:
            raise _refused(MigrationRefusalReason.UNKNOWN, "its record is damaged")
        if fingerprint is None or not packed:
            return moves  # unknown, ended or on its way: `move` says which
        sizes = sizes_of(await self._queue(dest).workers())
        if refused := misfit(dest, sizes, fingerprint.decode(errors="replace"), tokens_needed(packed)):
            raise refused
        return moves

    async def _departure(self, pool: str, tenant: str, id: str) -> MigrationRecord | None:
        record = redis_keys.record(pool, tenant, id)
        fields = await reading(record, self._redis.hgetall(record), dict[bytes, bytes]())
        if fields.get(b"status") != RequestStatus.MOVING.value.encode():
            return None
        packed = await self._packed(redis_keys.request_input(pool, tenant, id))
        tokens = await self._packed(redis_keys.tokens(pool, tenant, id))
        if await reading(record, self._redis.hget(record, "status"), None) != fields[b"status"]:
            return None  # another process finished the migration between these reads
        hop, head = int(fields[b"hop"]), int(fields[b"o"])
        if not (0 < hop < HOP_MAX and 0 <= head < EXACT_MAX):
            raise ValueError("out of range")
        return MigrationRecord(
            dest=fields[b"dest"].decode(),
            hop=hop,
            head=head,
            control=Control(int(fields[b"control"])),
            fields=fields,
            input=packed,
            tokens=tokens,
        )

    async def _packed(self, key: str) -> bytes:
        return await reading(key, self._redis.get(key), None) or b""

    async def _arrive(self, pool: str, found: MigrationRecord, tenant: str, id: str) -> bool:
        """Create the request in the destination: True where this call did, False where another had."""
        fields = [part for pair in found.fields.items() for part in pair]
        await self._copy_policy(pool, found)
        for _ in range(COPIES_MAX):
            head = await self._copy(pool, found, tenant, id)
            call = calls.MigrateAdoptCall(
                tenant=tenant,
                id=id,
                hop=found.hop,
                head=head,
                input=found.input,
                tokens=found.tokens,
                fields=fields,
            )
            if (adopted := await self._run(lua_scripts.MIGRATE_ADOPT, found.dest, call)) in (0, 1):
                return adopted == 1
        raise TimeoutError("others copy this log, too, and none of them comes to its end")

    async def _copy_policy(self, pool: str, found: MigrationRecord) -> None:
        """Store its safety policy where it goes, for longer than it lives. One that is lost or damaged ends
        it there, typed."""
        hash, deadline_ms = _policy(found.input)
        document = await self._queue(pool).policy(hash) if hash else None
        if document is not None and is_policy(hash, document):
            ms_left = max(0, deadline_ms - self._now_ms())
            await self._queue(found.dest).keep_policy(PinnedPolicy(hash, document), ms_left // 1000)

    async def _copy(self, pool: str, found: MigrationRecord, tenant: str, id: str) -> int:
        """Copy the log, in pages. Returns the offset that the copy ends at, which is less than `head` only
        where the old pool has lost its tail."""
        after = 0
        while after < found.head:
            log = redis_keys.log(pool, tenant, id)
            page = await reading(
                log, self._redis.xrange(log, min=f"{after + 1}-0", max="+", count=PAGE_ENTRIES), []
            )
            if not page:
                return after
            call = calls.MigrateCopyCall(
                tenant=tenant,
                id=id,
                hop=found.hop,
                after=after,
                keep_seconds=MOVED_KEEP_SECONDS,
                entries=[calls.CopiedEntry(at.decode(), 2 * len(fields)) for at, fields in page],
                parts=[part for _, fields in page for pair in fields.items() for part in pair],
            )
            after = await self._run(lua_scripts.MIGRATE_COPY, found.dest, call) or 0
            if after < 0:
                return found.head  # it has arrived
        return after

    async def _leave(self, pool: str, found: MigrationRecord, known: Control, tenant: str, id: str) -> int:
        call = calls.MigrateFinishCall(
            tenant=tenant,
            id=id,
            hop=found.hop,
            control=int(known),
            keep_seconds=MOVED_KEEP_SECONDS,
            log_keep_seconds=MOVED_LOG_KEEP_SECONDS,
        )
        flags = await self._run(lua_scripts.MIGRATE_FINISH, pool, call)
        return -1 if flags is None else flags

    def _now_ms(self) -> int:
        return self._clock() if self._clock else now_ms()

    def _queue(self, pool: str) -> PoolQueue:
        return PoolQueue(self._client, pool, self._settings, self._clock)

    async def _run(self, script: Script[Call, Reply], pool: str, call: Call) -> Reply | None:
        call.now_ms = self._clock() if self._clock else 0
        return await script.or_none(self._client, [redis_keys.system(pool)], call)


def sizes_of(workers: Iterable[WorkerView]) -> dict[str, int]:
    """KV tokens of the largest living worker by fingerprint; 0 where none has said. Pure."""
    sizes: dict[str, int] = {}
    for each in workers:
        if each.alive:
            sizes[each.fingerprint] = max(sizes.get(each.fingerprint, 0), each.count("kv_tokens") or 0)
    return sizes


def misfit(dest: str, sizes: Mapping[str, int], fingerprint: str, need: int) -> MigrationRefused | None:
    """Why a request of this fingerprint that takes `need` KV tokens at most can never go on in `dest`, whose
    workers have these sizes; None: it can. Pure."""
    if fingerprint not in sizes:
        told = f"no worker of pool {dest} runs this version of its model"
        return _refused(MigrationRefusalReason.NO_WORKER, told)
    if 0 < sizes[fingerprint] < need:
        told = f"no worker of pool {dest} holds more than {sizes[fingerprint]} tokens"
        return _refused(MigrationRefusalReason.TOO_LARGE, told)
    return None


def _refused(reason: MigrationRefusalReason, message: str) -> MigrationRefused:
    return MigrationRefused(reason, message)


def _policy(packed: bytes) -> tuple[str, int]:
    """Hash of the policy that the request is under, and its deadline; an empty hash where it has none."""
    request = read("input", input_decoder.decode, packed)
    if isinstance(request, Unreadable):
        return "", 0
    return request.policy, request.deadline_ms


def tokens_needed(packed: bytes) -> int:
    """KV tokens that the request takes at most; 0 where its input cannot be read."""
    request = read("input", input_decoder.decode, packed)
    if isinstance(request, Unreadable):
        return 0
    return len(request.prompt) // TOKEN_BYTES + request.sampling.max_tokens
