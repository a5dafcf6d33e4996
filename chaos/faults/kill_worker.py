"""SIGKILL of a worker that has answers in hand."""

import os
import random
import signal
import time

from chaos.cluster import Cluster
from chaos.facts import Strike
from engine.api import WorkerView

KIND = "SIGKILL of a worker"


async def strike(cluster: Cluster, chosen: random.Random) -> Strike | None:
    """Kill one; None where no worker has anything in hand just now."""
    victim = await busy_worker(cluster, chosen)
    if victim is None:
        return None
    held = frozenset(id for _, id in await cluster.queue.claimed(victim.worker))
    at = time.monotonic()
    cluster.struck.add(victim.worker)
    try:
        os.kill(victim.info["pid"], signal.SIGKILL)
    except ProcessLookupError:  # it ended by itself
        return None
    return Strike(at, KIND, victim.worker, held)


async def busy_worker(cluster: Cluster, chosen: random.Random) -> WorkerView | None:
    """Any worker whose lease holds and that holds requests."""
    workers = await cluster.queue.workers()
    busy = [each for each in workers if each.alive and each.claims and each.worker not in cluster.struck]
    return chosen.choice(busy) if busy else None
