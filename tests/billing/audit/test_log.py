"""What administrators did is recorded with the change itself, in one chain a tenant."""

import asyncio
from itertools import pairwise

import msgspec
import pytest
from sqlmodel import col, select

from billing.audit.log import HIDDEN, differing, list_rows, record, row_hash
from billing.tables.audit import AuditHead, AuditLog
from billing.tables.tenants import PLATFORM
from core.actor import Author, acting_as
from core.sql.database import Database


async def changes(db: Database, *names: str, tenant: str = "t1") -> None:
    """One recorded change after the other."""
    for name in names:
        async with db.transaction() as session:
            await record(session, tenant, "thing.change", name, {"value": 0}, {"value": 1})


async def chain(db: Database, tenant: str = "t1") -> list[AuditLog]:
    """A tenant's rows from the first on."""
    async with db.session() as session:
        statement = select(AuditLog).where(col(AuditLog.tenant_id) == tenant).order_by(col(AuditLog.seq))
        return list((await session.exec(statement)).all())


async def test_each_row_says_who_did_what_and_continues_the_chain(database: Database) -> None:
    """INV-28: Who, by what way, when, what, the values before and after; hashed with the row before."""
    with acting_as(Author("alice", "command")):
        await changes(database, "a", "b")
    await changes(database, "c", tenant=PLATFORM)
    first, second = await chain(database)
    assert (first.author, first.source, first.action, first.target) == (
        "alice",
        "command",
        "thing.change",
        "a",
    )
    assert (first.before, first.after, first.previous_sha256) == ('{"value":0}', '{"value":1}', "")
    assert (second.seq, second.previous_sha256) == (2, first.sha256)
    assert [row_hash(row) for row in (first, second)] == [first.sha256, second.sha256]
    async with database.session() as session:
        head = await session.get(AuditHead, "t1")
    assert head is not None
    assert (head.seq, head.sha256) == (2, second.sha256)
    assert [row.action for row in await chain(database, PLATFORM)] == ["audit.seal", "thing.change"]


async def test_a_change_that_fails_leaves_no_row(database: Database) -> None:
    """The row is of the transaction of its change."""
    await changes(database, "a")

    async def change_that_fails() -> None:
        async with database.transaction() as session:
            await record(session, "t1", "thing.change", "b", None, {"value": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await change_that_fails()
    assert [row.target for row in await chain(database)] == ["a"]


async def test_what_changes_nothing_is_not_recorded(sqlite: Database) -> None:
    """A command that is run again says what is so already."""
    async with sqlite.transaction() as session:
        await record(session, "t1", "thing.change", "a", {"value": 1}, {"value": 1})
    assert await chain(sqlite) == []


async def test_secrets_are_not_recorded(sqlite: Database) -> None:
    """Neither hashes of keys nor the secrets of webhooks; what is very large is kept as its digest."""
    async with sqlite.transaction() as session:
        facts = {"secret_sha256": "abc", "hook": {"Authorization": "Bearer x"}, "name": "n"}
        await record(session, "t1", "key.create", "k", None, facts)
        await record(session, "t1", "prices.imported", "book", None, {"prices": "x" * 100_000})
    rows = await chain(sqlite)
    assert msgspec.json.decode(rows[0].after) == {
        "secret_sha256": HIDDEN,
        "hook": {"Authorization": HIDDEN},
        "name": "n",
    }
    assert set(msgspec.json.decode(rows[1].after)) == {"bytes", "sha256"}


def test_of_two_values_only_what_differs_is_kept() -> None:
    """What came and what went counts as well."""
    assert differing({"a": 1, "b": 2, "c": None}, {"a": 1, "b": 3, "d": None}) == (
        {"b": 2, "c": None},
        {"b": 3, "d": None},
    )
    assert differing(None, {"a": 1}) == (None, {"a": 1})


async def test_writers_at_once_make_one_chain(database: Database) -> None:
    """INV-28: The head's row is the lock: no two rows follow the same one."""
    await asyncio.gather(*(changes(database, *(f"{writer}.{n}" for n in range(5))) for writer in range(6)))
    rows = await chain(database)
    assert [row.seq for row in rows] == list(range(1, 31))
    assert all(row.previous_sha256 == before.sha256 for before, row in pairwise(rows))


async def test_the_newest_rows_are_listed_first(sqlite: Database) -> None:
    """Of one chain, or of all for operators."""
    await changes(sqlite, "a", "b")
    await changes(sqlite, "c", tenant="t2")
    assert [row.target for row in await list_rows(sqlite, "t1")] == ["b", "a"]
    assert {row.target for row in await list_rows(sqlite, None)} == {"", "a", "b", "c"}  # and the seal
    assert await list_rows(sqlite, "t1", since_ms=1 << 60) == []
