"""Usage becomes lines, and a transaction that balances."""

from billing.posting.biller import post
from billing.tables.ledger import LedgerEntry, UsageLine
from billing.usage import encode
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read


async def test_what_is_owed_is_what_was_earned(sqlite: Database) -> None:
    """Each kind of token has its line, at the price that was pinned when it was admitted. Amounts are whole
    nano-USD: nothing is lost in between. Posting the same event again changes nothing."""
    event = an_event()
    for _ in range(2):
        await post(sqlite, "default", [encode(event)])
    lines: list[UsageLine] = await read(sqlite, UsageLine)
    entries: list[LedgerEntry] = await read(sqlite, LedgerEntry)
    assert sum(line.amount_nano for line in lines) == event.cost_nano
    assert sum(entry.amount_nano for entry in entries) == 0
    assert [each.amount_nano for each in entries if each.account == "receivable"] == [event.cost_nano]
