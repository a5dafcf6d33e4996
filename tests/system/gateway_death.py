"""Gateways that die under clients that stay."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from billing.usage import ENDED_FIELD, decode, ended_stream
from engine.api import EntryKind, visible_text
from parley_client import Answer, Client, Ended
from tests.support.balancer import PortBalancer, running_balancer
from tests.support.gateways import LetterEngine, RunningGateways
from tests.support.patience import RUN_SECONDS, patience, wait_until


async def clients_of(stack: AsyncExitStack, url: str, key: str, count: int) -> list[Client]:
    """Connected clients that come back soon after a cut."""
    clients = [Client(url, key, backoff_seconds=0.1) for _ in range(count)]
    return list(await asyncio.gather(*(stack.enter_async_context(client) for client in clients)))


async def start(clients: list[Client], each: int, options: dict[str, int]) -> list[Answer]:
    """`each` accepted answers on every client."""
    sends = [
        client.send(f"{c} {n}", options=options) for c, client in enumerate(clients) for n in range(each)
    ]
    return list(await asyncio.gather(*sends))


async def finish(answers: list[Answer]) -> list[Ended]:
    """How all of them ended."""
    async with patience(RUN_SECONDS):
        return list(await asyncio.gather(*(answer.end() for answer in answers)))


async def check_exactly_once(
    fleet: RunningGateways, engine: LetterEngine, clients: list[Client], texts: dict[str, str]
) -> None:
    """Each reader has its log's whole text under one end; each request ran, ended and is billed once."""
    site = fleet.site
    for id, text in texts.items():
        entries = await site.crew.log.read(site.tenant, id, 0, 10_000)
        assert [entry.o for entry in entries] == list(range(1, len(entries) + 1))
        assert [entry.k for entry in entries].count(EntryKind.END) == 1
        assert entries[-1].k is EntryKind.END
        assert text == visible_text(entries)
    assert len(engine.given) == len(texts)
    events: Any = await site.redis.xrange(ended_stream(site.settings.pool))
    billed = Counter(decode(fields[ENDED_FIELD.encode()]).request for _, fields in events)
    assert billed == dict.fromkeys(texts, 1)
    assert sum(client.counters.verified for client in clients) == len(texts)
    assert {client.counters.mismatched for client in clients} == {0}


@asynccontextmanager
async def balanced(fleet: RunningGateways, engine: LetterEngine) -> AsyncGenerator[PortBalancer]:
    """A worker, and a balancer that sees every gateway ready."""
    async with fleet.site.crew.worker(engine), running_balancer(fleet.gateways) as balancer:
        await wait_until(lambda: len(balancer.ready) == len(fleet.gateways))
        yield balancer
