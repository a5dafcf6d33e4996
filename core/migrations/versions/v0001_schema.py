"""The schema of 0.1.0, with the price book "default". A later change is v0002 with revision "p0002"."""

from core.migrations.v0001 import ledger, people, prices, seed, service, tenants

revision = "p0001"
down_revision = None


def upgrade() -> None:
    """Make all tables, those that others refer to first, and the rows that each installation begins with."""
    prices.make()
    tenants.make()
    people.make()
    ledger.make()
    service.make()
    seed.add()
