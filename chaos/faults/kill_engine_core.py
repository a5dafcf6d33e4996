"""SIGKILL of the EngineCore process under a vLLM worker that has answers in hand: the worker must see it."""

import random

import psutil

from chaos.faults.context import FaultContext
from chaos.faults.worker import strike_busy
from chaos.observations import DoneFault

KIND = "SIGKILL of an EngineCore"
NAME = "EngineCore"


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Kill one; None where there is none to kill just now."""
    return await strike_busy(scene, chosen, KIND, _kill, fatal=True)


async def _kill(pid: int) -> bool:
    cores = [child for child in psutil.Process(pid).children(recursive=True) if _is_core(child)]
    for core in cores:
        core.kill()
    return bool(cores)


def _is_core(process: psutil.Process) -> bool:
    return NAME in process.name() or any(NAME in word for word in process.cmdline())
