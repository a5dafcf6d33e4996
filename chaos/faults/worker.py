"""The frame of every fault that hits a worker: find one that has answers in hand, note what those are and
whether the others could take them over, then do what the scenario does to it."""

import random
import time
from collections.abc import Awaitable, Callable

import psutil

from chaos.faults.context import FaultContext
from chaos.observations import DoneFault
from engine.api import WorkerView

Blow = Callable[[int], Awaitable[bool]]
"""Hits the process of this pid. False: there was nothing to hit."""


async def strike_busy(
    scene: FaultContext, chosen: random.Random, kind: str, blow: Blow, *, fatal: bool
) -> DoneFault | None:
    """Hit one; None where no worker has anything in hand just now, or, in a scenario that waits for it, the
    others have no room for that. `fatal`: it is not hit again."""
    workers = [each for each in await scene.cluster.queue.workers() if each.alive]
    living = [each for each in workers if each.worker not in scene.struck]
    busy = [each for each in living if each.claims]
    if not busy:
        return None
    victim = chosen.choice(busy)
    warm = has_room(victim, living)
    if scene.warm_only and not warm:
        return None
    held = frozenset(id for _, id in await scene.cluster.queue.claimed(victim.worker))
    at = time.monotonic()
    if fatal:
        scene.struck.add(victim.worker)
    try:
        hit = await blow(victim.info["pid"])
    except (ProcessLookupError, psutil.NoSuchProcess):  # it ended by itself
        return None
    return DoneFault(at, kind, victim.worker, held, warm) if hit else None


def has_room(victim: WorkerView, living: list[WorkerView]) -> bool:
    """The other workers have a free slot for each request that it holds."""
    others = (each for each in living if each.worker != victim.worker)
    return sum(max(0, each.info["slots"] - each.claims) for each in others) >= victim.claims
