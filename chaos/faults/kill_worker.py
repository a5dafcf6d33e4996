"""SIGKILL of a worker that has answers in hand."""

import os
import random
import signal
import time

from chaos.facts import Strike
from chaos.scene import Scene
from engine.api import WorkerView

KIND = "SIGKILL of a worker"


async def strike(scene: Scene, chosen: random.Random) -> Strike | None:
    """Kill one; None where no worker has anything in hand just now."""
    victim = await busy_worker(scene, chosen)
    if victim is None:
        return None
    held = await held_by(scene, victim)
    at = time.monotonic()
    scene.struck.add(victim.worker)
    try:
        os.kill(victim.info["pid"], signal.SIGKILL)
    except ProcessLookupError:  # it ended by itself
        return None
    return Strike(at, KIND, victim.worker, held)


async def busy_worker(scene: Scene, chosen: random.Random) -> WorkerView | None:
    """Any worker whose lease holds, that holds requests and was not killed before."""
    workers = await scene.cluster.queue.workers()
    busy = [each for each in workers if each.alive and each.claims and each.worker not in scene.struck]
    return chosen.choice(busy) if busy else None


async def held_by(scene: Scene, worker: WorkerView) -> frozenset[str]:
    """Ids of the requests that it has in hand."""
    return frozenset(id for _, id in await scene.cluster.queue.claimed(worker.worker))
