"""Whoever changes the books is found out."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from billing.ledger.verify import verify_ledger
from billing.posting.biller import post
from billing.usage import encode
from chaos.tampering.unguarded import tamper
from core.sql.database import Database
from tests.billing.events import an_event


async def test_the_books_are_a_chain_that_grows_and_is_never_edited(sqlite: Database) -> None:
    """The database refuses to change a line; who takes its triggers away breaks the chain of hashes."""
    event = an_event()
    await post(sqlite, "default", [encode(event)])
    assert (await verify_ledger(sqlite, event.tenant)).faults == []
    cheaper = "UPDATE usage_line SET amount_nano = 1 WHERE meter = 'output'"
    with pytest.raises(DBAPIError):
        async with sqlite.transaction() as session:
            await (await session.connection()).execute(text(cheaper))
    await tamper(sqlite, cheaper)
    assert (await verify_ledger(sqlite, event.tenant)).faults
