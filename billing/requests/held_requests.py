"""Reads one request's record in the tenant's Redis keys: the money that it holds while it runs, and its
limits."""

from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from billing.quota.bindings import prices_of
from billing.quota.redis_keys import rq_key
from core.operations import MoneyAmount
from core.redis.client import RedisClient
from core.redis.members import readable, reading
from core.redis.unreadable import Unreadable, read

MONEY = "money"
TENANTS_AT_ONCE = 500


class CountedIn(msgspec.Struct, frozen=True):
    """A limit that a request counts in: kind `money`, `rate` or `conc`, its scope, and its subject (a
    budget's period, or a policy's models and dimension). `shadow`: it refuses nothing."""

    kind: str
    scope: str
    scope_id: str
    of: str
    shadow: bool


class HeldRequest(msgspec.Struct, frozen=True):
    """Redis' record of an admitted request. `state`: open, ended, or released where the queue did not take
    it. `granted`: output tokens allowed so far (it asks for more as it comes near); `held`: money held in
    each of its budgets and in the wallet."""

    state: str
    pool: str
    project: str
    key: str
    user_id: str
    model: str
    input_tokens: int
    granted: int
    held: MoneyAmount
    admitted_ms: int
    deadline_ms: int
    cancelled: bool
    book: str
    version: int
    counted_in: list[CountedIn]


async def tenants_holding(redis: RedisClient, tenants: Sequence[str], request_id: str) -> list[str]:
    """Those of the tenants that have a record of this request id in Redis. For operators."""
    found = list[str]()
    for at in range(0, len(tenants), TENANTS_AT_ONCE):
        some = tenants[at : at + TENANTS_AT_ONCE]
        pipeline = redis.pipeline(transaction=False)
        for tenant in some:
            pipeline.hexists(rq_key(tenant, request_id), "state")
        replies = await pipeline.execute(raise_on_error=False)
        found += [tenant for tenant, known in readable(f"rq:{request_id}", some, replies) if known]
    return found


async def held_of(redis: RedisClient, tenant_id: str, request_id: str) -> HeldRequest | Unreadable | None:
    """Read a request's record; None where there is none: it was never admitted, or ended some time ago."""
    key = rq_key(tenant_id, request_id)
    record: dict[bytes, bytes] = await reading(key, redis.hgetall(key), {})
    return read("a directory record", _held, record) if record else None


def _held(record: dict[bytes, bytes]) -> HeldRequest:
    prices = prices_of(record[b"prices"])
    state = record[b"state"].decode()
    return HeldRequest(
        state=state,
        pool=record[b"pool"].decode(),
        project=record[b"project"].decode(),
        key=record[b"by"].decode(),
        user_id=record[b"user"].decode(),
        model=record[b"model"].decode(),
        input_tokens=int(record[b"input"]),
        granted=int(record[b"granted"]),
        held=MoneyAmount.of(int(record[b"hold"])),
        admitted_ms=int(record[b"admitted"]),
        deadline_ms=int(record[b"deadline"]),
        cancelled=record[b"cancelled"] != b"0",
        book=prices.book,
        version=prices.version,
        counted_in=counted_in(record[b"limits"]) if state == "open" else [],
    )


def counted_in(packed: bytes) -> list[CountedIn]:
    """Decode the limits in a record. Raises ValueError where they are not in the form that `admit` writes.
    Pure."""
    rates, concurrency, money, *_ = msgspec.msgpack.decode(packed)
    return [_counted(str(limit[0])) for limit in (*money, *rates, *concurrency)]


def _counted(key: str) -> CountedIn:
    kind, scope, id, *rest = key.split(":")
    said = [unquote(each) for each in rest]
    of = said[0] if kind.startswith(MONEY) else " ".join(each for each in said if each != "*")
    return CountedIn(kind.rstrip("~"), scope, unquote(id), of, kind.endswith("~"))
