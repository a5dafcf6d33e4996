"""SIGSTOP of a worker that has answers in hand, and SIGCONT a while later.

After a short stop it goes on as if nothing was. A long one outlasts its lease: others have its answers when
it wakes, and what it writes then must change nothing.
"""

import asyncio
import os
import random
import signal
import time
from contextlib import suppress

from chaos.facts import Strike
from chaos.faults.kill_worker import busy_worker, held_by
from chaos.scene import Scene

KIND = "SIGSTOP of a worker"
SHORT_SECONDS = (0.2, 2.0)
LONG_SECONDS = (3.5, 6.0)
LONG_SHARE = 0.6


async def strike(scene: Scene, chosen: random.Random) -> Strike | None:
    """Stop one for a while; None where no worker has anything in hand just now."""
    victim = await busy_worker(scene, chosen)
    if victim is None:
        return None
    held = await held_by(scene, victim)
    seconds = chosen.uniform(*(LONG_SECONDS if chosen.random() < LONG_SHARE else SHORT_SECONDS))
    pid, at = victim.info["pid"], time.monotonic()
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return None
    try:
        await asyncio.sleep(seconds)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return Strike(at, KIND, victim.worker, held)
