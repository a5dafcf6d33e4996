"""Posts the events of seeded tenants as a biller does: rows, lines, ledger, rollups, wallets and budgets."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from billing.posting.biller import post
from billing.seeding.shapes import SeedShape
from billing.seeding.tenant_rows import UsageSource
from billing.seeding.usage_events import usage_events
from billing.usage import UsageEvent, encode
from core.sql.database import Database

POSTED_AT_ONCE = 500


async def post_seeded_usage(
    db: Database, shape: SeedShape, sources: Iterable[UsageSource], pool: str
) -> None:
    """Post all events of these tenants, one tenant after another."""
    for source in sources:
        for batch in _batches(usage_events(shape, source, pool)):
            await post(db, pool, [encode(event) for event in batch])


def shared_out(sources: Sequence[UsageSource], among: int) -> list[list[UsageSource]]:
    """The tenants in so many parts with about as many events each, for processes that post beside each
    other. Pure."""
    parts: list[list[UsageSource]] = [[] for _ in range(among)]
    events = [0] * among
    for source in sorted(sources, key=lambda each: -each.events):
        least = events.index(min(events))
        parts[least].append(source)
        events[least] += source.events
    return parts


def _batches(events: Iterator[UsageEvent]) -> Iterator[list[UsageEvent]]:
    while batch := list(islice(events, POSTED_AT_ONCE)):
        yield batch
