"""What waits to be sent."""

from sqlalchemy import update

from billing.tables.wallets import Outbox
from core.sql.database import Database
from tests.billing.ledger.ledger_reading import read


async def row_of(database: Database, message: Outbox) -> Outbox:
    """The message as it is now."""
    rows: list[Outbox] = await read(database, Outbox, message.tenant_id)
    return next(row for row in rows if row.id == message.id)


async def make_due(database: Database) -> None:
    """As if the time of the next attempt had come."""
    async with database.transaction() as session:
        await (await session.connection()).execute(update(Outbox).values(next_attempt_ms=0))
