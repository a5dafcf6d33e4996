"""Gathers what the platform kept of a round: usage events as they are published, then logs,
bills, leftovers."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.exceptions import RedisError

from billing.api import Check, Comparison, ComparisonState, Reconciliation, UsageEvent
from billing.usage import ENDED_FIELD, decode, ended_stream
from chaos.installation.cluster import Installation
from chaos.judge.allowed_losses import forgotten
from chaos.judge.leaks import TELLS_SECRETS, Overheard, searched
from chaos.observations import Answered, Observations, Outage
from core.tasks import cancel_tasks
from engine.api import Entry

READ_COUNT = 500
BLOCK_MS = 200
PAGE_ENTRIES = 2000
REST_SECONDS_MAX = 20.0
POLL_SECONDS = 0.1
BOOKS = frozenset({Check.R1, Check.R2, Check.R7})
COUNTED = frozenset({Check.R4, Check.R5, Check.R8})


@asynccontextmanager
async def witnessed(cluster: Installation) -> AsyncGenerator[list[UsageEvent]]:
    """Every usage event that the pool publishes while the block runs. The biller trims the stream, so it is
    read along, not afterwards."""
    seen: list[UsageEvent] = []
    reading = asyncio.create_task(_read_along(cluster, seen))
    try:
        yield seen
    finally:
        await cancel_tasks([reading])


async def gather(
    cluster: Installation,
    answers: Sequence[Answered],
    events: Sequence[UsageEvent],
    overheard: Overheard | None = None,
    **more: Any,
) -> Observations:
    """Everything the oracle judges, once nothing moves any more or patience is over.

    `overheard`: given where secrets are looked for in it and everywhere else; `more`: fields of Observations
    that the caller knows."""
    outages: Sequence[Outage] = more.get("outages", ())
    billed = [each for each in answers if not each.refused and not forgotten(each, outages)]
    await _come_to_rest(cluster, {answer.id for answer in billed})
    asked = {each.id: each.tenant for each in answers if not each.refused}
    logs = {id: await _log(cluster, tenant, id) for id, tenant in asked.items()}
    secrets = TELLS_SECRETS in cluster.plan.settings
    looked = await searched(cluster, answers, logs, overheard) if secrets and overheard else ([], {})
    return Observations(
        seed=cluster.plan.seed,
        answers=list(answers),
        logs={id: log for id, log in logs.items() if log},
        events=list(events),
        events_added=await cluster.events_added(),
        posted=await cluster.posted(),
        quarantined=await cluster.quarantined(),
        settled=await cluster.settled(),
        leftovers=await cluster.leftovers(),
        compared=await _compared(cluster, lossless=not outages),
        secrets=secrets,
        leaks=looked[0],
        searched=looked[1],
        **more,
    )


async def _compared(cluster: Installation, lossless: bool) -> list[Comparison]:
    """The books that do not agree at rest. A Redis that lost its last writes lacks what they counted."""
    reconciliation = Reconciliation(cluster.database, cluster.redis, cluster.site.settings)
    checks = BOOKS | (COUNTED if lossless else frozenset())
    until = time.monotonic() + REST_SECONDS_MAX
    compared = await reconciliation.run(checks, whole=True)
    while any(each.state is ComparisonState.WAITING for each in compared) and time.monotonic() < until:
        await asyncio.sleep(POLL_SECONDS)  # a dead biller's batch is read again some seconds later
        compared = await reconciliation.run(checks, whole=True)
    return [each for each in compared if each.state is not ComparisonState.EQUAL]


async def _read_along(cluster: Installation, seen: list[UsageEvent]) -> None:
    stream, after = ended_stream(cluster.site.settings.pool), "0"
    while True:
        try:
            reply = await cluster.redis.xread({stream: after}, count=READ_COUNT, block=BLOCK_MS)
        except (RedisError, OSError):
            await asyncio.sleep(POLL_SECONDS)
            continue
        for entries in _entries(reply):
            for id, fields in entries:
                after = id
                seen.append(decode(fields[ENDED_FIELD.encode()]))


def _entries(reply: Any) -> list[Any]:
    """The entry lists of an XREAD reply: a mapping in RESP3, pairs in RESP2."""
    if isinstance(reply, dict):
        return [entries for chunks in reply.values() for entries in chunks]
    return [entries for _, entries in reply or []]


async def _come_to_rest(cluster: Installation, requests: set[str]) -> None:
    """Until all of these are billed and nothing is left."""
    until = time.monotonic() + REST_SECONDS_MAX
    while time.monotonic() < until:
        if requests <= {row.request for row in await cluster.posted()} and not await cluster.leftovers():
            return
        await asyncio.sleep(POLL_SECONDS)


async def _log(cluster: Installation, tenant: str, id: str) -> Sequence[Entry]:
    entries: list[Entry] = []
    while page := await cluster.log.read(tenant, id, entries[-1].o if entries else 0, PAGE_ENTRIES):
        entries += page
    return entries
