"""Loads the safety policies that claims wait for: from the pool, checked by their hash, compiled in a thread.

What it cannot load ends those claims typed: nothing is sampled under a policy that is not known.
"""

import asyncio
import re

from engine.queue.client import PoolQueue
from engine.queue.pinned_policies import is_policy
from engine.safety.documents import document_of
from engine.safety.policy import CompiledPolicy, compiled
from engine.worker.policy_cache import PolicyCache

HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class PolicyLoader:
    """Loads policies for one worker."""

    def __init__(self, queue: PoolQueue, policies: PolicyCache) -> None:
        self._queue = queue
        self._policies = policies
        self._turn = asyncio.Lock()  # compiling holds up the decode path: one policy at a time

    async def load(self, hash: str) -> str:
        """Load a policy. Returns the problem with it, empty where it is there now; no problem has any text of
        it. Raises RedisError."""
        if not HASH.fullmatch(hash):
            return "its safety policy has no hash"
        document = await self._queue.policy(hash)
        if document is None:
            return f"safety policy {hash} is not in the pool"
        async with self._turn:
            try:
                policy = await asyncio.to_thread(_compiled, hash, document)
            except Exception as error:  # noqa: BLE001  (whatever is wrong with it, its answers end)
                return f"safety policy {hash} cannot be read ({type(error).__name__})"
        self._policies.keep(hash, policy)
        return ""


class DamagedPolicyError(ValueError):
    """A document that its hash is not of."""


def _compiled(hash: str, document: bytes) -> CompiledPolicy:
    if not is_policy(hash, document):
        raise DamagedPolicyError
    return compiled(document_of(document))
