"""What each end bills, for every reason and however far the answer had come: one table, to the ledger."""

import pytest

from billing.ledger.verify import verify_ledger
from billing.posting.biller import post
from billing.usage import encode
from core.sql.database import Database
from engine.api import EndReason, end_payload, input_decoder
from tests.engine.builders import request_input
from tests.engine.lifecycle.end_facts import facts

PROMPT = 6 * 100 + 4 * 50  # ten ids, four of them cached
TOKEN = 400
NEVER = {"claims": 0, "n": 0, "covered": 0, "input_cached": 0}
BEFORE_TEXT = {"n": 2, "covered": 0, "text": ""}
WITH_TEXT = {"n": 7, "covered": 6}

TABLE = {
    EndReason.STOP: (0, PROMPT + 2 * TOKEN, PROMPT + 7 * TOKEN),
    EndReason.LENGTH: (0, PROMPT + 2 * TOKEN, PROMPT + 7 * TOKEN),
    EndReason.CANCELLED: (0, PROMPT + 2 * TOKEN, PROMPT + 7 * TOKEN),
    EndReason.DEADLINE: (0, PROMPT + 2 * TOKEN, PROMPT + 7 * TOKEN),
    EndReason.BUDGET: (0, PROMPT + 2 * TOKEN, PROMPT + 7 * TOKEN),
    EndReason.SLOW_READER: (0, PROMPT + 2 * TOKEN, PROMPT + 7 * TOKEN),
    EndReason.BLOCKED: (0, PROMPT, PROMPT + 6 * TOKEN),
    EndReason.ERROR: (0, 0, PROMPT),
}


def test_every_reason_is_in_the_table() -> None:
    """A new reason needs its own line here."""
    assert set(TABLE) == set(EndReason)


@pytest.mark.parametrize("reason", list(EndReason))
async def test_what_an_end_bills_and_what_its_reader_is_told(reason: EndReason, sqlite: Database) -> None:
    """Neither is an abort free nor a failure charged in full, and the receipt says which. The
    cost in `end`, the event's and the ledger's are one: nothing for what never ran; the prompt and what was
    sampled for an answer; of a blocked one what was shown; of a failed one the prompt where text was."""
    request = input_decoder.decode(request_input(10))
    for number, (changes, wanted) in enumerate(
        zip((NEVER, BEFORE_TEXT, WITH_TEXT), TABLE[reason], strict=True)
    ):
        ending = end_payload(facts(reason=reason, request=f"r{number}", **changes), request)
        assert ending.event.cost_nano == wanted
        assert f'"nano":{wanted}'.encode() in ending.payload
        await post(sqlite, "default", [encode(ending.event)])
    books = await verify_ledger(sqlite, "t1")
    assert books.faults == []
    assert books.amount_nano == sum(TABLE[reason])
