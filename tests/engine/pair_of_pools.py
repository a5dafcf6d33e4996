"""Two pools that requests move between."""

from typing import Any

from billing.api import Admission, Quota
from engine.api import Claim, Enqueue, Enqueued, Migrator
from tests.engine.builders import PRICES, START_MS, TENANT, Pool, append_to, request
from tests.support.redis import Redis


class Pair:
    """Two pools on one Redis with one clock, and the tenant's directory."""

    def __init__(self, redis: Redis, a: str = "a", b: str = "b") -> None:
        self.a, self.b = Pool(redis, name=a), Pool(redis, name=b)
        self.b.clock = self.clock = self.a.clock
        self.b.__post_init__()
        self.quota = Quota(redis, self.a.settings)
        self.mover = Migrator(redis, self.a.settings, self.a.settings.keyring, self.clock)

    async def admit(self, e: Enqueue) -> None:
        """Bind the request to the first pool."""
        admission = Admission(
            tenant=e.tenant,
            id=e.id,
            body_hash=e.body_hash,
            owner_key="k1",
            project="p1",
            user="",
            model=e.model,
            pool=self.a.name,
            fingerprint=e.fingerprint,
            input_tokens=e.prompt_tokens,
            chunk_tokens=256,
            deadline_ms=e.deadline_ms,
            prices=PRICES,
            now_ms=START_MS,
        )
        await self.quota.admit(admission)

    async def enqueue(self, **changes: Any) -> Enqueue:
        """A request that waits in the first pool; the second one has a worker for it."""
        await self.b.worker("wb")
        e = request(**changes)
        await self.admit(e)
        assert isinstance(await self.a.queue.enqueue(e), Enqueued)
        return e

    async def running(self, **changes: Any) -> Claim:
        """A request that runs in the first pool and has said `ab`."""
        await self.a.worker("wa")
        await self.enqueue(**changes)
        (claim,) = await self.a.claim("wa")
        await self.a.queue.append("wa", [append_to(claim, ids=(1, 2), x="ab")])
        return claim

    async def bound(self, id: str) -> str:
        """Where the directory says the request is."""
        found = await self.quota.directory(TENANT, id)
        assert found is not None
        return found.pool

    async def reap(self) -> None:
        """A round of the old pool's reaper, as far as moves go."""
        for tenant, id in (await self.a.queue.reap()).moves:
            await self.mover.finish(self.a.name, tenant, id)
