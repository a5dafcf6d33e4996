"""Harm while answers have secrets in them: workers and gateways die, connections are cut, readers come."""

import random

from chaos.faults import disconnect, kill_gateway, kill_worker, reload
from chaos.faults.context import FaultContext
from chaos.observations import DoneFault

FAULTS = (kill_worker.strike, kill_gateway.strike, disconnect.strike, reload.strike)
WEIGHTS = (4, 2, 3, 1)


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """One of the four, workers most often; None where there is nothing to hit just now."""
    fault = chosen.choices(FAULTS, WEIGHTS)[0]
    return await fault(scene, chosen)
