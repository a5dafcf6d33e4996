"""Requests that this gateway follows: hints of the pools, passed on to the readers of each request here.

Hints are news, never the source: a quiet request is looked up once a second, which also registers this
gateway as its reader again, should the pool have dropped it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from redis.exceptions import RedisError

from core.clock import monotonic
from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.pools import HOPS_MAX, announce_pool, known_pools
from core.redis.unreadable import ERRORS
from core.runtime.failed_rounds import logged_failures
from core.tasks import EndingTaskGroup, TaskSet
from engine.api import Entry, EntryKind, Hint, HintChannel, MigrationOrder, ReaderState, RequestStatus
from server.models.catalogue import Catalogue
from server.pools.gateway_pools import GatewayPools

RENEW_SECONDS = 1.0
POLLS_AT_ONCE_MAX = 32

log = logger(__name__)
repeated = RepeatedWarning(log)


class LogListener(Protocol):
    """A reader of a request."""

    def news(self, entries: list[Entry], head: int) -> None:
        """Take entries, perhaps not all there are, and the log's head."""
        ...

    def broken(self) -> None:
        """Note that the log is not the one that was read: lost, or begun again."""
        ...


class RequestName(NamedTuple):
    """A request in its pool."""

    pool: str
    tenant: str
    id: str


class FollowedRequest:
    """One request with readers at this gateway."""

    def __init__(self, name: RequestName) -> None:
        self.name = name
        self.head = 0
        self.epoch: int | None = None
        self.ended = False
        self.heard_at = monotonic()
        self.successor: FollowedRequest | None = None  # after a move of a request followed under both names
        self.listeners: dict[object, LogListener] = {}
        self.holders: set[object] = set()
        self.stuck: set[object] = set()

    @property
    def state(self) -> ReaderState:
        """State of this gateway's readers: stuck where all of them are."""
        return "stuck" if self.holders and self.stuck >= self.holders else "reading"

    def news(self, entries: list[Entry], head: int) -> None:
        """Pass news to the listeners."""
        self.heard_at = monotonic()
        self.head = max(self.head, head)
        self.ended = self.ended or any(entry.k is EntryKind.END for entry in entries)
        for listener in list(self.listeners.values()):
            listener.news(entries, self.head)

    def seen(self, epoch: int) -> None:
        """Note that the pool knows the request, in this epoch."""
        before, self.epoch = self.epoch, epoch
        if before not in (None, epoch):
            self.broken()

    def take_over(self, other: "FollowedRequest") -> None:
        """Take over the readers of the same request under its former name."""
        other.successor = self
        if None not in (self.epoch, other.epoch) and self.epoch != other.epoch:
            other.broken()
        self.listeners |= other.listeners
        self.holders |= other.holders
        self.stuck |= other.stuck

    def broken(self) -> None:
        """Tell the listeners that the log they read is gone."""
        self.head, self.ended = 0, False
        for listener in list(self.listeners.values()):
            listener.broken()


class Subscriptions:
    """All requests that are followed here. One task runs it."""

    def __init__(
        self, redis: RedisClient, settings: Settings, pools: GatewayPools, catalogue: Catalogue
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._pools = pools
        self._catalogue = catalogue
        self._hints = HintChannel(redis, pools.gateway)
        self._followed: dict[RequestName, FollowedRequest] = {}
        self._telling = TaskSet()
        self._joined: set[str] = set()

    async def start(self) -> None:
        """Listen to every existing pool."""
        for pool in sorted({*self._pools.queues, *await self._catalogue.pools()}):
            await self.announce(pool)
        for pool in sorted(await known_pools(self._redis, self._settings)):
            await self.follow(pool)

    async def announce(self, pool: str) -> None:
        """Register a pool of the settings or of SQL, and listen, before any request goes there."""
        if pool not in self._joined:
            await announce_pool(self._redis, self._settings, pool)
            await self._join(pool)

    async def follow(self, pool: str) -> bool:
        """Listen to a pool, before any request there registers this gateway as its reader. False: there is no
        such pool, so a worker made its name up."""
        if pool not in self._joined:
            if pool not in await known_pools(self._redis, self._settings):
                repeated.warning("reading.pool_unknown")
                return False
            await self._join(pool)
        return True

    async def _join(self, pool: str) -> None:
        await self._hints.follow(pool)
        await self._pools.queues[pool].renew_gateway(self._pools.gateway)
        self._pools.serve(pool)
        self._joined.add(pool)

    async def run(self) -> None:
        """Take hints, poll, and keep the gateway's leases, for ever."""
        try:
            async with EndingTaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._every(self._settings.poll_interval_seconds, self._poll))
                group.create_task(self._every(RENEW_SECONDS, self._renew))
        finally:
            await self._hints.close()

    async def close(self) -> None:
        """Stop listening; again is harmless."""
        await self._hints.close()

    def join(self, name: RequestName, holder: object) -> FollowedRequest:
        """Follow a request for a reader; call it before registering with the pool."""
        followed = self._followed.get(name)
        if followed is None:
            followed = self._followed[name] = FollowedRequest(name)
        before = followed.state
        followed.holders.add(holder)
        if before != followed.state:
            self._tell(followed)
        return followed

    def report(self, name: RequestName, holder: object, stuck: bool) -> None:
        """Note that a reader is stuck or reads again. The pool is told where that changes our state."""
        followed = self._followed.get(name)
        if followed is None or holder not in followed.holders:
            return
        before = followed.state
        (followed.stuck.add if stuck else followed.stuck.discard)(holder)
        if before != followed.state:
            self._tell(followed)

    def leave(self, name: RequestName, holder: object) -> None:
        """Remove a reader. The pool is told where it was the last."""
        followed = self._followed.get(name)
        if followed is None:
            return
        before = followed.state
        followed.holders.discard(holder)
        followed.stuck.discard(holder)
        followed.listeners.pop(holder, None)
        if not followed.holders:
            del self._followed[name]
            if not followed.ended:
                self._telling.start(self._tell_gone(name))
        elif before != followed.state:
            self._tell(followed)

    @property
    def work(self) -> set[asyncio.Task[Any]]:
        """Pending reports to pools."""
        return self._telling.running

    def __len__(self) -> int:
        return len(self._followed)

    async def _listen(self) -> None:
        async for hint in self._hints:
            with logged_failures(log, "reading.hint_failed", pool=hint.pool):
                self._take(hint)

    def _take(self, hint: Hint) -> None:
        followed = self._followed.get(RequestName(hint.pool, hint.tenant, hint.id))
        if followed is None:
            return
        if followed.epoch not in (None, hint.epoch):
            self._telling.start(
                self._tell_state(followed)
            )  # the log has begun again: these entries are of another
            return
        followed.news(hint.entries, hint.head)
        if hint.dest:
            self._telling.start(self._tell_state(followed))  # the reply tells where the request is now

    def _tell(self, followed: FollowedRequest) -> None:
        if not followed.ended:
            self._telling.start(self._tell_state(followed))

    async def _tell_state(self, followed: FollowedRequest) -> None:
        """Report the readers' state to the pool. A lost report is repeated by the next poll."""
        try:
            await self._look_at(followed)
        except (RedisError, OSError) as error:
            log.warning("reading.state_report_failed", error=type(error).__name__)

    async def _tell_gone(self, name: RequestName) -> None:
        if name in self._followed:
            return
        try:
            await self._pools.queues[name.pool].reader(name.tenant, name.id, self._pools.gateway, "gone")
        except (RedisError, OSError) as error:
            log.warning("reading.leave_failed", error=type(error).__name__)

    async def _every(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            with logged_failures(log, "reading.run_failed"):
                try:
                    await step()
                except (RedisError, OSError) as error:
                    log.warning("reading.run_failed", error=type(error).__name__)
            await asyncio.sleep(seconds)

    async def _poll(self) -> None:
        quiet_since = monotonic() - self._settings.poll_interval_seconds
        due = [f for f in self._followed.values() if not f.ended and f.heard_at <= quiet_since]
        for at in range(0, len(due), POLLS_AT_ONCE_MAX):
            await asyncio.gather(*(self._look_at(followed) for followed in due[at : at + POLLS_AT_ONCE_MAX]))

    async def _look_at(self, followed: FollowedRequest) -> None:
        """Look a request up. A record that cannot be read does not keep the others waiting."""
        try:
            await self._look(followed)
        except ERRORS as error:
            repeated.warning("reading.record_unreadable", pool=followed.name.pool, error=error_summary(error))

    async def _look(self, followed: FollowedRequest, hops: int = 0) -> None:
        name = followed.name
        queue = self._pools.queues[name.pool]
        view = await queue.reader(name.tenant, name.id, self._pools.gateway, followed.state)
        if self._followed.get(name) is not followed:
            return
        if view is not None and view.status is RequestStatus.MOVED:
            await self._read_on(followed, view.order, hops + 1)
        elif view is not None:
            followed.seen(view.epoch)
            followed.ended = followed.ended or view.ended
            followed.news([], view.head)
        elif followed.epoch is not None:
            followed.epoch = None  # told only once
            followed.broken()

    async def _read_on(self, followed: FollowedRequest, order: MigrationOrder, hops: int) -> None:
        """Follow a request that has moved: register in its new pool; its readers go on at their cursors."""
        name, pool = followed.name, order.dest
        ordered = self._pools.is_ordered(*name, order)
        if not ordered or hops > HOPS_MAX or not await self.follow(pool):
            followed.broken()
            return
        if self._followed.get(name) is not followed:
            return
        del self._followed[name]
        there = self._followed.setdefault(name._replace(pool=pool), followed)
        if there is followed:
            followed.name = name._replace(pool=pool)
        else:
            there.take_over(followed)
        await self._look(there, hops)

    async def _renew(self) -> None:
        for pool in sorted(self._joined):
            if not await self._pools.queues[pool].renew_gateway(self._pools.gateway):
                log.warning("gateway.lease_lapsed", pool=pool)
                await announce_pool(self._redis, self._settings, pool)  # Redis may have lost its name too
                mine = [f for f in self._followed.values() if f.name.pool == pool and not f.ended]
                for followed in mine:
                    await self._look_at(followed)
