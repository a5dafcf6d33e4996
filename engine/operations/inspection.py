"""Operators' views of a pool: workers, requests, lines. Reads only, and never prompts or answers.

Every read is bounded: by the page, by `limit`, or by what a pool's workers can hold.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from billing import usage
from billing.usage import RequestPhase
from core.redis.members import names, readable, reading
from core.redis.unreadable import Unreadable, read, whole_part
from engine.node.reports import PoolNodes
from engine.operations.tenant_rows import TenantRow, tenant_rows
from engine.operations.worker_rows import WorkerRow, registered, unregistered, with_gpu
from engine.queue import redis_keys
from engine.queue.client import PoolQueue
from engine.queue.phases import read_phases
from engine.request import PriorityClass, RequestStatus

PAGE = 500
SCANNED_MAX = 50_000
ENDED_SCANNED_MAX = 5_000
OPEN_LINES = ("moving", "deadlines")  # what has not ended, and in which order it is listed
LISTED = (
    *("status", "class", "lane", "worker", "model", "cn", "prompt", "n", "o"),
    *("accepted", "claimed", "first", "deadline"),
)
DETAILED = (
    *LISTED,
    *("warm", "fingerprint", "epoch", "visible", "granted", "cached", "covered", "recomputed", "deaths"),
    *("preempts", "control", "dest", "phases"),
)


class InspectedRequest(msgspec.Struct, frozen=True):
    """One request that has not ended, or one that has and is still known. Times are Unix ms, 0 where never
    reached; `tokens` counts sampled ids, `log_head` log entries."""

    tenant: str
    id: str
    pool: str
    status: str
    priority: str
    lane: str
    worker: str
    model: str
    claims: int
    prompt_tokens: int
    tokens: int
    log_head: int
    accepted_ms: int
    claimed_ms: int
    first_token_ms: int
    deadline_ms: int
    reason: str = ""


class OpenPosition(NamedTuple):
    """Where a request stands among those of all pools that have not ended: `rank` 0 while it moves, then the
    nearest deadline."""

    rank: int
    until_ms: float
    pool: str
    tenant: str
    id: str


class RequestDetail(msgspec.Struct, frozen=True):
    """Everything about one request but its texts. `older`: requests of its class that wait longer, None where
    it does not wait; `readers`: gateway -> reading | stuck; `log_first`: the oldest entry kept; `parked_ms`:
    when it was parked, 0 where it is not; `phases`: of its life so far."""

    row: InspectedRequest
    warm: str
    fingerprint: str
    epoch: int
    visible: int
    covered: int
    granted: int
    input_cached: int
    recomputed_tokens: int
    deaths: int
    preempts: int
    control: int
    moved_to: str
    older: int | None
    log_first: int | None
    readers: dict[str, str]
    now_ms: int
    parked_ms: int = 0
    phases: list[RequestPhase] = []


class ClassRow(msgspec.Struct, frozen=True):
    """One class. `oldest_ms`: waiting time of its oldest request."""

    priority: str
    waiting: int
    running: int
    oldest_ms: int


class PoolSnapshot(msgspec.Struct, frozen=True):
    """A pool now. `tenants`: those with most in hand, at most 64 a class."""

    pool: str
    at_ms: int
    parked: int
    classes: list[ClassRow]
    tenants: list[TenantRow]
    workers: list[WorkerRow]


class Inspection:
    """Looks at one pool."""

    def __init__(self, queue: PoolQueue) -> None:
        self._queue = queue
        self._redis = queue.redis
        self._pool = queue.pool
        self.nodes = PoolNodes(queue)

    async def workers(self) -> list[WorkerRow]:
        """Registered workers, and supervisors' reports of workers that are not registered."""
        now, views, reports = (
            await self._queue.now_ms(),
            await self._queue.workers(),
            await self.nodes.reports(),
        )
        places = {slot.worker: (report, slot) for report in reports for slot in report.slots}
        draining = await self.nodes.draining([view.worker for view in views])
        rows: list[WorkerRow] = []
        for view in views:
            report, slot = places.pop(view.worker, (None, None))
            rows.append(with_gpu(registered(view, slot, view.worker in draining, now), report, slot))
        rows += [with_gpu(unregistered(*place), *place) for place in places.values()]
        return sorted(rows, key=lambda row: (row.node, row.worker))

    async def requests(
        self, tenant: str | None, status: RequestStatus | None, limit: int
    ) -> list[InspectedRequest]:
        """Requests of this pool, those that have not ended unless `status` says so. Migrating ones come
        first, then the nearest deadline; ended ones by the latest end."""
        if status is RequestStatus.ENDED:
            return await self._ended(tenant, limit)
        rows: list[InspectedRequest] = []
        for line in OPEN_LINES:
            for start in range(0, SCANNED_MAX, PAGE):
                key = self._key(line)
                found = await reading(key, self._redis.zrange(key, start, start + PAGE - 1), [])
                members = [redis_keys.split_member(name) for name in names(key, found)]
                wanted = [member for member in members if tenant in (None, member[0])]
                rows += [row for row in await self.rows(wanted) if status in (None, row.status)]
                if len(rows) >= limit or len(found) < PAGE:
                    break
        return rows[:limit]

    async def first_open(self, limit: int) -> list[OpenPosition]:
        """The first of those that have not ended, in the order of `requests`."""
        positions = list[OpenPosition]()
        for rank, line in enumerate(OPEN_LINES):
            key = self._key(line)
            found = await reading(key, self._redis.zrange(key, 0, limit - 1, withscores=True), [])
            for raw, until_ms in found:
                members = [redis_keys.split_member(name) for name in names(key, [raw])]
                positions += [OpenPosition(rank, until_ms, self._pool, *member) for member in members]
        return positions[:limit]

    async def rows(self, members: Sequence[tuple[str, str]]) -> list[InspectedRequest]:
        """Those of these requests that the pool knows, (tenant, id), in their order."""
        found = zip(members, await self._records(members), strict=True)
        return [_row(self._pool, *member, fields) for member, fields in found if fields["status"]]

    async def find(self, id: str, tenant: str | None) -> tuple[str, str] | None:
        """(tenant, id) of a request that this pool still knows. Without a tenant every key is looked at."""
        if tenant is not None:
            return (
                (tenant, id) if await self._redis.exists(redis_keys.record(self._pool, tenant, id)) else None
            )
        if not id or any(not (c.isascii() and (c.isalnum() or c in "-_.")) for c in id):
            return None
        pattern = f"{{p:{_literal(self._pool)}}}req:*:{id}"
        async for name in self._redis.scan_iter(match=pattern, count=1000):
            return redis_keys.split_member(name.decode(errors="replace").partition("req:")[2])
        return None

    async def request(self, tenant: str, id: str) -> RequestDetail | None:
        """One request; None where the pool does not know it."""
        (fields,) = await self._records([(tenant, id)], DETAILED)
        if not fields["status"]:
            return None
        older = None
        if fields["status"] == RequestStatus.QUEUED:
            line = self._key(f"age:{fields['class']}")
            older = await reading(line, self._redis.zrank(line, redis_keys.member(tenant, id)), None)
        parked, since = self._key("parked"), None
        if fields["status"] == RequestStatus.PARKED:
            since = await reading(parked, self._redis.zscore(parked, redis_keys.member(tenant, id)), None)
        log, rd = redis_keys.log(self._pool, tenant, id), self._key(f"rd:{redis_keys.member(tenant, id)}")
        first = await reading(log, self._redis.xrange(log, count=1), [])
        readers = await reading(rd, self._redis.hgetall(rd), dict[bytes, bytes]())
        return RequestDetail(
            row=_row(self._pool, tenant, id, fields),
            warm=fields["warm"],
            fingerprint=fields["fingerprint"],
            epoch=_number(fields["epoch"]),
            visible=_number(fields["visible"]),
            covered=_number(fields["covered"]),
            granted=_number(fields["granted"]),
            input_cached=_number(fields["cached"]),
            recomputed_tokens=_number(fields["recomputed"]),
            deaths=_number(fields["deaths"]),
            preempts=_number(fields["preempts"]),
            control=_number(fields["control"]),
            moved_to=fields["dest"],
            older=older,
            log_first=int(first[0][0].partition(b"-")[0]) if first else None,
            readers={_text(gateway): _text(state) for gateway, state in readers.items()},
            now_ms=await self._queue.now_ms(),
            parked_ms=whole_part(since or 0),
            phases=[RequestPhase(*phase) for phase in read_phases(fields["phases"])],
        )

    async def snapshot(self) -> PoolSnapshot:
        """The pool's state now."""
        now, workers = await self._queue.now_ms(), await self.workers()
        held = [member for row in workers if row.claims for member in await self._queue.claimed(row.worker)]
        classes = Counter(fields["class"] for fields in await self._records(held))
        parked = self._key("parked")
        return PoolSnapshot(
            pool=self._pool,
            at_ms=now,
            parked=await reading(parked, self._redis.zcard(parked), 0),
            classes=[await self._class(each, classes[each.value], now) for each in PriorityClass],
            tenants=await tenant_rows(self._redis, self._pool, Counter(tenant for tenant, _ in held)),
            workers=workers,
        )

    async def _class(self, priority: PriorityClass, running: int, now: int) -> ClassRow:
        line = self._key(f"age:{priority}")
        oldest = await reading(line, self._redis.zrange(line, 0, 0, withscores=True), [])
        waited = max(0, now - whole_part(oldest[0][1]) // 1000) if oldest else 0
        return ClassRow(priority.value, await reading(line, self._redis.zcard(line), 0), running, waited)

    async def _ended(self, tenant: str | None, limit: int) -> list[InspectedRequest]:
        """Ended requests from their stream, as far back as it reaches."""
        raw = await self._redis.xrevrange(usage.ended_stream(self._pool), count=ENDED_SCANNED_MAX)
        events = [event for _, fields in raw if (event := _event(fields)) is not None]
        events = [event for event in events if tenant in (None, event.tenant)][:limit]
        records = await self._records([(event.tenant, event.request) for event in events])
        return [_ended_row(event, fields) for event, fields in zip(events, records, strict=True)]

    async def _records(
        self, members: Sequence[tuple[str, str]], fields: Sequence[str] = LISTED
    ) -> list[dict[str, str]]:
        """The records' fields; an empty status where there is none."""
        if not members:
            return []
        pipeline = self._redis.pipeline(transaction=False)
        for tenant, id in members:
            pipeline.hmget(redis_keys.record(self._pool, tenant, id), fields)
        records = await pipeline.execute(raise_on_error=False)
        found = dict(readable(self._key("req:"), range(len(members)), records))
        nothing = [None] * len(fields)
        return [
            {name: _text(value) for name, value in zip(fields, found.get(at, nothing), strict=True)}
            for at in range(len(members))
        ]

    def _key(self, name: str) -> str:
        return f"{{p:{self._pool}}}{name}"


def _row(pool: str, tenant: str, id: str, fields: Mapping[str, str]) -> InspectedRequest:
    return InspectedRequest(
        tenant=tenant,
        id=id,
        pool=pool,
        status=fields["status"],
        priority=fields["class"],
        lane=fields["lane"],
        worker=fields["worker"],
        model=fields["model"],
        claims=_number(fields["cn"]),
        prompt_tokens=_number(fields["prompt"]),
        tokens=_number(fields["n"]),
        log_head=_number(fields["o"]),
        accepted_ms=_number(fields["accepted"]),
        claimed_ms=_number(fields["claimed"]),
        first_token_ms=_number(fields["first"]),
        deadline_ms=_number(fields["deadline"]),
    )


def _ended_row(event: usage.UsageEvent, fields: Mapping[str, str]) -> InspectedRequest:
    known = _row(event.pool, event.tenant, event.request, fields)
    return msgspec.structs.replace(
        known,
        status=RequestStatus.ENDED.value,
        model=event.model,
        claims=event.claims,
        accepted_ms=event.accepted_ms,
        claimed_ms=event.claimed_ms,
        first_token_ms=event.first_token_ms,
        tokens=max(known.tokens, event.output_text),
        prompt_tokens=max(known.prompt_tokens, event.input_uncached + event.input_cached),
        reason=event.code or event.reason,
    )


def _event(fields: Mapping[bytes, bytes]) -> usage.UsageEvent | None:
    """The usage event of a stream's entry; None where it cannot be read, of which the biller warns."""
    event = usage.read_event(fields.get(usage.ENDED_FIELD.encode(), b""))
    return None if isinstance(event, Unreadable) else event


def _number(value: str) -> int:
    return whole_part(read("number", float, value or "0"))


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _literal(name: str) -> str:
    """A name with the signs of a glob pattern escaped."""
    return "".join(f"\\{c}" if c in "*?[]\\^" else c for c in name)
