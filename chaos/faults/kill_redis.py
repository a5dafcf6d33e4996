"""SIGKILL of Valkey in the middle of answers, and its restart: without its last second, or without anything.

A killed process leaves what it wrote to the system; a crashed machine does not, up to a second of it. So the
file is cut back to where it was at a random moment of the second before the kill, at which it held all that
clients had been told: while the disk is busy, Valkey answers and writes up to two seconds later.
"""

import asyncio
import os
import random
import shutil
import signal
import time
from pathlib import Path

from chaos.faults.context import FaultContext
from chaos.observations import DoneFault, Outage

KIND = "SIGKILL of Redis"
LOSE_SECONDS_MAX = 1.0  # appendfsync everysec
SHORT_SECONDS = (0.0, 1.5)
LONG_SECONDS = (3.5, 5.0)  # more than a worker's lease
LONG_SHARE = 0.25
LOOK_SECONDS = 0.01
FOLDER = "appendonlydir"


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Kill it, and have it back without its tail; None where no answer is open."""
    lose, down = chosen.uniform(0.0, LOSE_SECONDS_MAX), _down_seconds(chosen)
    if not scene.crowd.open:
        return None
    file = _file(scene)
    lost_from = await _all_written(scene)
    known = file.stat().st_size
    await asyncio.sleep(lose)
    at = await _kill(scene)
    if file.exists():  # else it was rewritten meanwhile, and all is kept
        os.truncate(file, known)
    else:
        lost_from = at
    return await _restart(scene, lost_from, at, down)


async def strike_without_data(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Kill it, and have it back empty."""
    down = _down_seconds(chosen)
    if not scene.crowd.open:
        return None
    at = await _kill(scene)
    shutil.rmtree(scene.cluster.site.valkey.folder / FOLDER)
    return await _restart(scene, 0.0, at, down)


def _down_seconds(chosen: random.Random) -> float:
    return chosen.uniform(*(LONG_SECONDS if chosen.random() < LONG_SHARE else SHORT_SECONDS))


def _file(scene: FaultContext) -> Path:
    """Where Valkey appends what it is told."""
    return max((scene.cluster.site.valkey.folder / FOLDER).glob("*.incr.aof"))


async def _all_written(scene: FaultContext) -> float:
    """A moment before which all that Valkey did is in the file by now."""
    while True:
        at = time.monotonic()
        facts = await scene.cluster.redis.info("persistence")
        if not facts["aof_buffer_length"]:
            return at
        await asyncio.sleep(LOOK_SECONDS)


async def _kill(scene: FaultContext) -> float:
    process = scene.cluster.site.valkey.process
    assert process is not None, "the installation runs"
    at = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    return at


async def _restart(scene: FaultContext, lost_from: float, at: float, down: float) -> DoneFault:
    held = frozenset(scene.crowd.open)
    await asyncio.sleep(down)
    await scene.cluster.site.valkey.start()
    scene.outages.append(Outage(lost_from, at, time.monotonic()))
    return DoneFault(at, KIND, "redis", held)
