"""Cuts a client's connection between it and its gateway, as a network does: no close, no goodbye."""

import random
import time

from chaos.faults.context import FaultContext
from chaos.observations import DoneFault

KIND = "connection cut"


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Cut one; None where nobody is connected just now."""
    carried = scene.cluster.balancer.clients
    if not carried:
        return None
    victim = chosen.choice(carried)
    name = "{}:{}".format(*victim.transport.get_extra_info("peername"))
    victim.transport.abort()
    return DoneFault(time.monotonic(), KIND, name)
