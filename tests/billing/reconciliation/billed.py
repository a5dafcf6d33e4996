"""Tenants whose usage was billed."""

from collections.abc import Sequence
from typing import Any

from billing.posting.biller import post
from billing.quota.client import Quota
from billing.quota.types import Admission
from billing.reconciliation.comparison import (
    Comparison,
    ComparisonState,
)
from billing.usage import UsageEvent, encode
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import PRICES
from tests.support.redis import Redis


async def admitted(redis: Redis, settings: Settings, request: str, **changes: object) -> None:
    """An open admission, of tenant t1 where no other is named."""
    facts: dict[str, Any] = {"deadline_ms": 1 << 42, "tenant": "t1"} | changes
    db: Database | None = facts.pop("db", None)
    admission = Admission(
        id=request,
        body_hash="h",
        owner_key="k1",
        project="p1",
        user="u1",
        model="smollm2",
        pool="default",
        fingerprint="f1",
        input_tokens=12,
        chunk_tokens=256,
        prices=PRICES,
        **facts,
    )
    await Quota(redis, settings, db).admit(admission)


async def billed(database: Database, redis: Redis, settings: Settings, *events: UsageEvent) -> None:
    """Admitted, posted and settled."""
    for event in events:
        await admitted(redis, settings, event.request, tenant=event.tenant)
        await Quota(redis, settings).settle(event)
    await post(database, "default", [encode(event) for event in events])


def differing(compared: Sequence[Comparison]) -> set[str]:
    """Which checks differ."""
    return {each.check.value for each in compared if each.state is ComparisonState.DIFFERS}
