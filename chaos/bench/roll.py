"""`python -m chaos bench roll`: what a loaded pool's clients notice while it changes its model's version."""

import asyncio
import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import uvloop

from billing.pools import PoolState, WantedVersion, edit_pool, read_pools, use_version
from chaos.bench.session.drain import DrainReader
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.testbed import MODEL, RunningProcess, SessionTestbed, session_testbed
from core.redis.client import connect
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import PoolQueue, all_versions, register_model
from parley_client import Client, ProtocolError

FIRST, SECOND = "1", "2"
WORKERS = 2
GATEWAYS = 2
STREAM_TOKENS, BULK_TOKENS = 60, 120
ANSWERS_PER_CLIENT = 12  # a connection takes 16
LOOK_SECONDS = 0.02
SETTLE_SECONDS_MAX = 120.0
FLEET_SETTINGS: dict[str, object] = {"test_backend": "scripted", "worker_slots": 24}
OWN_FILES = ("secret",)  # of a data folder, that all processes share


@dataclass
class Seen:
    """What was seen. `least`: ready workers of the version in use, the fewest at a time; `first_token`:
    seconds of each answer; `seconds`: of the switch and of the way back."""

    reasons: Counter[str] = field(default_factory=Counter[str])
    first_token: list[float] = field(default_factory=list[float])
    without: float = 0.0
    looks: int = 0
    least: int = WORKERS
    whole: int = 0
    seconds: list[float] = field(default_factory=list[float])

    def figures(self) -> list[Figure]:
        """What is printed."""
        answers = self.reasons.total()
        good = self.reasons["length"] + self.reasons["stop"]
        return [
            Figure("answers", answers, ""),
            Figure("errors", answers - good, "", most=0),
            Figure("not whole", answers - self.whole, "", most=0),
            Figure("without a ready worker of the version in use", self.without, "s", most=0),
            Figure("fewest of these", self.least, "", least=1),
            Figure("looks at the workers", self.looks, ""),
            Figure("first token p50", percentile(self.first_token, 0.5), "s"),
            Figure("first token p99", percentile(self.first_token, 0.99), "s"),
            Figure("switch, until all workers were of it", self.seconds[0], "s"),
            Figure("way back", self.seconds[1], "s"),
        ]


@dataclass
class RollingSite:
    """An installation whose pool may have either version; `clients` are of all gateways."""

    site: SessionTestbed
    database: Database
    queue: PoolQueue
    clients: list[Client]
    fingerprints: dict[str, str]
    seen: Seen = field(default_factory=Seen)

    async def answer(self, at: int, tokens: int, priority: str) -> None:
        """One answer, from its send to its end."""
        client, began = self.clients[at % len(self.clients)], time.monotonic()
        options = {"max_tokens": tokens, "min_tokens": tokens, "temperature": 1.0, "priority": priority}
        try:
            reader = DrainReader(client, await client.send("Tell me a story.", options=options))
            await reader.read()
        except ProtocolError as error:
            self.seen.reasons[str(error)[:80]] += 1
            progress(f"refused: {error}")
            return
        self.seen.reasons[reader.ended.reason if reader.ended else "none"] += 1
        self.seen.whole += reader.ended is not None and reader.ended.verified
        if reader.arrivals and priority == "interactive":
            self.seen.first_token.append(reader.arrivals[0] - began)

    async def stream(self, at: int) -> None:
        """One answer after the other, for ever."""
        while True:
            await self.answer(at, STREAM_TOKENS, "interactive")

    async def watch(self) -> None:
        """Look which workers are ready, for ever."""
        last = time.monotonic()
        while True:
            alive = [view.fingerprint for view in await self.queue.workers() if view.alive]
            (pool,) = await read_pools(self.database)
            ready, now = alive.count(self.fingerprints[pool.version]), time.monotonic()
            self.seen.without += 0 if ready else now - last
            self.seen.least, self.seen.looks, last = min(self.seen.least, ready), self.seen.looks + 1, now
            await asyncio.sleep(LOOK_SECONDS)

    async def settles(self, version: str) -> None:
        """Until all workers are ready in this version, and no others are about."""
        async with asyncio.timeout(SETTLE_SECONDS_MAX):
            while not await self._is_settled(version):  # noqa: ASYNC110  (the fleet looks at its own pace)
                await asyncio.sleep(0.1)

    async def _is_settled(self, version: str) -> bool:
        async with self.database.session() as session:
            state = await session.get(PoolState, self.queue.pool)
        facts = [] if state is None else [(each["version"], each["ready"]) for each in state.versions]
        return facts == [(version, WORKERS)]

    async def use(self, version: str) -> None:
        """Change the version; how long it takes is noted."""
        began = time.monotonic()
        await use_version(self.database, self.queue.pool, WantedVersion(version))
        await self.settles(version)
        self.seen.seconds.append(time.monotonic() - began)
        progress(f"version {version} after {self.seen.seconds[-1]:.1f} s")


@click.command("roll")
@click.option("--streams", default=32, show_default=True, help="Answers that stream all the while.")
@click.option("--bulk", default=100, show_default=True, help="Bulk requests that wait at the switch.")
@click.option("--step-ms", default=20.0, show_default=True, help="The scripted engine's step.")
@json_option
def roll(streams: int, bulk: int, step_ms: float, as_json: bool) -> None:
    """A pool changes its version and goes back, under load (goal: 0 errors, 0 s without a ready worker).

    Two gateways with data folders of their own, a fleet with two workers and a place for one more. Every
    answer's text is checked by its hash.
    """
    show("roll", uvloop.run(_measure(streams, bulk, step_ms)).figures(), as_json)


async def _measure(streams: int, bulk: int, step_ms: float) -> Seen:
    async with _rolling_site(-(-(streams + 2 * bulk) // ANSWERS_PER_CLIENT), step_ms) as made:
        watching = asyncio.create_task(made.watch())
        streaming = [asyncio.create_task(made.stream(at)) for at in range(streams)]
        waiting = [asyncio.create_task(made.answer(streams + at, BULK_TOKENS, "bulk")) for at in range(bulk)]
        progress(f"{streams} answers stream, {bulk} bulk requests wait")
        await asyncio.sleep(1.0)
        await made.use(SECOND)
        numbers = range(streams + bulk, streams + 2 * bulk)
        waiting += [asyncio.create_task(made.answer(at, BULK_TOKENS, "bulk")) for at in numbers]
        await asyncio.sleep(1.0)
        await made.use(FIRST)
        await cancel_tasks(streaming)
        await asyncio.gather(*waiting)
        await cancel_tasks([watching])
        return made.seen


@asynccontextmanager
async def _rolling_site(clients: int, step_ms: float) -> AsyncGenerator[RollingSite]:
    async with session_testbed() as site, AsyncExitStack() as stack:
        database = Database(site.settings.database_endpoint)
        stack.push_async_callback(database.close)
        await register_model(database, _second_version(site.settings.home / "models"), site.settings)
        await edit_pool(database, site.settings.pool, {"workers": WORKERS})
        redis = connect(site.settings)
        stack.push_async_callback(redis.aclose)
        fleet = {**FLEET_SETTINGS, "test_step_ms": step_ms, "fleet_workers_max": WORKERS + 1}
        await site.start(["-m", "core.cli", "biller"])
        await site.start(["-m", "core.cli", "fleet", "--one-user"], **fleet)
        gateways = [await _gateway(site, at) for at in range(GATEWAYS)]
        asking = [
            await stack.enter_async_context(Client(gateways[at % GATEWAYS].url, site.key))
            for at in range(max(GATEWAYS, clients))
        ]
        fingerprints = {each.version: each.fingerprint for each in await all_versions(database)}
        queue = PoolQueue(redis, site.settings.pool, site.settings)
        made = RollingSite(site, database, queue, asking, fingerprints)
        await made.settles(FIRST)
        yield made


def _second_version(models: Path) -> Path:
    """The same model with another template."""
    folder = models / f"{MODEL}-{SECOND}"
    shutil.copytree(models / MODEL, folder)
    template = "Be brief.\n" + (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(template)
    manifest = json.loads((folder / "manifest.json").read_text())
    digests = {**manifest["sha256"], "chat_template.jinja": hashlib.sha256(template.encode()).hexdigest()}
    changed = {**manifest, "version": SECOND, "sha256": digests}
    (folder / "manifest.json").write_text(json.dumps(changed))
    return folder


async def _gateway(site: SessionTestbed, number: int) -> RunningProcess:
    """One with a data folder of its own, which has no more than what all share."""
    settings = site.settings
    home = settings.home / f"gateway-{number}"
    home.mkdir(mode=0o700)
    for name in OWN_FILES:
        shutil.copy(settings.home / name, home / name)
    stores: dict[str, Any] = {
        "redis_url": settings.redis_endpoint,
        "database_url": settings.database_endpoint,
    }
    return await site.gateway(home=home, **stores)
