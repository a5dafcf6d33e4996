"""Everybody reloads at once: new clients attach to every answer that is open and read it from its start."""

import asyncio
import random
import time
from dataclasses import asdict

from chaos.faults.context import FaultContext
from chaos.observations import Answered, DoneFault, WorkloadRequest
from chaos.workload import reread
from parley_client import Client

KIND = "reload of all readers"
READERS = 6


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Bring the readers; None where no answer is open. They read on after this."""
    found = dict(scene.crowd.open)
    if not found:
        return None
    order = list(found.items())
    for _ in range(READERS):
        chosen.shuffle(order)
        scene.group.create_task(_read_all(scene, list(order)))
    return DoneFault(time.monotonic(), KIND, f"{len(found)} answers", frozenset(found))


async def _read_all(scene: FaultContext, asked: list[tuple[str, WorkloadRequest]]) -> None:
    crowd = scene.crowd
    async with Client(crowd.url, crowd.key, backoff_seconds=0.1) as client:
        reading = [reread(client, crowd.tenant, id, question) for id, question in asked]
        answers: list[Answered] = await asyncio.gather(*reading)
    scene.answers += answers
    crowd.counters.update(asdict(client.counters))
