"""SIGKILL of the EngineCore process under a vLLM worker that has answers in hand: the worker must see it."""

import random
import time

import psutil

from chaos.facts import Strike
from chaos.faults.kill_worker import busy_worker, held_by
from chaos.scene import Scene

KIND = "SIGKILL of an EngineCore"
NAME = "EngineCore"


async def strike(scene: Scene, chosen: random.Random) -> Strike | None:
    """Kill one; None where no worker has anything in hand just now."""
    victim = await busy_worker(scene, chosen)
    if victim is None:
        return None
    held = await held_by(scene, victim)
    at = time.monotonic()
    scene.struck.add(victim.worker)
    try:
        cores = [child for child in psutil.Process(victim.info["pid"]).children(True) if _is_core(child)]
        for core in cores:
            core.kill()
    except psutil.NoSuchProcess:
        return None
    return Strike(at, KIND, victim.worker, held) if cores else None


def _is_core(process: psutil.Process) -> bool:
    return NAME in process.name() or any(NAME in word for word in process.cmdline())
