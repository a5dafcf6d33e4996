"""A send under an id that was billed long ago: it is nobody's way to an answer that nobody pays for."""

import pytest

from billing.posting.biller import post
from billing.usage import encode
from core.clock import now_ms
from core.ids import uuid7
from tests.billing.events import an_event
from tests.server.conftest import gateway as gateway
from tests.server.site import Site

MINUTE_MS = 60_000


@pytest.mark.parametrize("minutes", [10, 20, 23 * 60])
async def test_an_id_that_was_billed_is_not_run_again(gateway: Site, minutes: int):
    """The directory forgets it a quarter of an hour after it was booked, and ids may be a day old: a second
    event of one request is held back, so it would run for nothing. What never ran may come."""
    made_ms = now_ms() - minutes * MINUTE_MS
    billed, lost = uuid7(made_ms), uuid7(made_ms)
    await post(gateway.database, "default", [encode(an_event(billed, gateway.tenant))])
    async with gateway.welcomed() as peer:
        await peer.send("hi", id=billed)
        answer = await peer.hear()
        assert (answer["t"], answer.get("code")) == ("error", "id_conflict")
        assert "new one" in answer["message"]
        await peer.send("hi", id=lost)
        assert (await peer.hear())["t"] == "accepted"
