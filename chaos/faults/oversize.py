"""A burst of requests that are far too large, and of many that are as large as fits, from one client.

Those that cannot fit must be refused with a code before they are accepted; the others run and are judged.
"""

import asyncio
import random
import time
from itertools import count

from chaos.faults.context import FaultContext
from chaos.installation.measure import resident_bytes
from chaos.observations import DoneFault, WorkloadRequest
from chaos.workload import LETTERS, ask
from parley_client import Client

KIND = "burst of oversized requests"
CONTEXT = 4096
TOO_LARGE = (CONTEXT, 250_000)  # characters, each at least a token
LARGE = (1500, 2200)
BURST = 12
TOKENS = 100
WORD = 64
_numbers = count(1_000_000)


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Send them. They are answered, or refused, while others go on."""
    sizes = [chosen.randint(*(LARGE if at % 3 == 0 else TOO_LARGE)) for at in range(BURST)]
    asks = [WorkloadRequest(next(_numbers), _text(chosen, size), TOKENS) for size in sizes]
    scene.group.create_task(_ask_all(scene, asks))
    return DoneFault(time.monotonic(), KIND, f"{sum(sizes)} characters")


def _text(chosen: random.Random, size: int) -> str:
    word = "".join(chosen.choices(LETTERS, k=WORD))
    return (word * (size // WORD + 1))[:size]


async def _ask_all(scene: FaultContext, asks: list[WorkloadRequest]) -> None:
    crowd = scene.crowd
    async with Client(crowd.url, crowd.key, backoff_seconds=0.1) as client:
        asked = [ask(client, crowd.tenant, question, client.new_id()) for question in asks]
        scene.answers += await asyncio.gather(*asked)
    gateways = scene.cluster.gateways
    scene.memory_mib = max(scene.memory_mib, *(resident_bytes(each.process.pid) / 2**20 for each in gateways))
