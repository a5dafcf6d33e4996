"""Cuts a client's connection between it and its gateway, as a network does: no close, no goodbye."""

import random
import time

from chaos.faults.context import Scene
from chaos.observations import Strike

KIND = "connection cut"


async def strike(scene: Scene, chosen: random.Random) -> Strike | None:
    """Cut one; None where nobody is connected just now."""
    carried = scene.cluster.balancer.clients
    if not carried:
        return None
    victim = chosen.choice(carried)
    name = "{}:{}".format(*victim.transport.get_extra_info("peername"))
    victim.transport.abort()
    return Strike(time.monotonic(), KIND, name)
