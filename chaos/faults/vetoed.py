"""Harm while answers have secrets in them: a killed worker, a cut connection, or readers from the start."""

import random

from chaos.faults import disconnect, kill_worker, reload
from chaos.faults.context import FaultContext
from chaos.observations import DoneFault


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """One of the three, workers most often; None where there is nothing to hit just now."""
    fault = chosen.choices((kill_worker.strike, disconnect.strike, reload.strike), (5, 4, 1))[0]
    return await fault(scene, chosen)
