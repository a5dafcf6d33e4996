"""A tenant whose money is in the books and counted in Redis."""

import msgspec

from billing.enforcement.limit_cache import LimitCache
from billing.enforcement.limit_settings import set_budget
from billing.posting.biller import post
from billing.quota.client import Quota
from billing.quota.types import Admission, Admitted
from billing.tables.ledger import LedgerHead
from billing.usage import UsageEvent, UsageOwner, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.limited import NANO
from tests.support.redis import Redis

COST = 12 + 2 * 7  # of an event, in nano


class QuotaLedger:
    """A tenant with books, whose requests are admitted under its rows."""

    def __init__(self, db: Database, redis: Redis, settings: Settings, tenant: str) -> None:
        self.db = db
        self.redis = redis
        self.settings = settings
        self.tenant = tenant
        self.quota = Quota(redis, settings, db)
        self.book = LimitCache(db)

    def event(self, id: str, **facts: object) -> UsageEvent:
        """An ended request of it, accepted now."""
        owner = UsageOwner(project="p1", key="k1", user="u1")
        event = an_event(id, self.tenant, owner=owner, prices=NANO, input_uncached=12, input_cached=0)
        given: dict[str, object] = {"cost_nano": COST, "accepted_ms": now_ms(), **facts}
        return msgspec.structs.replace(event, **given)

    async def booked(self, id: str, **facts: object) -> UsageEvent:
        """One whose lines are in the books."""
        event = self.event(id, **facts)
        batch, _ = await post(self.db, "A", [encode(event)])
        assert not batch.held, batch.held
        return event

    async def ask(self, id: str, quota: Quota | None = None) -> Admitted | Refusal:
        """The answer to a request."""
        now = now_ms()
        limits = await self.book.limits_for(self.tenant, "p1", "k1", "u1", "m1", now)
        admission = Admission(
            tenant=self.tenant,
            id=id,
            body_hash="h",
            owner_key="k1",
            project="p1",
            user="u1",
            model="smollm2",
            pool="A",
            fingerprint="f",
            input_tokens=12,
            chunk_tokens=256,
            deadline_ms=now + 600_000,
            prices=NANO,
            limits=limits,
        )
        return await (quota or self.quota).admit(admission)

    async def spend(self, id: str, **facts: object) -> None:
        """A request that is posted, and counted in Redis."""
        event = await self.booked(id, **facts)
        async with self.db.session() as session:
            head = await session.get(LedgerHead, self.tenant)
        assert head is not None
        await self.quota.settle(event, head.line_seq)

    async def is_out_of_money(self, id: str) -> None:
        """A request is refused by the wallet, with numbers that fit together."""
        refusal = await self.ask(id)
        assert isinstance(refusal, Refusal), id
        assert (refusal.code, refusal.dimension) == ("insufficient_quota", "wallet")
        limit, spent, held = refusal.limit or 0, refusal.spent or 0, refusal.held or 0
        assert refusal.remaining == max(0, limit - spent - held)

    async def budget(self, limit_nano: int, **facts: object) -> str:
        """A budget of the tenant; its id."""
        of: dict[str, object] = {"scope": "tenant", "period": "month", "limit_nano": limit_nano, **facts}
        row = await set_budget(self.db, self.redis, self.tenant, **of)  # type: ignore[arg-type]
        self.book.changed(self.tenant)
        return row.id

    async def posted(self) -> list[tuple[int, int, int]]:
        """Posted, unbooked and held of everything that is counted."""
        found = await self.quota.budget_sums(self.tenant)
        return [(each.posted_nano, each.unbooked_nano, each.held_nano) for each in found]
