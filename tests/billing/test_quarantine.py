"""Events that were held back: decided on once, and what is accepted is in the books exactly once."""

import msgspec
import pytest

from billing.biller import post
from billing.posting import Quarantined
from billing.quarantine import accept, dismiss, held_events
from billing.usage import UsageEvent, encode
from core.database import Database
from core.errors import Refused
from tests.billing.events import an_event
from tests.billing.test_books import proven


async def one_held(database: Database, *events: UsageEvent) -> str:
    """Posts the events, of which the last is held back."""
    await post(database, "default", [encode(event) for event in events])
    (held,) = await held_events(database)
    return held.event_sha256


async def test_an_event_with_a_wrong_cost_is_billed_by_its_prices(database: Database) -> None:
    """Once it is accepted; a second decision is refused."""
    wrong = msgspec.structs.replace(an_event(), cost_nano=1)
    event = await one_held(database, wrong)
    assert (await proven(database)).lines == 0
    assert await accept(database, event, "the worker was wrong") == "billed"
    assert (await proven(database)).amount_nano == an_event().cost_nano
    for again in (accept, dismiss):
        with pytest.raises(Refused):
            await again(database, event, "again")
    (resolved,) = await held_events(database, resolved=True)
    assert resolved.resolution == "accepted (billed): the worker was wrong"
    assert await held_events(database) == []


async def test_a_later_event_becomes_the_difference(database: Database) -> None:
    """The request was billed with 7 output tokens; the later event says 9."""
    first = an_event(input_cached=0)
    later = an_event(input_cached=0, output_text=9)
    event = await one_held(database, first, later)
    (held,) = await held_events(database)
    assert held.reason == Quarantined.CONFLICTING
    assert await accept(database, event, "late tokens") == "corrected by 1 lines"
    found = await proven(database)
    assert (found.amount_nano, found.txns) == (later.cost_nano, 2)


async def test_what_is_dismissed_books_nothing(database: Database) -> None:
    """An event that cannot be read can only be dismissed."""
    await post(database, "default", [b"rubbish"])
    (held,) = await held_events(database)
    with pytest.raises(Refused):
        await accept(database, held.event_sha256, "why not")
    await dismiss(database, held.event_sha256, "rubbish")
    assert await held_events(database) == []
    with pytest.raises(Refused):
        await dismiss(database, "none", "x")


async def test_an_accept_that_died_before_its_note_is_made_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Billed, not noted: the next one finds it in the books and bills nothing more."""
    event = await one_held(database, msgspec.structs.replace(an_event(), cost_nano=1))

    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr("billing.quarantine._resolve", die)
        with pytest.raises(KeyboardInterrupt):
            await accept(database, event, "x")
    assert await accept(database, event, "x") == "the books said so already"
    assert (await proven(database)).amount_nano == an_event().cost_nano
