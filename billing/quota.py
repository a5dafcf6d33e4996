"""Quotas and the directory of a tenant's requests, in Redis under `{t:TENANT}`. One Lua call each.

Decides nothing itself: the scripts do. Every call is idempotent per request id. No quota refuses yet.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from billing.limits import UNLIMITED, Limits
from billing.usage import PinnedPrices, UsageEvent
from core.database import Database
from core.errors import Refusal
from core.redis import Client, Script
from core.settings import Settings

UNLIMITED_TOKENS = 1 << 30
CONCURRENCY_GRACE_MS = 60_000
SETTLED_KEEP_MS = 15 * 60_000
CANCEL_MARK_MS = 60_000
STALE_MS = 60_000

_FOLDER = Path(__file__).parent / "lua"
_ADMIT = Script(_FOLDER / "admit.lua")
_EXTEND = Script(_FOLDER / "extend.lua")
_SETTLE = Script(_FOLDER / "settle.lua")
_RELEASE = Script(_FOLDER / "release.lua")
_CANCEL = Script(_FOLDER / "cancel.lua")
_REBIND = Script(_FOLDER / "rebind.lua")


class AdmissionState(StrEnum):
    """Where a request stands with its tenant. `released`: the queue refused it, it may come again."""

    OPEN = "open"
    ENDED = "ended"
    RELEASED = "released"


@dataclass(frozen=True)
class Admission:
    """One request that wants in. `input_tokens` is exact; `chunk_tokens` is the output held at first.

    The owner is (project, owner_key, user): another owner who sends the same id meets a conflict."""

    tenant: str
    id: str
    body_hash: str
    owner_key: str
    project: str
    user: str
    model: str
    pool: str
    fingerprint: str
    input_tokens: int
    chunk_tokens: int
    deadline_ms: int
    prices: PinnedPrices
    now_ms: int = 0
    limits: Limits = UNLIMITED


@dataclass(frozen=True)
class Remaining:
    """How much of a limit is left, and when it is whole again (None: never by itself). Money in nano-USD."""

    limit: int
    remaining: int
    resets_at_ms: int | None


@dataclass(frozen=True)
class Standing:
    """Of the enforced limits that applied to a request, those with the least left; None: there is none."""

    requests: Remaining | None = None
    tokens: Remaining | None = None
    budget: Remaining | None = None


@dataclass(frozen=True)
class LimitUse:
    """One limit and how much of it is used. `dimension`: a policy's, a budget's period, or `wallet`.

    `spent` is what is posted (money) or taken (units), `held` what open requests hold of money."""

    scope: str
    scope_id: str
    model_glob: str
    dimension: str
    shadow: bool
    hard: bool
    limit: int
    burst: int | None
    spent: int
    held: int
    remaining: int
    resets_at_ms: int | None


@dataclass(frozen=True)
class Admitted:
    """What the request is bound to. `cancelled`: a cancel came first, end it with zero usage. `shadowed`:
    what limits in shadow mode would have answered.

    `dup` says that an admission existed, not that the request reached the queue: its gateway may have died
    between. While `state` is open, enqueue it all the same, which creates or returns."""

    dup: bool
    pool: str
    fingerprint: str
    price_version: int
    prices: PinnedPrices
    cancelled: bool
    granted: int
    state: AdmissionState
    standing: Standing = Standing()
    shadowed: Sequence[Refusal] = ()


@dataclass(frozen=True)
class Directory:
    """What the tenant's slot knows of a request: its binding, owner (project, key, user) and state."""

    tenant: str
    id: str
    body_hash: str
    pool: str
    fingerprint: str
    prices: PinnedPrices
    project: str
    key: str
    user: str
    model: str
    input_tokens: int
    granted: int
    deadline_ms: int
    admitted_ms: int
    cancelled: bool
    state: AdmissionState
    cost_nano: int | None


@dataclass(frozen=True)
class Extension:
    """The answer to `extend`: at most `granted` output tokens may be appended so far.

    `wait_ms`: other holds are open, ask again after it. `refusal`: no more will be granted."""

    granted: int
    wait_ms: int | None = None
    refusal: Refusal | None = None


Settled = Literal["settled", "dup", "unknown"]


@dataclass(frozen=True)
class Canceller:
    """Whose requests a cancel may stop before they come: a key's or a user's in a project, else anyone's."""

    project: str = ""
    key: str = ""
    user: str = ""

    @property
    def member(self) -> str:
        """As admit.lua looks for it."""
        if self.user:
            return f"u:{self.project}:{self.user}"
        return f"k:{self.project}:{self.key}" if self.key else "*"


class Quota:
    """The tenant slot. Stateless: any process may hold one. `db`: where budgets are read from the books."""

    def __init__(self, redis: Client, settings: Settings, db: Database | None = None) -> None:
        self._redis = redis
        self._settings = settings
        self._db = db

    async def admit(self, a: Admission) -> Admitted | Refusal:
        """Bind the request to pool, fingerprint and prices, or return its first binding."""
        keys = [_rq(a.tenant, a.id), _mark(a.tenant, a.id), _open(a.tenant)]
        prices = msgspec.msgpack.encode(a.prices)
        who = (a.id, a.body_hash, _owner(a))
        binding = (a.pool, a.fingerprint, prices, a.project, a.owner_key, a.user, a.model)
        amounts = (a.input_tokens, a.chunk_tokens, UNLIMITED_TOKENS, a.deadline_ms, CONCURRENCY_GRACE_MS)
        attempt = secrets.token_hex(8)
        reply = await _ADMIT(self._redis, keys, [a.now_ms, attempt, *who, *binding, *amounts])
        if reply[0] == b"conflict":
            return Refusal("id_conflict", "this id was used for another request")
        _, dup, pool, fingerprint, packed, cancelled, granted, state = reply
        prices = _prices(packed)
        return Admitted(
            dup=bool(dup),
            pool=pool.decode(),
            fingerprint=fingerprint.decode(),
            price_version=prices.version,
            prices=prices,
            cancelled=bool(cancelled),
            granted=granted,
            state=AdmissionState(state.decode()),
        )

    async def extend(self, tenant: str, id: str, to_tokens: int) -> Extension:
        """Ask that `to_tokens` output tokens in all may be appended. Asking again changes nothing."""
        reply = await _EXTEND(self._redis, [_rq(tenant, id)], [to_tokens])
        match reply:
            case [b"granted", n]:
                return Extension(n)
            case [b"wait", n, after_ms]:
                return Extension(n, wait_ms=after_ms)
            case [b"refused", n, scope, limit]:
                refusal = Refusal(
                    "budget_exceeded", "the budget is used up", scope=scope.decode(), limit=limit
                )
                return Extension(n, refusal=refusal)
            case [b"unknown", _]:
                # Redis lost the admission. Quotas that do not refuse let the answer go on.
                return Extension(to_tokens)
            case _:
                raise AssertionError(f"extend answered {reply!r}")

    async def settle(self, event: UsageEvent, line_seq: int | None = None) -> Settled:
        """Close the request with what it used. Only the first call counts.

        `line_seq`: the last of its lines in the books, where it is in them."""
        keys = [_rq(event.tenant, event.request), _open(event.tenant), posted_key(event.tenant)]
        tokens_in = event.input_uncached + event.input_cached
        tokens_out = event.output_text + event.output_reasoning
        arguments = [event.request, event.cost_nano, tokens_in, tokens_out, SETTLED_KEEP_MS]
        return cast(Settled, (await _SETTLE(self._redis, keys, arguments)).decode())

    async def release(self, tenant: str, id: str) -> bool:
        """Undo an admission that the queue refused; True where there was an open one."""
        keys = [_rq(tenant, id), _open(tenant)]
        return bool(await _RELEASE(self._redis, keys, [id, SETTLED_KEEP_MS]))

    async def rebind(self, tenant: str, id: str, pool: str, hop: int) -> str | None:
        """The request's `hop`th move brought it to `pool`: bind it there, unless a later one has bound it
        already. The pool that it is bound to; None where the directory does not know it."""
        return (await _REBIND(self._redis, [_rq(tenant, id)], [pool, hop])).decode() or None

    async def directory(self, tenant: str, id: str) -> Directory | None:
        """What is known of a request, None for an id that this tenant never had admitted or long ago."""
        client: Any = self._redis
        record: Mapping[bytes, bytes] = await client.hgetall(_rq(tenant, id))
        if not record or record[b"state"] == b"released":
            return None
        return _directory(tenant, id, record)

    async def mark_cancel(self, tenant: str, id: str, canceller: Canceller) -> Directory | None:
        """For a cancel: the record of a known request; None after marking an unknown id for 60 s.

        The mark cancels only a request that is the canceller's."""
        keys = [_rq(tenant, id), _mark(tenant, id)]
        reply: list[bytes] = await _CANCEL(self._redis, keys, [CANCEL_MARK_MS, canceller.member])
        fields = dict(zip(reply[::2], reply[1::2], strict=True))
        return _directory(tenant, id, fields) if fields else None

    async def use(self, tenant: str, limits: Limits, now_ms: int = 0) -> Sequence[LimitUse]:
        """How much of each of these limits is used. Changes nothing."""
        return ()

    async def open_tenants(self) -> set[str]:
        """The tenants that may have open requests."""
        return set()

    async def stale(self, tenant: str, older_than_ms: int = STALE_MS) -> Sequence[tuple[str, str]]:
        """Requests that have been open for longer: (id, pool)."""
        return ()

    async def open_requests(self, tenant: str) -> int:
        """How many requests of the tenant are admitted and not settled."""
        client: Any = self._redis
        return int(await client.zcard(_open(tenant)))


def posted_key(tenant: str) -> str:
    """The hash of a tenant's settled sums: cost_nano, input, output, requests."""
    return f"{{t:{tenant}}}posted"


def _rq(tenant: str, id: str) -> str:
    return f"{{t:{tenant}}}rq:{id}"


def _mark(tenant: str, id: str) -> str:
    return f"{{t:{tenant}}}cancel:{id}"


def _open(tenant: str) -> str:
    return f"{{t:{tenant}}}conc"


def _owner(a: Admission) -> bytes:
    return msgspec.msgpack.encode((a.project, a.owner_key, a.user))


def _prices(packed: bytes) -> PinnedPrices:
    return msgspec.msgpack.decode(packed, type=PinnedPrices)


def _directory(tenant: str, id: str, record: Mapping[bytes, bytes]) -> Directory:
    cost = record.get(b"cost")
    return Directory(
        tenant=tenant,
        id=id,
        body_hash=record[b"hash"].decode(),
        pool=record[b"pool"].decode(),
        fingerprint=record[b"fp"].decode(),
        prices=_prices(record[b"prices"]),
        project=record[b"project"].decode(),
        key=record[b"key"].decode(),
        user=record[b"user"].decode(),
        model=record[b"model"].decode(),
        input_tokens=int(record[b"input"]),
        granted=int(record[b"granted"]),
        deadline_ms=int(record[b"deadline"]),
        admitted_ms=int(record[b"admitted"]),
        cancelled=record[b"cancelled"] != b"0",
        state=AdmissionState(record[b"state"].decode()),
        cost_nano=None if cost is None else int(cost),
    )
