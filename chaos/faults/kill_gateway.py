"""SIGKILL of a gateway that clients are connected to; it is started again at once, at the same address."""

import os
import random
import signal
import time

from chaos.faults.context import FaultContext
from chaos.observations import DoneFault

KIND = "SIGKILL of a gateway"


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Kill one; None where none is ready, or nobody is connected, just now. Its metrics are kept."""
    ready = [each for each in scene.cluster.kept_gateways if each.url in scene.cluster.balancer.ready]
    if not ready or not scene.cluster.balancer.clients:
        return None
    victim = chosen.choice(ready)
    if not await scene.overheard.scrape(victim.url) or not victim.running.alive:
        return None
    os.kill(victim.running.process.pid, signal.SIGKILL)
    await victim.running.process.wait()
    return DoneFault(time.monotonic(), KIND, victim.url)
