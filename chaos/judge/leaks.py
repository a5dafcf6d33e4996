"""Looks for parts of secrets in all that leaves a worker: what readers were sent, the pool's logs and hints,
stored messages, metrics, exported spans, and every file of the installation."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from redis.exceptions import RedisError
from sqlmodel import col, select

from chaos.injected.secrets import TRACES
from chaos.installation.cluster import Installation
from chaos.observations import Answered
from core.tasks import cancel_tasks
from engine.api import Entry, HintChannel
from server.conversations.tables import Message

TELLS_SECRETS = "test_secrets"  # a setting of an installation whose engine does (chaos/injected/secrets.py)
LOOK_SECONDS = 0.1
SCRAPE_SECONDS_MAX = 20.0


@dataclass
class Overheard:
    """What is gone by the end of a run: hints by gateway and request, their texts joined, pages of
    metrics, and exported spans."""

    hints: defaultdict[str, str] = field(default_factory=lambda: defaultdict(str))
    pages: list[bytes] = field(default_factory=list[bytes])
    spans: Sequence[bytes] = ()

    def hear(self, gateway: str, request: str, entries: Sequence[Entry]) -> None:
        """Keep what a gateway was told of a request."""
        name = f"hints of {request} to {gateway}"
        self.hints[name] += _text(entries)
        self.hints[f"facts in {name}"] += _facts(entries)

    async def scrape(self, url: str) -> bool:
        """Keep a gateway's metrics, as it may be killed next. False: it is not there."""
        async with httpx.AsyncClient(timeout=SCRAPE_SECONDS_MAX) as client:
            try:
                self.pages.append((await client.get(f"{url}/metrics")).content)
            except httpx.TransportError:
                return False
        return True


@asynccontextmanager
async def overhearing(cluster: Installation, spans: Sequence[bytes]) -> AsyncGenerator[Overheard]:
    """Hears along while the block runs, where answers have secrets in them. `spans` as they are received."""
    overheard = Overheard(spans=spans)
    if TELLS_SECRETS not in cluster.plan.settings:
        yield overheard
        return
    listening = asyncio.create_task(_listen(cluster, overheard))
    try:
        yield overheard
    finally:
        await cancel_tasks([listening])


async def _listen(cluster: Installation, overheard: Overheard) -> None:
    """To the channel of each gateway that comes."""
    prefix = f"{{p:{cluster.site.settings.pool}}}gw:"
    known: set[str] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            try:
                channels = await cluster.redis.execute_command("PUBSUB", "SHARDCHANNELS", f"{prefix}*")
            except (RedisError, OSError):
                channels = []
            for name in {each.decode().removeprefix(prefix) for each in channels} - known:
                known.add(name)
                group.create_task(_follow(cluster, name, overheard))
            await asyncio.sleep(LOOK_SECONDS)


async def _follow(cluster: Installation, gateway: str, overheard: Overheard) -> None:
    channel = HintChannel(cluster.redis, gateway)
    try:
        await channel.follow(cluster.site.settings.pool)
        async for hint in channel:
            overheard.hear(gateway, hint.id, hint.entries)
    finally:
        await channel.close()


async def searched(
    cluster: Installation,
    answers: Sequence[Answered],
    logs: Mapping[str, Sequence[Entry]],
    overheard: Overheard,
) -> tuple[list[str], dict[str, int]]:
    """Where a part of a secret stands, and how much was searched of each kind."""
    for gateway in cluster.gateways:
        await _scrape_at_last(gateway.url, overheard)
    async with cluster.database.session() as session:
        stored = (await session.exec(select(Message).where(col(Message.role) == "assistant"))).all()
    files = sorted(each for each in cluster.site.settings.home.rglob("*") if each.is_file())
    places: dict[str, dict[str, bytes]] = {
        "readings": {f"text of {n}: {each.id}": each.frames.encode() for n, each in enumerate(answers)},
        "logs": {f"log of {id}": f"{_text(log)}\n{_facts(log)}".encode() for id, log in logs.items()},
        "hints": {name: text.encode() for name, text in overheard.hints.items()},
        "stored messages": {f"message {each.request_id}": each.content.encode() for each in stored},
        "pages of metrics": {f"metrics {n}": page for n, page in enumerate(overheard.pages)},
        "exports of spans": {f"spans {n}": body for n, body in enumerate(overheard.spans)},
        "files": {str(each): await asyncio.to_thread(each.read_bytes) for each in files},
    }
    leaks = [place for texts in places.values() for place in find(texts)]
    return leaks, {kind: len(texts) for kind, texts in places.items()}


def find(texts: Mapping[str, bytes]) -> list[str]:
    """Each place with a part of a secret in it, and which."""
    traces = [each.encode() for each in TRACES]
    return [
        f"{place}: {trace.decode()}" for place, text in texts.items() for trace in traces if trace in text
    ]


async def _scrape_at_last(url: str, overheard: Overheard) -> None:
    """Also from one that is still starting again."""
    async with asyncio.timeout(SCRAPE_SECONDS_MAX):
        while not await overheard.scrape(url):  # noqa: ASYNC110  (nothing says when it listens)
            await asyncio.sleep(LOOK_SECONDS)


def _text(entries: Sequence[Entry]) -> str:
    return "".join(each.x for each in entries)


def _facts(entries: Sequence[Entry]) -> str:
    return "\n".join(each.v.decode(errors="replace") for each in entries)
