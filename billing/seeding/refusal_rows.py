"""Refusals of seeded tenants by limits, an hour each. Pure."""

from collections.abc import Iterator

from billing.periods import HOUR_MS
from billing.seeding.shapes import SeedShape, chance_of
from billing.seeding.tenant_rows import UsageSource
from billing.tables.refusals import RefusalHour

LARGEST = 100  # tenants that are refused at all
KEYS = 4  # in an hour
EVENTS_EACH = 100  # for each hour with refusals, the last ones
LIMITS = (
    ("rate_limited", "key tokens_per_minute"),
    ("rate_limited", "tenant concurrency"),
    ("budget_exceeded", "key month"),
    ("overloaded", ""),
)


def refusal_rows(shape: SeedShape, of: UsageSource) -> Iterator[RefusalHour]:
    """Refusals of one tenant: some keys, and what is no key's, in each hour."""
    chance = chance_of(shape, "refusals", of.rank)
    hours = range(shape.start_ms // HOUR_MS + 1, shape.end_ms // HOUR_MS)
    for hour in hours[-max(1, of.events // EVENTS_EACH) :] if of.rank < LARGEST else ():
        for code, why in LIMITS:
            keys = [key for key, _ in of.keys[: KEYS if why.startswith("key") else 0]] or [""]
            for key in keys:
                yield RefusalHour(
                    tenant_id=of.tenant,
                    hour_ms=hour * HOUR_MS,
                    code=code,
                    why=why,
                    key_id=key,
                    user_id="",
                    number=chance.randrange(1, 50),
                    last_ms=hour * HOUR_MS,
                )
