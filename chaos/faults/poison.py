"""Asks something that kills every worker that runs it, beside everybody else's questions.

The platform must single it out and end it `engine_lost`; what ran beside it may suffer a pause, no more.
"""

import random
import time
from itertools import count

from chaos.faults.context import FaultContext
from chaos.observations import DoneFault, WorkloadRequest
from chaos.workload import LETTERS, ask
from parley_client import Client

KIND = "poison"
MARKER = "☠"  # the scripted engine's workers die of it; nobody else asks with it
CHARACTERS = (20, 400)
TOKENS = 100
_numbers = count(2_000_000)


async def strike(scene: FaultContext, chosen: random.Random) -> DoneFault | None:
    """Ask it, and wait for its end; None where nothing runs that it could harm."""
    if not scene.crowd.open:
        return None
    words = "".join(chosen.choices(LETTERS, k=chosen.randint(*CHARACTERS)))
    question = WorkloadRequest(next(_numbers), f"{MARKER} {words}", TOKENS, poison=True)
    at, beside = time.monotonic(), frozenset(scene.crowd.open)
    crowd = scene.crowd
    async with Client(crowd.url, crowd.key, backoff_seconds=0.1) as client:
        id = client.new_id()
        scene.answers.append(await ask(client, crowd.tenant, question, id))
    return DoneFault(at, KIND, id, beside)
