"""Answers while they move: each one's state, how long its readers waited, and that none is lost or doubled.

A pause begins when the move of an answer does and ends with its next token in the other pool. Lost: neither
pool knows it; doubled: both would go on with it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum

import msgspec

from core.clock import monotonic
from core.redis import redis_errors
from core.redis.members import readable, whole
from engine.operations.emptying import GONE, MigrationFollower
from engine.operations.inspection import InspectedRequest
from engine.operations.migration_preview import MigrationOutcome
from engine.queue import redis_keys
from engine.queue.client import PoolQueue
from engine.request import RequestStatus

LOOK_SECONDS = 0.05
RESUME_SECONDS_MAX = 5.0
SHOWN_MAX = 200
PAGE = 500
STORE_ERRORS = (redis_errors.RedisError, OSError)
OPEN = (RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.PARKED)

Key = tuple[str, str]  # tenant and id


class MovedStreamState(StrEnum):
    """Where an answer is. Waits: it is in the other pool and has no token there yet; stays: it cannot move;
    ended: before it was its turn."""

    NEXT = "next"
    MOVING = "moving"
    WAITS = "waits"
    MOVED = "moved"
    STAYS = "stays"
    ENDED = "ended"


class MovedStream(msgspec.Struct):
    """A running answer. `pause_ms`: for how long its readers waited, None: it has not paused yet, or still
    does; `why`: the reason why it stays."""

    id: str
    state: MovedStreamState
    pause_ms: int | None = None
    why: str = ""


class _Record(msgspec.Struct, frozen=True):
    """What a pool has of a request: an empty status where nothing; `tokens`: said so far."""

    status: str
    tokens: int


class MovedStreams(MigrationFollower):
    """The answers of one move. `changed` is called when one of them has."""

    def __init__(self, source: PoolQueue, dest: PoolQueue, changed: Callable[[], None]) -> None:
        self.rows: dict[Key, MovedStream] = {}
        self.lost: set[Key] = set()
        self.doubled: set[Key] = set()
        self.longest_pause_ms: int | None = None
        self._source, self._dest, self._changed = source, dest, changed
        self._began: dict[Key, float] = {}
        self._resumes: dict[Key, int | None] = {}  # from its tokens when it left, None: not read yet
        self._moved: list[Key] = []

    @property
    def shown(self) -> list[MovedStream]:
        """Some of the answers, those in trouble and under way first."""
        order = list(MovedStreamState)
        first = (MovedStreamState.MOVING, MovedStreamState.WAITS, MovedStreamState.STAYS)
        by = sorted(self.rows.values(), key=lambda row: (row.state not in first, order.index(row.state)))
        kept = {id(row) for row in by[:SHOWN_MAX]}
        return [row for row in self.rows.values() if id(row) in kept]

    def count(self, *states: MovedStreamState) -> int:
        """How many are in one of these states."""
        return sum(row.state in states for row in self.rows.values())

    def listed(self, rows: list[InspectedRequest]) -> None:
        """Those that run are followed."""
        for row in rows:
            if row.status in (RequestStatus.RUNNING, RequestStatus.MOVING):
                self.rows.setdefault((row.tenant, row.id), MovedStream(row.id, MovedStreamState.NEXT))
        self._changed()

    def begins(self, row: InspectedRequest) -> None:
        """Its pause begins."""
        if stream := self.rows.get((row.tenant, row.id)):
            stream.state = MovedStreamState.MOVING
            self._began[row.tenant, row.id] = monotonic()

    def ends(self, row: InspectedRequest, outcome: MigrationOutcome) -> None:
        """It is in the other pool, or is not."""
        key = (row.tenant, row.id)
        if outcome.moved:
            self._moved.append(key)
        if (stream := self.rows.get(key)) is None:
            return
        if outcome.moved:
            stream.state, self._resumes[key] = MovedStreamState.WAITS, None
        elif outcome.reason in GONE:
            stream.state = MovedStreamState.ENDED
        else:
            stream.state, stream.why = MovedStreamState.STAYS, outcome.message

    async def watch(self) -> None:
        """Look again and again which go on, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(*STORE_ERRORS):  # the move itself tells it
                await self.look()

    async def settle(self) -> None:
        """Wait for those that are to go on soon, then look once where all are that moved. Where Redis does
        not answer then, they stay as they were seen last."""
        until = monotonic() + RESUME_SECONDS_MAX
        with suppress(*STORE_ERRORS):
            while self._resumes and monotonic() < until:
                await self.look()
                await asyncio.sleep(LOOK_SECONDS)
            await self._judge_all()
        self._changed()

    async def _judge_all(self) -> None:
        for at in range(0, len(self._moved), PAGE):
            page = self._moved[at : at + PAGE]
            left, arrived = await self._records(self._source, page), await self._records(self._dest, page)
            for key, before, now in zip(page, left, arrived, strict=True):
                self._judge(key, before, now)

    async def look(self) -> None:
        """See which of those that moved have said more than before."""
        keys = list(self._resumes)
        unread = [key for key in keys if self._resumes[key] is None]
        for key, before in zip(unread, await self._records(self._source, unread), strict=True):
            self._resumes[key] = before.tokens
        for key, now in zip(keys, await self._records(self._dest, keys), strict=True):
            if now.status not in OPEN or now.tokens > (self._resumes[key] or 0):
                self._goes_on(key)

    def _goes_on(self, key: Key) -> None:
        del self._resumes[key]
        pause_ms = round(1000 * (monotonic() - self._began[key]))
        self.longest_pause_ms = max(pause_ms, self.longest_pause_ms or 0)
        self.rows[key].state, self.rows[key].pause_ms = MovedStreamState.MOVED, pause_ms
        self._changed()

    def _judge(self, key: Key, before: _Record, now: _Record) -> None:
        here = before.status in OPEN
        if not now.status and not here:
            self.lost.add(key)
        if now.status in OPEN and here:
            self.doubled.add(key)

    async def _records(self, queue: PoolQueue, keys: Sequence[Key]) -> list[_Record]:
        if not keys:
            return []
        pipeline = queue.redis.pipeline(transaction=False)
        for tenant, request in keys:
            pipeline.hmget(redis_keys.record(queue.pool, tenant, request), ("status", "n"))
        replies = await pipeline.execute(raise_on_error=False)
        got = dict(readable(f"{{p:{queue.pool}}}req:", range(len(keys)), replies))
        return [_record(got.get(at) or (None, None)) for at in range(len(keys))]


def _record(fields: Sequence[bytes | None]) -> _Record:
    status, tokens = fields
    return _Record((status or b"").decode(errors="replace"), whole(tokens))
