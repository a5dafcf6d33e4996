"""The books: what usage becomes, that nothing changes it unseen, that order and repeats change no total."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.booking.assess import assess
from billing.booking.write import center_at
from billing.ledger.rows import EntryRow, LineRow, RollupRow, TxnRow, UsageEventRow, UseRow
from billing.ledger.transactions import PricedUsage, post_usage
from billing.ledger.verify import verify_ledger
from billing.posting.biller import post
from billing.tables.ledger import (
    CostCenter,
    LedgerEntry,
    LedgerHead,
    LedgerTxn,
    ProjectCostCenter,
    RollupHour,
    UsageLine,
)
from billing.tables.tenants import UsageRow
from billing.tables.wallets import WalletUse
from billing.tenants.tenancy import create_project, create_tenant
from billing.usage import UsageOwner, encode
from chaos.tampering.unguarded import tamper
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import an_hour_of, proven, read


async def test_a_request_becomes_lines_a_balanced_transaction_and_an_hour(database: Database) -> None:
    """INV-11, INV-24: 12 tokens in, 4 of them cached, 7 out: each its line, all of it owed and earned."""
    event = an_event()
    await post(database, "default", [encode(event)])
    lines: list[UsageLine] = sorted(await read(database, UsageLine), key=lambda line: line.seq)
    assert [(line.number, line.meter, line.quantity, line.amount_nano) for line in lines] == [
        (0, "request", 1, 0),
        (1, "input", 8, 800),
        (2, "cached_input", 4, 100),
        (3, "output", 7, 2_800),
    ]
    entries: list[LedgerEntry] = await read(database, LedgerEntry)
    assert {entry.account: entry.amount_nano for entry in entries} == {
        "receivable": 3_700,
        "revenue:input": -800,
        "revenue:cached_input": -100,
        "revenue:output": -2_800,
    }
    (hour,) = await read(database, RollupHour)
    assert (hour.requests, hour.errors, hour.amount_nano, hour.output_text) == (1, 0, event.cost_nano, 7)
    assert (await proven(database)).amount_nano == event.cost_nano


async def test_what_costs_nothing_is_counted_and_books_no_money(database: Database) -> None:
    """A request that failed before its first token is in the books, at zero."""
    event = an_event(reason="error", input_uncached=0, input_cached=0, output_text=0)
    await post(database, "default", [encode(event)])
    (hour,) = await read(database, RollupHour)
    assert (hour.requests, hour.errors, hour.amount_nano) == (1, 1, 0)
    assert await read(database, LedgerEntry) == []
    await proven(database)


async def test_order_repeats_and_batches_change_no_total(database: Database) -> None:
    """The same events whole, in pieces, mixed and repeated: the same sums for everyone."""
    events = an_hour_of(120, seed=1)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    for tenant in ("t1", "t2"):
        own = [encode(event) for event in an_hour_of(120, seed=1, tenant=tenant)]
        if tenant == "t1":
            await post(database, "default", own)
            continue
        pile = [*own, *chosen.choices(own, k=200)]
        chosen.shuffle(pile)
        while pile:
            size = chosen.randint(1, 60)
            await post(database, "default", pile[:size])
            pile = pile[size:]
        await post(database, "default", own)
    whole, mixed = await read(database, RollupHour, "t1"), await read(database, RollupHour, "t2")
    assert [row.model_dump(exclude={"tenant_id"}) for row in whole] == [
        row.model_dump(exclude={"tenant_id"}) for row in mixed
    ]
    for tenant in ("t1", "t2"):
        found = await proven(database, tenant)
        assert found.amount_nano == sum(event.cost_nano for event in events)


async def test_two_writers_at_once_keep_one_chain(database: Database) -> None:
    """INV-24, INV-25: Both have the same events and each some of its own; nobody waits in a circle."""
    events = [encode(event) for event in an_hour_of(200, seed=2)]
    other = [encode(event) for event in an_hour_of(50, seed=3, tenant="t0")]
    await asyncio.gather(
        post(database, "default", [*events[:150], *other]),
        post(database, "default", [*other[::-1], *events[50:][::-1]]),
        post(database, "default", events[::2]),
    )
    assert (await proven(database)).lines == len(await read(database, UsageLine))
    assert sum(line.number == 0 for line in await read(database, UsageLine)) == 200
    assert sum(line.number == 0 for line in await read(database, UsageLine, "t0")) == 50
    await proven(database, "t0")


TAMPERING = {
    "an amount": "UPDATE usage_line SET amount_nano = amount_nano + 1 WHERE seq = 3",
    "a price": "UPDATE usage_line SET price_nano = 1 WHERE seq = 3",
    "a missing line": "DELETE FROM usage_line WHERE seq = 3",
    "a missing last line": "DELETE FROM usage_line WHERE seq = (SELECT max(seq) FROM usage_line)",
    "an entry": "UPDATE ledger_entry SET amount_nano = amount_nano - 1 WHERE txn_seq = 2 AND number = 0",
    "who pays": "UPDATE ledger_entry SET project_id = 'p2' WHERE txn_seq = 2",
    "a date": "UPDATE ledger_txn SET posted_ms = posted_ms - 1 WHERE seq = 2",
    "a rollup": "UPDATE rollup_hour SET amount_nano = amount_nano + 1",
    "a forgotten end": "UPDATE ledger_head SET txn_seq = 2",
}


@pytest.mark.parametrize("what", TAMPERING)
async def test_what_was_changed_behind_the_books_is_found(database: Database, what: str) -> None:
    """INV-24: By whoever has the database and not the code."""
    for request in ("r1", "r2", "r3"):
        await post(database, "default", [encode(an_event(request))])
    await proven(database)
    await tamper(database, TAMPERING[what])
    assert (await verify_ledger(database, "t1")).faults


async def test_a_project_that_moves_leaves_its_past_where_it_was(database: Database) -> None:
    """The cost center is that of the moment when the request ended, whenever it is posted."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    project = (await create_project(database, tenant, "search")).id
    async with database.transaction() as session:
        for center in ("old", "new"):
            session.add(CostCenter(tenant_id=tenant, id=center, code=center, name="", created_ms=0))
        await session.flush()
        for center, from_ms in (("old", 1_000), ("new", 2_000)):
            row = ProjectCostCenter(
                tenant_id=tenant, project_id=project, valid_from_ms=from_ms, cost_center_id=center
            )
            session.add(row)
    owner = UsageOwner(project=project, key="k1")
    events = [an_event(f"r{at}", tenant, owner=owner, ended_ms=at) for at in (2_000, 999, 1_999)]
    await post(database, "default", [encode(event) for event in events])
    lines: list[UsageLine] = await read(database, UsageLine, tenant)
    assert {line.request_id: line.cost_center_id for line in lines} == {
        "r999": "",
        "r1999": "old",
        "r2000": "new",
    }
    entries: list[LedgerEntry] = await read(database, LedgerEntry, tenant)
    owed = {entry.cost_center_id: entry.amount_nano for entry in entries if entry.account == "receivable"}
    assert owed == {"": 3_700, "old": 3_700, "new": 3_700}


@pytest.mark.parametrize(
    ("row", "table"),
    [
        (UsageEventRow, UsageRow),
        (LineRow, UsageLine),
        (EntryRow, LedgerEntry),
        (TxnRow, LedgerTxn),
        (RollupRow, RollupHour),
        (UseRow, WalletUse),
    ],
)
def test_plain_rows_have_the_columns_of_their_table(row: Any, table: Any) -> None:
    """Every one, and no other."""
    assert set(row.__struct_fields__) == set(table.model_fields)


@given(st.lists(st.integers(0, 100), unique=True, max_size=6), st.integers(-5, 105))
def test_each_moment_has_the_last_move_before_it(moments: list[int], at: int) -> None:
    """Or none."""
    moves = [(moment, f"c{moment}") for moment in sorted(moments)]
    before = [center for moment, center in moves if moment <= at]
    assert center_at(moves, at) == (before[-1] if before else "")


def test_books_whose_rollups_are_being_rebuilt_stay_behind_with_them() -> None:
    """INV-26: Lines that came after the rebuild's place are its to add, so that none is added twice."""
    rows = assess("default", [encode(an_event())], 0).good
    priced = [PricedUsage(each.row, each.lines) for each in rows]
    behind = LedgerHead(tenant_id="t1", txn_seq=4, line_seq=10, rolled_seq=7, sha256="x")
    posting = post_usage(behind, priced, lambda project, at_ms: "", 0)
    assert (posting.head.line_seq, posting.head.rolled_seq) == (14, 7)
    assert (posting.txns[0].previous_sha256, posting.txns[0].first_line_seq) == ("x", 11)
