"""Who used what is proved: no fact of a request, and no request, is changed, added or deleted unseen."""

from typing import Any

import pytest

from billing.audit.log import list_rows, record
from billing.booking.assess import assess
from billing.cli.audit import faults_in, verify_all
from billing.ledger.derived import rollup_differences
from billing.ledger.proofs import KEPT_OF_WORDS, WHOLE, event_proof, words_proof
from billing.ledger.rows import EntryRow, LineRow, TxnRow
from billing.ledger.transactions import chain_hash
from billing.ledger.verify import verify_ledger
from billing.posting.biller import post
from billing.reconciliation.rebuild_rollups import rebuild_wrong_rollups
from billing.tables.tenants import UsageRow
from billing.tenants.tenancy import create_tenant
from billing.usage import encode
from chaos.tampering.unguarded import tamper
from core.errors import Refused
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import OPAQUE, booked, found

EDITS = {
    "user_id": f"'u_{'0b' * 16}'",
    "project_id": "'p2'",
    "key_id": "'k2'",
    "conversation_id": "'c2'",
    "model": "'large'",
    "pool": "'other'",
    "fingerprint": "'f2'",
    "accepted_ms": "accepted_ms - 1",
    "claimed_ms": "0",
    "first_token_ms": "1600",
    "ended_ms": "ended_ms + 1",
    "reason": "'error'",
    "code": "'internal'",
    "input_uncached": "0",
    "input_cached": "0",
    "output_text": "1",
    "output_reasoning": "6",
    "price_book_id": "'cheap'",
    "price_version": "2",
    "currency": "'eur'",
    "cost_nano": "1",
    "claims": "2",
    "recomputed_tokens": "9",
    "request_metadata": '\'{"a": "y"}\'',
    "event_sha256": "'00'",
    "policy_sha256": "'00'",
    "priority_class": "'bulk'",
    "trace_id": "'another'",
    "safety_verdicts": '\'{"email": {"flag": 9}}\'',
    "phases": "'[[\"queued\", 9]]'",
    "posted_ms": "posted_ms + 1",
}


def test_each_fact_of_a_request_is_tried() -> None:
    """A column that is added later is proved too."""
    untried = {"tenant_id", "request_id", "words_proof"}
    assert set(EDITS) | untried == set(UsageRow.model_fields)


async def test_a_fact_of_a_request_that_was_changed_is_named(sqlite: Database) -> None:
    """With the request, whichever it is."""
    await booked(sqlite, *(f"r{number}" for number in range(len(EDITS))))
    assert await found(sqlite) == ""
    for number, (name, value) in enumerate(EDITS.items()):
        await tamper(sqlite, f"UPDATE usage_event SET {name} = {value} WHERE request_id = 'r{number}'")
    faults = (await verify_ledger(sqlite, "t1")).faults
    for number, name in enumerate(EDITS):
        own = [fault for fault in faults if f"request r{number}:" in fault]
        assert len(own) == 1, (name, own)
        assert name in own[0]


async def test_a_changed_fact_is_found_on_postgres_too(database: Database) -> None:
    """And what was not changed is whole there: labels, numbers, texts."""
    await booked(database, "r1", "r2")
    assert await found(database) == ""
    await tamper(database, "UPDATE usage_event SET user_id = 'u9' WHERE request_id = 'r2'")
    assert "transaction 2: request r2: user_id: not what was booked" in await found(database)
    await tamper(database, "DELETE FROM usage_event WHERE request_id = 'r1'")
    assert "request r1: its event was deleted" in await found(database)


@pytest.mark.parametrize(
    ("statements", "match"),
    [
        (["DELETE FROM usage_event WHERE request_id = 'r2'"], "request r2: its event was deleted"),
        (
            ["UPDATE usage_event SET tenant_id = 't2' WHERE request_id = 'r2'"],
            "request r2: its event was deleted",
        ),
        (
            [
                "UPDATE usage_event SET request_id = 'x' WHERE request_id = 'r1'",
                "UPDATE usage_event SET request_id = 'r1' WHERE request_id = 'r2'",
                "UPDATE usage_event SET request_id = 'r2' WHERE request_id = 'x'",
            ],
            "request r1: event_sha256, ",
        ),
        (["UPDATE usage_line SET proof = '' WHERE seq = 1"], "transaction 1: its hash is not"),
        (["UPDATE ledger_txn SET hash_version = 1 WHERE seq = 2"], "transaction 2: its hash is not"),
        (["UPDATE ledger_txn SET hash_version = 3 WHERE seq = 2"], "transaction 2: its hash is of version 3"),
        (
            ["UPDATE usage_event SET request_metadata = '{}', words_proof = '' WHERE request_id = 'r1'"],
            "request r1: request_metadata: not what was booked",
        ),
        (
            [
                "UPDATE usage_event SET request_metadata = '{}', words_proof = substr(words_proof, 1, 65) "
                "WHERE request_id = 'r1'"
            ],
            "request r1: its labels are gone, and nobody erased them",
        ),
        (
            [
                "INSERT INTO usage_line SELECT tenant_id, 99, 'r9', 0, kind, meter, quantity, price_nano, "
                "amount_nano, price_book_id, price_version, cost_center_id, adjusts_seq, ended_ms, "
                "posted_ms, proof FROM usage_line WHERE seq = 1"
            ],
            "line 99: nobody booked it",
        ),
    ],
)
async def test_a_request_that_was_deleted_moved_or_made_up_is_named(
    sqlite: Database, statements: list[str], match: str
) -> None:
    """As are words that were taken away without erasing anybody, and a proof."""
    await booked(sqlite, "r1", "r2")
    await tamper(sqlite, *statements)
    assert match in await found(sqlite)


async def test_a_request_that_nobody_booked_is_named(sqlite: Database) -> None:
    """Also where it was another tenant's."""
    await booked(sqlite, "r1")
    await booked(sqlite, "r5", tenant="t2")
    await tamper(sqlite, "UPDATE usage_event SET tenant_id = 't1' WHERE tenant_id = 't2'")
    assert await found(sqlite) == "request r5: it was never booked, or booked for another"
    assert "request r5: its event was deleted, or is another's" in await found(sqlite, "t2")


def test_what_is_left_of_erased_words_proves_the_rest_and_says_nothing() -> None:
    """The same proof before and after, two keys for the same words, and none where there are no words."""
    (row,) = (each.row for each in assess("default", [encode(an_event())], 0).good)
    before = event_proof(row)
    assert len(row.words_proof) == WHOLE
    assert words_proof("u1", {"a": 1})[:KEPT_OF_WORDS] != words_proof("u1", {"a": 1})[:KEPT_OF_WORDS]
    row.user_id, row.request_metadata = OPAQUE, {}
    row.words_proof = row.words_proof[:KEPT_OF_WORDS]
    assert event_proof(row) == before
    row.key_id = "k2"
    assert event_proof(row) != before
    assert words_proof(OPAQUE, {}) == words_proof("", {}) == ""


async def test_erasing_breaks_no_proof(sqlite: Database) -> None:
    """A user who was known by a name, with labels: both are gone, and the proof holds."""
    await post(sqlite, "default", [encode(an_event("r1"))])
    await tamper(
        sqlite,
        f"UPDATE usage_event SET user_id = '{OPAQUE}', request_metadata = '{{}}', "
        f"words_proof = substr(words_proof, 1, {KEPT_OF_WORDS})",
        f"UPDATE rollup_hour SET user_id = '{OPAQUE}'",
    )
    async with sqlite.transaction() as session:
        await record(session, "t1", "user.erase", OPAQUE, None, {"erased_ms": 1})
    assert await found(sqlite) == ""


def test_the_hash_of_books_is_what_it_was() -> None:
    """As 0.1.0 makes it: what stands in books, and was kept of them elsewhere, goes on being right."""
    txn = TxnRow(
        tenant_id="t1",
        seq=1,
        kind="usage",
        idempotency_key="usage:r1",
        posted_ms=5,
        first_line_seq=1,
        last_line_seq=1,
        previous_sha256="",
        sha256="",
    )
    entry = EntryRow(
        tenant_id="t1",
        txn_seq=1,
        number=0,
        account="receivable",
        amount_nano=3,
        project_id="p1",
        cost_center_id="",
    )
    line = LineRow(
        tenant_id="t1",
        seq=1,
        request_id="r1",
        number=0,
        kind="usage",
        meter="request",
        quantity=1,
        price_nano=3,
        amount_nano=3,
        price_book_id="default",
        price_version=1,
        cost_center_id="",
        adjusts_seq=None,
        ended_ms=4,
        posted_ms=5,
        proof="00",
    )
    assert (
        chain_hash(txn, [entry], [line]) == "ac35da27a82c1593178a65fec3a8418b4f2fc78054f8da092692ce55b20da742"
    )


HOUR = (0, "p1", "", "u1", "k1", "small", "default")
SUMS = (2, 0, 5, 0, 7, 0, 300)


def other_hour(**changes: Any) -> tuple[Any, ...]:
    """The key with some of it changed."""
    names = ("hour_ms", "project_id", "cost_center_id", "user_id", "key_id", "model", "pool")
    return tuple(changes.get(name, value) for name, value in zip(names, HOUR, strict=True))


@pytest.mark.parametrize(
    ("kept", "match"),
    [
        ({HOUR: SUMS}, ""),
        ({HOUR: SUMS, other_hour(user_id="u2"): (0,) * 7}, ""),
        ({}, "hour 0 project=p1 cost_center= user=u1 key=k1 model=small pool=default: its rollup is missing"),
        ({other_hour(user_id="u2"): SUMS}, "in its rollup user_id is 'u2', not 'u1'"),
        ({other_hour(hour_ms=3_600_000): SUMS}, "in its rollup hour_ms is 3600000, not 0"),
        (
            {HOUR: SUMS, other_hour(key_id="k2"): SUMS},
            "key=k2 model=small pool=default: there is a rollup and no",
        ),
        ({HOUR: (2, 0, 5, 0, 8, 0, 301)}, "its rollup says output_text 8, not 7, amount_nano 301, not 300"),
    ],
)
def test_a_rollup_is_compared_by_its_key(kept: dict[Any, Any], match: str) -> None:
    """What was changed in it is named."""
    faults = rollup_differences(kept, {HOUR: SUMS})
    assert len(faults) == bool(match)
    assert match in "".join(faults)


async def test_rollups_are_made_again_only_from_books_that_are_whole(sqlite: Database) -> None:
    """A request that was changed would be in them as it was changed."""
    await booked(sqlite, "r1", "r2")
    assert await rebuild_wrong_rollups(sqlite, "t1") == 0
    edit = "UPDATE rollup_hour SET user_id = 'u9'"
    await tamper(sqlite, edit)
    assert await rebuild_wrong_rollups(sqlite, "t1") == 1
    assert await found(sqlite) == ""
    (row,) = await list_rows(sqlite, "t1")
    assert (row.action, "'u9', not" in row.after) == ("reconciliation.rebuild", True)
    await tamper(sqlite, edit, "UPDATE usage_event SET user_id = 'u9' WHERE request_id = 'r1'")
    with pytest.raises(Refused, match="the books themselves are wrong"):
        await rebuild_wrong_rollups(sqlite, "t1")


@pytest.mark.parametrize(
    "garbage",
    [
        "UPDATE audit_state SET state = '{'",
        "UPDATE audit_log SET at_ms = 'x'",
        "UPDATE usage_event SET request_metadata = '{'",
        "UPDATE usage_line SET amount_nano = 'x'",
        "UPDATE usage_event SET claimed_ms = 'x'",
    ],
)
async def test_what_nobody_can_read_hides_nothing_else(garbage: str, sqlite: Database) -> None:
    """It is a fault itself, and what is wrong with others is named."""
    ids = [(await create_tenant(sqlite, name)).tenant_id for name in ("a", "b")]
    for id in ids:
        await booked(sqlite, "r1", "r2", tenant=id)
    bad, other = sorted(ids)
    await tamper(sqlite, f"UPDATE usage_event SET model = 'x' WHERE tenant_id = '{other}'")
    await tamper(sqlite, f"{garbage} WHERE tenant_id = '{bad}'")
    wrong = faults_in(await verify_all(sqlite, None, {}))
    assert any(id == bad for id, _ in wrong)
    assert any(id == other and "model" in fault for id, fault in wrong)


@pytest.mark.parametrize("seq", ["0", "1", "line_seq + 9"])
async def test_rollups_that_are_said_to_be_behind_are_named(seq: str, sqlite: Database) -> None:
    """Reports would lack what they lack; made again they are whole, and so are those after."""
    await booked(sqlite, "r1", "r2")
    await tamper(sqlite, "DELETE FROM rollup_hour", f"UPDATE ledger_head SET rolled_seq = {seq}")
    assert "rollups go up to line" in await found(sqlite)
    assert await rebuild_wrong_rollups(sqlite, "t1") > 0
    await booked(sqlite, "r3")
    assert await found(sqlite) == ""


async def test_a_rollups_user_that_was_changed_is_named(database: Database) -> None:
    """Though no sum is another; and a user's share of it, between two of them."""
    await booked(database, "r1", "r2")
    await post(database, "default", [encode(an_event("r3"))])
    assert await found(database) == ""
    await tamper(database, f"UPDATE rollup_hour SET user_id = 'u9' WHERE user_id = '{OPAQUE}'")
    assert f"in its rollup user_id is 'u9', not '{OPAQUE}'" in await found(database)
    await tamper(
        database,
        f"UPDATE rollup_hour SET user_id = '{OPAQUE}' WHERE user_id = 'u9'",
        f"UPDATE rollup_hour SET amount_nano = amount_nano + CASE user_id WHEN '{OPAQUE}' THEN -7 ELSE 7 END",
    )
    assert "its rollup says amount_nano 7393, not 7400" in await found(database)
