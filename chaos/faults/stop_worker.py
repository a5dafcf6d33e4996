"""SIGSTOP of a worker that has answers in hand, and SIGCONT a while later.

After a short stop it goes on as if nothing was. A long one outlasts its lease: others have its answers when
it wakes, and what it writes then must change nothing.
"""

import asyncio
import os
import random
import signal
from contextlib import suppress

from chaos.faults.context import FaultContext
from chaos.faults.worker import strike_busy
from chaos.observations import DoneFault

KIND = "SIGSTOP of a worker"
SHORT_SECONDS = (0.2, 2.0)
LONG_SECONDS = (3.5, 6.0)
LONG_SHARE = 0.6


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Stop one for a while; None where there is none to stop just now."""
    seconds = chosen.uniform(*(LONG_SECONDS if chosen.random() < LONG_SHARE else SHORT_SECONDS))

    async def stop(pid: int) -> bool:
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return True

    return await strike_busy(scene, chosen, KIND, stop, fatal=False)
