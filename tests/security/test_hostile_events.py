"""Nothing a client chooses makes an event unbillable: hostile values in all such fields, both databases."""

import itertools

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import select

from billing.booking.assess import EVENT_BYTES_MAX, KEPT_BYTES
from billing.ledger.verify import verify_ledger
from billing.posting.biller import post, post_in_parts
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.usage import UsageEvent, UsageOwner, encode
from core.sql.database import Database
from tests.billing.events import an_event

HOSTILE = st.one_of(
    st.sampled_from(
        [
            "free\x00rider",
            "\x00" * 200,
            "😀" * 200,
            "x" * 100_000,
            "\ufdd0a",
            "\ufffe",
            "\x1b[2J",
            "'); --",
            "\ue000",
        ]
    ),
    st.text(max_size=20),
)
LABELS = st.one_of(
    st.sampled_from(
        [
            b'{"a":"\\u0000"}',
            b'{"\\u0000":1}',
            b'{"a":"\\ud800"}',
            b'{"a":' + b"9" * 3_000 + b"}",
            b'{"a":-9223372036854775809,"b":18446744073709551616}',
            b'{"a":1e999,"b":-0.0,"c":5e-324}',
            b'{"a":NaN}',
            b'{"a":1,"a":2,"":null}',
            b"\xff\xfe",
            b"[" * 2_000,
        ]
    ),
    st.dictionaries(HOSTILE, st.one_of(HOSTILE, st.integers(), st.floats(), st.none())).map(
        msgspec.json.encode
    ),
)
# Every field of the event and its owner that a client's own words reach, and what lies next to them.
OWNERS = st.builds(UsageOwner, HOSTILE, HOSTILE, HOSTILE, HOSTILE, LABELS)
EVENTS = st.builds(
    lambda owner, model, code, fingerprint: an_event(
        owner=owner, model=model, code=code, fingerprint=fingerprint
    ),
    OWNERS,
    HOSTILE,
    HOSTILE,
    HOSTILE,
)
numbers = itertools.count()


@settings(max_examples=12)
@given(events=st.lists(EVENTS, min_size=4, max_size=8))
async def test_every_hostile_event_is_billed(database: Database, events: list[UsageEvent]):
    """With its cost; nothing is held back, and the books stay whole."""
    number = next(numbers)
    batch = [
        msgspec.structs.replace(event, tenant=f"t{number}", request=f"r{at}")
        for at, event in enumerate(events)
    ]
    parts = await post_in_parts(database, "default", [encode(event) for event in batch])
    assert [held.detail for part, _ in parts for held in part.held] == []
    async with database.session() as session:
        rows = (await session.exec(select(UsageRow).where(UsageRow.tenant_id == f"t{number}"))).all()
    assert {row.request_id: row.cost_nano for row in rows} == {each.request: each.cost_nano for each in batch}
    assert len({row.user_id for row in rows}) == len({each.owner.user for each in batch})
    assert (await verify_ledger(database, f"t{number}")).faults == []


async def test_what_no_gateway_can_have_made_is_not_kept_whole(database: Database):
    """A worker that was taken over writes events as large as Redis takes them: the rest of the batch is
    billed, and whoever lists what is held does not read gigabytes."""
    large = an_event("large", owner=UsageOwner("p1", "k1", metadata=b"[" * (EVENT_BYTES_MAX + 1)))
    small = an_event("small")
    await post(database, "default", [encode(large), b"x" * (EVENT_BYTES_MAX + 1), encode(small)])
    async with database.session() as session:
        held = (await session.exec(select(UsageQuarantine))).all()
        billed = [row.request_id for row in (await session.exec(select(UsageRow))).all()]
    assert billed == ["small"]
    assert {(row.reason, len(row.event)) for row in held} == {("undecodable", KEPT_BYTES)}
    assert len(held) == 2
