"""A tenant whose days cost what a test says, at a moment that the test is in."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from billing.posting.biller import post
from billing.tenants.tenancy import find_project, find_tenant
from billing.usage import PinnedPrices, UsageEvent, UsageOwner, encode
from core.sql.database import Database
from tests.billing.events import an_event

A_DOLLAR = PinnedPrices("default", 1, 0, 0, 1_000_000_000_000_000)  # of one output token


@dataclass(frozen=True)
class Moment:
    """A time that stands still: for `clock_from`."""

    at: datetime

    def time_ns(self) -> int:
        """Unix time in nanoseconds."""
        return self.unix_ms * 1_000_000

    def monotonic(self) -> float:
        """Seconds that only rise."""
        return asyncio.get_running_loop().time()

    @property
    def unix_ms(self) -> int:
        """Unix time in milliseconds."""
        return int(self.at.timestamp() * 1000)


async def spend(db: Database, name: str, days: Mapping[datetime, int]) -> None:
    """Have the tenant's default project spend whole dollars at these times."""
    tenant = await find_tenant(db, name)
    assert tenant is not None
    project = await find_project(db, tenant.tenant_id, "default")
    assert project is not None
    owner = UsageOwner(project.id, "k1", "u1")
    events = [_costing(tenant.tenant_id, owner, at, dollars) for at, dollars in days.items()]
    await post(db, "default", [encode(event) for event in events])


def noons(first: date, costs: list[int]) -> dict[datetime, int]:
    """Consecutive days' costs, at noon in UTC."""
    noon = datetime(first.year, first.month, first.day, 12, tzinfo=UTC)
    return {noon + timedelta(at): cost for at, cost in enumerate(costs)}


def _costing(tenant: str, owner: UsageOwner, at: datetime, dollars: int) -> UsageEvent:
    ended = int(at.timestamp() * 1000)
    return an_event(
        f"r{ended}",
        tenant,
        owner=owner,
        accepted_ms=ended,
        ended_ms=ended,
        prices=A_DOLLAR,
        input_uncached=0,
        input_cached=0,
        output_text=dollars,
    )
