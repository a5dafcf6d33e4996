"""Where gateway cases are played in virtual time: the real connections and routes of a gateway without
sockets, Redis and database (tests/server/virtual). A pause of the machine is not seen, and nothing waits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from billing.api import Principal
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from engine.api import RequestStatus
from engine.policies.merge import merged
from tests.conformance.cases import Case, KeyFacts, WorkerScript
from tests.conformance.ledger import Answers
from tests.conformance.line import GatewayLine, LineRefused, encoding_of
from tests.conformance.stage import OWN, WRONG_OFTEN
from tests.conformance.values import BadCase
from tests.server.virtual import gateway as virtual
from tests.server.virtual.gateway import VirtualGateway, VirtualSocket, virtual_gateway
from tests.server.virtual.held import AnswerScript
from tests.support.home import settings_in

LOOK_SECONDS = 0.01


class WireSocket:
    """See line.Socket."""

    def __init__(self, wire: VirtualSocket) -> None:
        self._wire = wire

    async def send(self, frame: str | bytes) -> None:
        """See line.Socket."""
        self._wire.say(frame)
        await asyncio.sleep(0)

    async def send_text(self, octets: bytes) -> None:
        """See line.Socket: text that is no UTF-8 reaches a session as bytes (websocket.py)."""
        await self.send(octets)

    async def recv(self) -> str | bytes | int:
        """See line.Socket."""
        heard = await self._wire.heard.get()
        if isinstance(heard, int):
            self._wire.heard.put_nowait(heard)
        return heard

    async def close(self) -> None:
        """See line.Socket."""
        self._wire.leave(1001)

    def cut(self) -> None:
        """See line.Socket."""
        self._wire.leave(None)


@dataclass
class MachineContext:
    """See runner.Stage."""

    gateway: VirtualGateway
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    sent: set[str] = field(default_factory=set[str])
    is_exact: bool = True
    _tenants: dict[str, str] = field(default_factory=dict[str, str])
    _keys: dict[str, Principal] = field(default_factory=dict[str, Principal])
    _projects: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def make_key(self, name: str, facts: KeyFacts) -> None:
        """A key as a case describes it."""
        tenant = self._tenants.setdefault(facts.tenant, uuid7(now_ms()))
        project = self._projects.setdefault((facts.tenant, facts.project), uuid7(now_ms()))
        ends = None if facts.expires_in_ms is None else now_ms() + facts.expires_in_ms
        more = {"scopes": facts.scopes, "user": facts.user, "priority_max": facts.priority_max}
        made = self.gateway.keys.make(tenant, project, expires_ms=ends, **more)
        self.secrets[name], self._keys[name] = made

    def connected(
        self, headers: dict[str, str], offered: list[str], answers: Answers
    ) -> AbstractAsyncContextManager[GatewayLine]:
        """See runner.Stage."""

        @asynccontextmanager
        async def connecting() -> AsyncGenerator[GatewayLine]:
            try:
                wire, chosen = await self.gateway.connect(offered, headers)
            except virtual.UpgradeRefused as refused:
                raise LineRefused(refused.status) from refused
            socket = WireSocket(wire)
            yield GatewayLine(socket, encoding_of(chosen), answers)
            await socket.close()

        return connecting()

    async def http(self, method: str, path: str, *, headers: dict[str, str], json: Any) -> httpx.Response:
        """See runner.Stage."""
        return await self.gateway.http(method, path, headers=headers, json=json)

    def drain(self) -> None:
        """See runner.Stage."""
        self.gateway.drain()

    def tenant_of(self, token: str) -> str:
        """See runner.Stage."""
        known = self.gateway.keys.by_secret.get(token)
        return known.tenant if known else self._tenants[OWN]

    async def revoke(self, name: str) -> None:
        """See runner.Stage."""
        key = self._keys[name]
        await self.gateway.revoke(key.tenant, key.key)

    async def start_worker(self, script: WorkerScript) -> None:
        """See runner.Stage."""
        if self.gateway.pool.script is not None:
            raise BadCase("a worker is there already: say `worker: none` in the setup")
        self.gateway.pool.work(_script(script))

    async def lose_worker(self) -> None:
        """See runner.Stage."""
        if self.gateway.pool.script is None:
            raise BadCase("there is no worker")
        self.gateway.pool.lose_worker()

    def go_on(self) -> None:
        """See runner.Stage."""
        self.gateway.pool.go_on()

    async def wait_end(self, id: str, seconds: float) -> None:
        """See runner.Stage."""
        await self._wait(id, RequestStatus.ENDED, seconds)

    async def wait_parked(self, id: str, seconds: float) -> None:
        """See runner.Stage."""
        await self._wait(id, RequestStatus.PARKED, seconds)

    async def wait_stored(self, id: str, seconds: float) -> None:
        """See runner.Stage: it is stored when it ends."""
        await self._wait(id, RequestStatus.ENDED, seconds)

    async def retire(self, id: str) -> None:
        """See runner.Stage."""
        self.gateway.pool.retire(self._tenants[OWN], id)
        self.gateway.quota.forget(self._tenants[OWN], id)

    async def _wait(self, id: str, status: RequestStatus, seconds: float) -> None:
        at = self._tenants[OWN], id
        async with asyncio.timeout(seconds):
            while at not in self.gateway.pool.held or self.gateway.pool.held[at].status is not status:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)


class Machines:
    """Builds a gateway for each case: there is nothing to start."""

    def __init__(self, home: Path, model: Path) -> None:
        self._home = home
        self._model = model
        self._made: dict[str, Settings] = {}

    def _settings(self, changed: dict[str, Any]) -> Settings:
        """Reading settings takes longer than most cases."""
        name = repr(sorted(changed.items()))
        if name not in self._made:
            self._made[name] = settings_in(self._home, redis_url="redis://nowhere", **changed)
        return self._made[name]

    def stage(self, case: Case) -> AbstractAsyncContextManager[MachineContext]:
        """See runner.Houses."""

        @asynccontextmanager
        async def staged() -> AsyncGenerator[MachineContext]:
            changed = {"drain_seconds_max": 1.0, **WRONG_OFTEN, **case.setup.settings}
            async with virtual_gateway(self._settings(changed), self._model) as gateway:
                stage = MachineContext(gateway)
                gateway.policies.document = merged(None, case.setup.policy)
                for name, facts in {OWN: KeyFacts(), **case.setup.keys}.items():
                    stage.make_key(name, facts)
                if case.setup.worker == "ready":
                    gateway.pool.work(_script(case.setup.script))
                yield stage

        return staged()


def _script(written: WorkerScript) -> AnswerScript:
    return AnswerScript(written.text, written.step_ms / 1000, written.holds_after)
