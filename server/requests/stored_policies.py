"""Stores the safety policies that this gateway enqueues under in their pools, each once a minute.

So one that stands there is damaged for a minute at most, and never goes before what is under it. One that is
lost in between is stored with the next enqueue (engine/queue/client.py).
"""

from collections import OrderedDict

from core.clock import monotonic
from engine.api import PinnedPolicy, PoolQueue

STORE_SECONDS = 60.0
STORED_MAX = 10_000


class StoredPolicies:
    """What one gateway has stored lately."""

    def __init__(self) -> None:
        self._stored: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def store(self, queue: PoolQueue, policy: PinnedPolicy | None) -> None:
        """Store a policy in a pool, where this gateway did not within the last minute. None: none is needed
        there."""
        if policy is None:
            return
        name, now = (queue.pool, policy.hash), monotonic()
        if now - self._stored.get(name, -STORE_SECONDS) < STORE_SECONDS:
            return
        self._stored[name] = now  # others need not wait: an enqueue that finds none stores it
        self._stored.move_to_end(name)
        if len(self._stored) > STORED_MAX:
            self._stored.popitem(last=False)
        await queue.store_policy(policy)
