"""What a small fault in a proof would let through: words that were added, charges, rows outside the books."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from sqlmodel import col, select

from billing.audit.log import record
from billing.booking.assess import assess
from billing.ledger.derived import rollup_differences
from billing.ledger.proofs import (
    CHARGE_FACTS,
    KEPT_OF_WORDS,
    changed_in_charge,
    changed_in_event,
    charge_proof,
    event_proof,
)
from billing.ledger.sources import Sources, source_faults
from billing.ledger.transactions import chain_hash
from billing.ledger.verify import Verified, follow_chain, verify_ledger
from billing.periods import HOUR_MS
from billing.posting.biller import post
from billing.tables.ledger import LedgerEntry, LedgerHead, LedgerTxn, UsageLine
from billing.tables.prices import Charge
from billing.usage import UsageOwner, encode
from chaos.tampering.unguarded import tamper
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import OPAQUE, booked, found

DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("owner", "kept", "changes", "named"),
    [
        (UsageOwner("p1", "k1", OPAQUE), "", {}, []),
        (UsageOwner("p1", "k1", OPAQUE), "", {"request_metadata": {"a": 1}}, ["request_metadata"]),
        (UsageOwner("p1", "k1", OPAQUE, metadata=b'{"a":1}'), "erased", {"request_metadata": {}}, []),
        (
            UsageOwner("p1", "k1", OPAQUE, metadata=b'{"a":1}'),
            "erased",
            {"request_metadata": {"a": 2}},
            ["request_metadata"],
        ),
        (
            UsageOwner("p1", "k1", OPAQUE, metadata=b'{"a":1}'),
            "cut",
            {"request_metadata": {}},
            ["request_metadata"],
        ),
    ],
)
def test_words_where_none_are_proved_are_named(
    owner: UsageOwner, kept: str, changes: dict[str, Any], named: list[str]
) -> None:
    """Labels of one that had none, labels put back after they were erased, half of a proof's key."""
    (row,) = (each.row for each in assess("default", [encode(an_event(owner=owner))], 0).good)
    proof = event_proof(row)
    if kept:
        row.words_proof = row.words_proof[: KEPT_OF_WORDS + (1 if kept == "cut" else 0)]
    for name, value in changes.items():
        setattr(row, name, value)
    assert changed_in_event(row, proof) == named


def test_each_fact_of_a_charge_is_proved_but_a_users_name() -> None:
    """Whom it is of by an id that says nothing is proved; a name may be erased."""
    facts: dict[str, Any] = {name: f"some {name}" for name in CHARGE_FACTS} | {
        "created_ms": 3,
        "end_ms": 2,
        "start_ms": 1,
        "user_id": OPAQUE,
    }
    proof = charge_proof(SimpleNamespace(**facts))
    assert changed_in_charge(SimpleNamespace(**facts), proof) == []
    for name, value in facts.items():
        another = value + 1 if isinstance(value, int) else "u_" + "1b" * 16
        assert changed_in_charge(SimpleNamespace(**{**facts, name: another}), proof) == [name]
    anne, erased = (charge_proof(SimpleNamespace(**{**facts, "user_id": user})) for user in ("anne", ""))
    assert anne == erased != proof


def test_each_line_of_a_charge_proves_it() -> None:
    """A month's close counts them from 1 on, a pool's hour from what was there: none is the first of all."""
    facts: dict[str, Any] = {"tenant_id": "t1", "id": "c1", "kind": "true_up", "model": "small"}
    charge = Charge(**facts, start_ms=1, end_ms=2, created_ms=3)
    later = Charge(**facts, start_ms=1, end_ms=9, created_ms=3)
    for number in range(3):
        line: Any = SimpleNamespace(
            kind="true_up", number=number, request_id="c1", proof=charge_proof(charge)
        )
        for charges, faults in (
            ({"c1": charge}, []),
            ({"c1": later}, ["charge c1: end_ms: not what was booked"]),
            ({}, ["charge c1: it was deleted"]),
        ):
            assert source_faults([line], Sources({}, charges)) == faults


async def test_that_others_were_erased_excuses_nothing(sqlite: Database) -> None:
    """Labels that are gone are of a user who was erased, or of an erased tenant; not of whoever else was."""
    await booked(sqlite, "r1")
    async with sqlite.transaction() as session:
        await record(session, "t1", "user.erase", "u_" + "0b" * 16, None, {"erased_ms": 1})
    words = f"words_proof = substr(words_proof, 1, {KEPT_OF_WORDS})"
    await tamper(sqlite, f"UPDATE usage_event SET request_metadata = '{{}}', {words}")
    assert "request r1: its labels are gone, and nobody erased them" in await found(sqlite)


async def test_a_time_before_its_lines_is_right_only_where_a_month_ends(sqlite: Database) -> None:
    """A request is held against its lines too: an end that is earlier than theirs is not its own."""
    await booked(sqlite, "r1")
    assert await found(sqlite) == ""
    await tamper(sqlite, "UPDATE usage_event SET ended_ms = ended_ms - 1")
    assert "request r1: ended_ms is 1999, its lines say 2000" in await found(sqlite)


LINE = (
    "INSERT INTO usage_line SELECT tenant_id, {seq}, 'r9', 0, kind, meter, quantity, price_nano, "
    "amount_nano, price_book_id, price_version, cost_center_id, adjusts_seq, ended_ms, posted_ms, proof "
    "FROM usage_line WHERE seq = 1"
)


@pytest.mark.parametrize("seq", [0, -1])
async def test_a_line_before_the_first_is_named(sqlite: Database, seq: int) -> None:
    """As is one behind the last."""
    await booked(sqlite, "r1")
    await tamper(sqlite, LINE.format(seq=seq))
    assert f"line {seq}: nobody booked it" in await found(sqlite)


async def test_an_entry_of_no_transaction_is_named(sqlite: Database) -> None:
    """Which whoever has the file may add: it would move an account's balance."""
    await booked(sqlite, "r1")
    with closing(sqlite3.connect(str(sqlite.engine.url.database))) as connection, connection:
        connection.execute(
            "INSERT INTO ledger_entry SELECT tenant_id, 99, 0, account, amount_nano, project_id, "
            "cost_center_id FROM ledger_entry WHERE txn_seq = 1 AND number = 0"
        )
    assert await found(sqlite) == "an entry of transaction 99: nobody booked it, the books end at 1"


async def test_a_transaction_with_a_hash_of_its_own_breaks_the_chain(sqlite: Database) -> None:
    """The hash has no secret: whoever changes a transaction can make it anew, and the next one still names
    the one that was there."""
    await booked(sqlite, "r1", "r2")
    await tamper(sqlite, "UPDATE ledger_txn SET posted_ms = posted_ms - 1 WHERE seq = 1")
    async with sqlite.session() as session:
        txn = await session.get_one(LedgerTxn, ("t1", 1))
        of_entries = (
            select(LedgerEntry).where(col(LedgerEntry.txn_seq) == 1).order_by(col(LedgerEntry.number))
        )
        entries = (await session.exec(of_entries)).all()
        of_lines = select(UsageLine).where(col(UsageLine.request_id) == "r1").order_by(col(UsageLine.seq))
        sha256 = chain_hash(txn, entries, (await session.exec(of_lines)).all())
    await tamper(sqlite, f"UPDATE ledger_txn SET sha256 = '{sha256}' WHERE seq = 1")
    assert await found(sqlite) == "transaction 2: does not continue the hash chain"


async def test_the_last_hash_is_that_of_the_head(sqlite: Database) -> None:
    """Else the last transaction could be changed with its hash."""
    await booked(sqlite, "r1")
    await tamper(sqlite, "UPDATE ledger_head SET sha256 = 'x'")
    assert "the books end at transaction 1" in await found(sqlite)


async def test_who_reads_on_knows_what_was_read_by_its_hash(sqlite: Database) -> None:
    """A mark names a transaction and its hash: the same number with another one is another one."""
    await booked(sqlite, "r1", "r2")
    read = await verify_ledger(sqlite, "t1")
    async with sqlite.session() as session:
        head = await session.get_one(LedgerHead, "t1")
        for sha256, faults in (
            (read.sha256, []),
            ("x", ["transaction 2 is not the one that was read before"]),
        ):
            on = Verified("t1")
            await follow_chain(session, head, on, 2, sha256)
            assert on.faults == faults


@pytest.mark.parametrize("later_ms", [DAY_MS - 1, DAY_MS, DAY_MS + 1, 3 * DAY_MS + HOUR_MS - 1])
async def test_a_lost_rollup_is_missed_at_any_hour(sqlite: Database, later_ms: int) -> None:
    """Also of the first moment of the hours that are read next, where nothing but its lines tells of it."""
    first, last = an_event("r1", ended_ms=10 * DAY_MS + 5), an_event("r2", ended_ms=10 * DAY_MS + later_ms)
    for event in (first, last):
        await post(sqlite, "default", [encode(event)])
    assert await found(sqlite) == ""
    await tamper(sqlite, f"DELETE FROM rollup_hour WHERE hour_ms > {10 * DAY_MS}")
    assert "its rollup is missing" in await found(sqlite)


def test_a_rollup_that_moved_has_its_own_sums() -> None:
    """One that is too many, of other sums, is not what is missing."""
    here, there = (0, "p1", "", "u1", "k1", "small", "default"), (0, "p1", "", "u2", "k1", "small", "default")
    faults = rollup_differences({there: (1, 0, 5, 0, 7, 0, 300)}, {here: (2, 0, 5, 0, 7, 0, 300)})
    assert [fault.partition(": ")[2] for fault in faults] == [
        "its rollup is missing",
        "there is a rollup and no lines",
    ]
