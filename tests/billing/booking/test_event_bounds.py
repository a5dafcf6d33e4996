"""Policy, class, trace, verdicts and phases of an event: booked as they came, held where made up."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.booking.assess import Quarantined, assess
from billing.booking.event_bounds import beyond_bounds
from billing.posting.biller import post
from billing.requests.explain import booked_of
from billing.usage import (
    Phase,
    PhaseKind,
    RequestPhase,
    UsageEvent,
    decode,
    encode,
    ended_phases,
    verdicts_of,
)
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import found
from tests.billing.posting.billers import rows

POLICY, TRACE_ID = "0a" * 32, "0b" * 16
MOST = (1 << 31) - 1
CATEGORIES = [f"c{number}" for number in range(64)]

BEYOND: dict[str, dict[str, Any]] = {
    "a policy that is no hash": {"policy": "0A" * 32},
    "a short policy": {"policy": "0a" * 31},
    "a policy with a line behind it": {"policy": POLICY + "\n"},
    "a trace that is none": {"trace_id": TRACE_ID[:-1]},
    "a class that is no word": {"priority": "Bulk 1"},
    "a long class": {"priority": "b" * 17},
    "too many categories": {"verdicts": {name: {"flag": 1} for name in [*CATEGORIES, "one_more"]}},
    "a category that is no name": {"verdicts": {"E-mail": {"flag": 1}}},
    "a long category": {"verdicts": {"c" * 65: {"flag": 1}}},
    "a category of other letters": {"verdicts": {"\u0435mail": {"flag": 1}}},
    "no category": {"verdicts": {"": {"flag": 1}}},
    "an action that there is not": {"verdicts": {"email": {"praise": 1}}},
    "less than nothing": {"verdicts": {"email": {"flag": -1}}},
    "more than anything": {"verdicts": {"email": {"flag": MOST + 1}}},
    "more phases than there may be": {"phases": [("lost", 1)] * 17},
    "a phase that there is not": {"phases": [("queued", 0), ("praised", 1)]},
}


@pytest.mark.parametrize("changes", BEYOND.values(), ids=list(BEYOND))
def test_what_is_beyond_bounds_is_held(changes: dict[str, Any]) -> None:
    """With a reason, and nothing is billed; what stands beside it is."""
    batch = assess("default", [encode(an_event(**changes)), encode(an_event("r2"))], 3_000)
    assert [each.reason for each in batch.held] == [Quarantined.UNSTORABLE]
    assert next(iter(changes)) in batch.held[0].detail
    assert [each.row.request_id for each in batch.good] == ["r2"]


@pytest.mark.parametrize("count", [1.5, "1", None, True, [1], {"a": 1}])
def test_what_is_no_whole_number_cannot_be_read(count: object) -> None:
    """Nor is it billed."""
    facts = msgspec.msgpack.decode(encode(an_event())) | {"verdicts": {"email": {"flag": count}}}
    (held,) = assess("default", [msgspec.msgpack.encode(facts)], 3_000).held
    assert held.reason == Quarantined.UNDECODABLE


def test_the_most_of_everything_is_within_bounds() -> None:
    """And so is nothing."""
    every = {name: dict.fromkeys(("block", "flag", "redact"), MOST) for name in CATEGORIES}
    event = an_event(policy=POLICY, priority="b" * 16, trace_id=TRACE_ID, verdicts=every)
    assert beyond_bounds(event) == ""
    assert beyond_bounds(an_event(verdicts={"email": {"flag": 0}, "card": {}})) == ""


NAMES = st.text(alphabet="ab_9Z\n\u0435", max_size=3)


@given(st.dictionaries(st.tuples(NAMES, st.sampled_from(["block", "flag", "redact", "x"])), st.integers()))
def test_what_an_honest_end_counts_is_within_bounds(counts: dict[tuple[str, str], int]) -> None:
    """Whatever it was told: an answer never goes unbilled for its counts."""
    assert beyond_bounds(an_event(verdicts=verdicts_of(counts))) == ""


@given(st.lists(st.tuples(st.sampled_from(["queued", "lost", "ended", "x", ""]), st.integers()), max_size=40))
def test_the_phases_of_an_honest_end_are_within_bounds(phases: list[Phase]) -> None:
    """Whatever was in the record: no answer goes unbilled for them, and its end is the last."""
    event = an_event(phases=ended_phases(phases, PhaseKind.ENDED, 1_000))
    assert beyond_bounds(event) == ""
    times = [ms for _, ms in event.phases]
    assert times == sorted(times)
    assert event.phases[-1] == ("ended", 1_000)


async def test_phases_are_booked_in_order_and_within_the_request(database: Database) -> None:
    """As other times are; and the request's explanation has them."""
    told = [("queued", -7), ("claimed", 90), ("decode", 80), ("lost", 1 << 62), ("ended", 1_000)]
    await post(database, "default", [encode(an_event(phases=told))])
    booked = await booked_of(database, "t1", "r1")
    assert booked is not None
    expected = [("queued", 0), ("claimed", 90), ("decode", 90), ("lost", 1_000), ("ended", 1_000)]
    assert booked.phases == [RequestPhase(*phase) for phase in expected]
    assert await found(database) == ""


@pytest.mark.parametrize(
    "phases", [[["queued"]], [["queued", 1, 2]], [[1, "queued"]], {"queued": 1}, ["queued"]]
)
def test_phases_that_are_none_cannot_be_read(phases: object) -> None:
    """The event is held whole."""
    facts = msgspec.msgpack.decode(encode(an_event())) | {"phases": phases}
    (held,) = assess("default", [msgspec.msgpack.encode(facts)], 3_000).held
    assert held.reason == Quarantined.UNDECODABLE


async def test_verdicts_class_and_trace_are_booked_and_proved(database: Database) -> None:
    """As they came, in one order, in either database; the books that have them are whole."""
    facts = {"policy": POLICY, "priority": "bulk", "trace_id": TRACE_ID}
    counts = {"email": {"redact": 2, "flag": 1}, "card": {"block": 1}}
    await post(
        database, "default", [encode(an_event("r1", verdicts=counts, **facts)), encode(an_event("r2"))]
    )
    told, untold = sorted(await rows(database), key=lambda row: row.request_id)
    assert (told.policy_sha256, told.priority_class, told.trace_id) == (POLICY, "bulk", TRACE_ID)
    assert [(name, list(each.items())) for name, each in told.safety_verdicts.items()] == [
        ("card", [("block", 1)]),
        ("email", [("flag", 1), ("redact", 2)]),
    ]
    assert (untold.policy_sha256, untold.priority_class, untold.trace_id) == ("", "", "")
    assert untold.safety_verdicts == {}
    assert await found(database) == ""


def test_events_of_before_are_read_and_written_as_before() -> None:
    """Workers and billers of two versions run side by side, and journals keep old events: the bytes of an
    event that no policy has to do with are the same."""
    new = {"policy", "priority", "trace_id", "verdicts", "phases"}
    facts = msgspec.msgpack.decode(encode(an_event()))
    assert not new & set(facts)
    event = decode(msgspec.msgpack.encode(facts))
    assert (event.policy, event.priority, event.trace_id, event.verdicts, event.phases) == (
        "",
        "",
        "",
        {},
        [],
    )
    assert set(facts) < set(UsageEvent.__struct_fields__)
