"""SIGKILL of a worker that has answers in hand."""

import os
import random
import signal

from chaos.faults.context import FaultContext
from chaos.faults.worker import strike_busy
from chaos.observations import DoneFault

KIND = "SIGKILL of a worker"


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Kill one; None where there is none to kill just now."""
    return await strike_busy(scene, chosen, KIND, _kill, fatal=True)


async def _kill(pid: int) -> bool:
    os.kill(pid, signal.SIGKILL)
    return True
