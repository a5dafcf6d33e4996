"""A seeded installation is one that Parley could have written: its chains and books are whole."""

import pytest
from sqlalchemy import text

from billing.audit.compare import compare_states
from billing.audit.verify import owners, verify_log
from billing.ledger.verify import verify_ledger
from billing.seeding.bulk import refresh_statistics
from billing.seeding.bulk_usage import write_bulk_usage
from billing.seeding.fill import seed_settings
from billing.seeding.shapes import SeedShape, tenant_shapes
from billing.seeding.usage_posting import post_seeded_usage, shared_out
from billing.tables.tenants import PLATFORM
from billing.wallets.budgets import budget_faults
from core.clock import now_ms
from core.sql.database import Database

SMALL = SeedShape(tenants=4, events=300, end_ms=now_ms(), days=3)


async def test_no_check_finds_a_fault_in_what_was_seeded(database: Database) -> None:
    """Audit chains, states of rows, ledgers and budgets' sums; and there are as many events as were asked
    for."""
    said: list[str] = []
    seeded = await seed_settings(database, SMALL, said.append)
    for part in shared_out(seeded.sources, 2):
        await post_seeded_usage(database, SMALL, part, "default")
    await refresh_statistics(database)
    assert said
    for tenant in (PLATFORM, *await owners(database)):
        assert (await verify_log(database, tenant)).faults == []
        assert (await compare_states(database, tenant)).faults == []
    for source in seeded.sources:
        assert (await verify_ledger(database, source.tenant)).faults == []
        assert await budget_faults(database, source.tenant) == []
    async with database.engine.connect() as connection:
        found = (await connection.execute(text("SELECT count(*), max(ended_ms) FROM usage_event"))).one()
    assert found[0] == SMALL.events
    assert found[1] <= SMALL.end_ms


@pytest.mark.parametrize("looked_into", [1.0, 0.5])
async def test_books_that_are_written_at_once_are_as_posted_ones(
    database: Database, looked_into: float
) -> None:
    """The ledger has no fault where all requests have rows; else there are sums by the hour without lines.
    They are of all requests. Budgets' sums are kept."""
    seeded = await seed_settings(database, SMALL, lambda _: None)
    await write_bulk_usage(database, SMALL, seeded.sources, "default", looked_into)
    for source in seeded.sources:
        faults = (await verify_ledger(database, source.tenant)).faults
        assert (faults == []) is (looked_into == 1), faults
        assert await budget_faults(database, source.tenant) == []
    async with database.engine.connect() as connection:
        asked = "SELECT sum(requests), (SELECT count(*) FROM usage_event) FROM rollup_hour"
        summed, posted = (await connection.execute(text(asked))).one()
        assert summed == SMALL.events
        assert abs(posted - SMALL.events * looked_into) <= SMALL.tenants
        kept = await connection.execute(text("SELECT count(DISTINCT tenant_id) FROM budget_spent"))
        assert kept.scalar_one() == SMALL.tenants
        refused = await connection.execute(text("SELECT count(DISTINCT tenant_id) FROM refusal_hour"))
        assert refused.scalar_one() == SMALL.tenants


def test_few_tenants_are_large_and_their_events_are_all() -> None:
    """The largest of a thousand has an eighth of the events, and nobody's name is another's."""
    shapes = tenant_shapes(SeedShape(tenants=1000, events=1_000_000, end_ms=0))
    assert sum(each.events for each in shapes) == 1_000_000
    assert 120_000 < shapes[0].events < 150_000
    assert shapes[-1].events < 200
    assert len({each.name for each in shapes}) == 1000
