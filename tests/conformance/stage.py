"""Where gateway cases are played: real gateways, shared by cases of the same settings, and one tenant a case.

A gateway's worker, where it has one, is scripted anew for each case.
"""

import json
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec

from billing.api import (
    ApiKey,
    Quota,
    create_key,
    create_project,
    create_tenant,
    revoke_key,
    set_budget,
    set_policy,
)
from chaos.injected.scripted import NextToken, ScriptedEngine
from core.clock import now_ms
from core.ids import uuid7
from core.sql.database import Database
from engine.api import Control, EndReason, EntryKind, PolicyStore, RequestStatus, end_unclaimed
from server.conversations.store import ConversationStore
from server.conversations.tables import MessageStatus
from tests.conformance.cases import Case, KeyFacts, WorkerScript
from tests.conformance.ledger import Answers
from tests.conformance.line import GatewayLine, connected
from tests.conformance.values import BadCase
from tests.engine.workers import PoolWorkers
from tests.server.site import Site, running_site, saying
from tests.support.home import settings_in, short_folder
from tests.support.patience import wait_until
from tests.support.redis import Redis

OWN = "own"
HTTP_SECONDS_MAX = 20.0
# All cases come from one address, and many of them show a token that is wrong.
WRONG_OFTEN: dict[str, Any] = {"failed_signins_per_address_per_minute": 0}


def scripted(script: WorkerScript, engine: Callable[[], ScriptedEngine]) -> NextToken:
    """Says the script's text to every prompt; at `holds_after` tokens of it the engine stops."""
    say = saying(script.text)
    if script.holds_after is None:
        return say
    left = script.holds_after

    def next_token(context: Sequence[int]) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            engine().hang()
        return say(context)

    return next_token


def direct(engine: ScriptedEngine, script: WorkerScript) -> None:
    """Give a running engine a new script."""
    engine.resume()
    engine.step_seconds = script.step_ms / 1000
    engine.next_token = scripted(script, lambda: engine)


@dataclass
class House:
    """A running gateway and its worker's engine, None where it has no worker. `shared`: the tenant and key of
    cases that need no others."""

    site: Site
    engine: ScriptedEngine | None = None
    shared: "TenantContext | None" = None


@dataclass
class TenantContext:
    """One case's tenant on a house."""

    house: House
    tenants: dict[str, str] = field(default_factory=dict[str, str])
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    sent: set[str] = field(default_factory=set[str])
    is_exact: bool = False
    _keys: dict[str, ApiKey] = field(default_factory=dict[str, ApiKey])
    _projects: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _worker: str = ""
    _workers: AsyncExitStack = field(default_factory=AsyncExitStack)

    def connected(
        self, headers: dict[str, str], offered: list[str], answers: Answers
    ) -> AbstractAsyncContextManager[GatewayLine]:
        """See runner.Stage."""
        return connected(self.house.site.url, headers, offered, answers)

    async def http(self, method: str, path: str, *, headers: dict[str, str], json: Any) -> httpx.Response:
        """See runner.Stage."""
        async with httpx.AsyncClient(timeout=HTTP_SECONDS_MAX, trust_env=False, verify=False) as client:
            return await client.request(method, self.house.site.url + path, headers=headers, json=json)

    def drain(self) -> None:
        """See runner.Stage."""
        self.house.site.stop.set()

    async def make_key(self, name: str, facts: KeyFacts) -> None:
        """A key as a case describes it; its tenant and project where they are not there yet."""
        db = self.house.site.database
        if facts.tenant not in self.tenants:
            made = await create_tenant(db, f"{facts.tenant} {uuid7(now_ms())}")
            self.tenants[facts.tenant] = made.tenant_id
        tenant = self.tenants[facts.tenant]
        place = (facts.tenant, facts.project)
        if place not in self._projects:
            self._projects[place] = (await create_project(db, tenant, facts.project)).id
        more: dict[str, Any] = {}
        if facts.scopes is not None:
            more["scopes"] = facts.scopes
        if facts.priority_max is not None:
            more["priority_max"] = facts.priority_max
        row, secret = await create_key(
            db, tenant, self._projects[place], user=facts.user, shared=not facts.user, **more
        )
        if facts.expires_in_ms is not None:
            async with db.transaction() as session:  # keys are not made with an end in the past
                row.expires_ms = now_ms() + facts.expires_in_ms
                session.add(row)
        self._keys[name], self.secrets[name] = row, secret

    async def limit(self, case: Case) -> None:
        """Set the case's limits for its own tenant."""
        site, tenant = self.house.site, self.tenants[OWN]
        for each in case.setup.limits:
            facts: dict[str, Any] = msgspec.structs.asdict(each)
            await set_policy(site.database, site.redis, tenant, **facts)
        for money in case.setup.budgets:
            facts = {"scope": money.scope, "period": money.period, "limit_nano": money.nano}
            await set_budget(site.database, site.redis, tenant, **facts)
        if case.setup.policy is not None:
            store = PolicyStore(site.database)
            await store.set(site.redis, tenant, "", case.setup.policy, "of a case")

    def tenant_of(self, token: str) -> str:
        """Which of the case's tenants a token is of; the own one for what is no key."""
        names = [name for name, secret in self.secrets.items() if secret == token]
        return self._keys[names[0]].tenant_id if names else self.tenants[OWN]

    async def revoke(self, name: str) -> None:
        """Revoke one of the case's keys."""
        site, key = self.house.site, self._keys[name]
        await revoke_key(site.database, site.redis, key.tenant_id, key.id)

    async def start_worker(self, script: WorkerScript) -> None:
        """A worker of the case's own comes."""
        if self.house.engine is not None:
            raise BadCase("a worker is there already: say `worker: none` in the setup")
        engine = ScriptedEngine(saying(""))
        direct(engine, script)
        running = await self._workers.enter_async_context(self.house.site.crew.worker(engine))
        self._worker = running.name
        self.house.engine = engine

    async def lose_worker(self) -> None:
        """The case's worker dies: nothing is given back, and the supervisor sees it."""
        if self.house.engine is None:
            raise BadCase("there is no worker")
        await self._workers.aclose()
        self.house.engine = None
        await self.house.site.crew.lose(self._worker)

    def go_on(self) -> None:
        """A held worker goes on."""
        if self.house.engine is None:
            raise BadCase("there is no worker")
        self.house.engine.resume()

    async def wait_end(self, id: str, seconds: float) -> None:
        """Until the request's end is in its log."""
        await wait_until(lambda: self._ended(self.tenants[OWN], id), seconds)

    async def wait_parked(self, id: str, seconds: float) -> None:
        """Until the pool has parked the request."""
        queue = self.house.site.crew.queue

        async def is_parked() -> bool:
            view = await queue.view(self.tenants[OWN], id)
            return view is not None and view.status is RequestStatus.PARKED

        await wait_until(is_parked, seconds)

    async def wait_stored(self, id: str, seconds: float) -> None:
        """Until a conversation's answer is in its row."""
        stored = ConversationStore(self.house.site.database)

        async def is_stored() -> bool:
            found = await stored.answer_row(self.tenants[OWN], id)
            return found is not None and found[0].status == MessageStatus.ENDED

        await wait_until(is_stored, seconds)

    async def retire(self, id: str) -> None:
        """Every key of the request is gone, as after its retention."""
        redis = self.house.site.redis
        names = [name async for name in redis.scan_iter(f"*{id}*")]
        if names:
            await redis.delete(*names)

    async def clear(self) -> None:
        """End what the case left, so that the next one finds idle workers."""
        if self.house.engine is not None:
            self.house.engine.resume()
        for id in self.sent:
            for tenant in self.tenants.values():
                await self._end(tenant, id)
        await self._workers.aclose()

    async def _end(self, tenant: str, id: str) -> None:
        site = self.house.site
        queue = site.crew.queue
        status = await queue.control(tenant, id, Control.CANCEL)
        if status is None or status is RequestStatus.ENDED:
            return
        if status in (RequestStatus.QUEUED, RequestStatus.PARKED):
            await end_unclaimed(queue, Quota(site.redis, site.settings), tenant, id, EndReason.CANCELLED)
        if self.house.engine is not None:
            await wait_until(lambda: self._ended(tenant, id))

    async def _ended(self, tenant: str, id: str) -> bool:
        entries = await self.house.site.crew.log.read(tenant, id, 0, 10_000)
        return bool(entries) and entries[-1].k is EntryKind.END


class StagedHouses:
    """The gateways of one run of the suite, started when the first case wants them."""

    def __init__(self, redis: Redis, redis_url: str, sqlite: Path) -> None:
        self._redis = redis
        self._redis_url = redis_url
        self._sqlite = sqlite
        self._built: dict[str, House] = {}
        self._name = uuid4().hex
        self._stack = AsyncExitStack()

    async def aclose(self) -> None:
        """Stop them all."""
        await self._stack.aclose()

    @asynccontextmanager
    async def stage(self, case: Case) -> AsyncGenerator[TenantContext]:
        """A place to play one case."""
        async with AsyncExitStack() as own:
            house = await self._house(case, own)
            if house.engine is not None:
                direct(house.engine, case.setup.script)
            stage = await _stage(house, case)
            try:
                yield stage
            finally:
                await stage.clear()
                if case.setup.worker == "none":
                    house.engine = None

    async def _house(self, case: Case, own: AsyncExitStack) -> House:
        if case.drains:
            return await own.enter_async_context(self._running(case, f"{self._name}-{case.id}"[:60]))
        name = json.dumps([case.setup.settings, case.setup.worker], sort_keys=True)
        if name not in self._built:
            running = self._running(case, f"{self._name}-{len(self._built)}")
            self._built[name] = await self._stack.enter_async_context(running)
        return self._built[name]

    @asynccontextmanager
    async def _running(self, case: Case, pool: str) -> AsyncGenerator[House]:
        with short_folder("conformance", in_memory=True) as home:
            shutil.copy(self._sqlite, home / "parley.db")
            database = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
            changed = WRONG_OFTEN | case.setup.settings
            settings = settings_in(home, redis_url=self._redis_url, pool=pool, installation=pool, **changed)
            async with AsyncExitStack() as parts:
                parts.push_async_callback(database.close)
                site = await parts.enter_async_context(
                    running_site(settings, database, self._redis, **changed)
                )
                site.crew = PoolWorkers(self._redis, site.settings, pool)
                house = House(site)
                if case.setup.worker == "ready":
                    house.engine = ScriptedEngine(saying(""))
                    await parts.enter_async_context(site.crew.worker(house.engine))
                yield house


async def _stage(house: House, case: Case) -> TenantContext:
    """A tenant of the case's own, or the shared one where the case leaves no trace in it."""
    if not case.is_plain:
        stage = TenantContext(house)
        for name, facts in {OWN: KeyFacts(), **case.setup.keys}.items():
            await stage.make_key(name, facts)
        await stage.limit(case)
        return stage
    if house.shared is None:
        house.shared = TenantContext(house)
        await house.shared.make_key(OWN, KeyFacts())
    return replace(house.shared, sent=set())
