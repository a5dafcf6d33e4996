"""Whoever changes the record of what was done is found out."""

import pytest

from billing.audit.log import record
from billing.audit.verify import VerifiedLog, owners, verify_log
from billing.audit_heads.earlier import VerifiedHeads, verify_against_earlier
from billing.enforcement.plans import create_plan
from billing.tenants.tenancy import create_tenant
from chaos.tampering.unguarded import tamper
from core.sql.database import Database

TENANT = "t1"


async def five_changes(db: Database) -> VerifiedLog:
    """A chain of five rows that is whole."""
    for number in range(5):
        async with db.transaction() as session:
            await record(session, TENANT, "thing.change", str(number), None, {"value": number})
    found = await verify_log(db, TENANT)
    assert (found.rows, found.faults) == (5, [])
    return found


async def found_after(db: Database, *statements: str) -> list[str]:
    """What is found after these statements."""
    await tamper(db, *statements)
    return (await verify_log(db, TENANT)).faults


CUT_OFF = "DELETE FROM audit_log WHERE seq = 5"
HEAD_TOO = "UPDATE audit_head SET seq = 4, sha256 = (SELECT sha256 FROM audit_log WHERE seq = 4)"


@pytest.mark.parametrize(
    ("statements", "match"),
    [
        (["UPDATE audit_log SET author = 'somebody' WHERE seq = 3"], "change 3: its hash"),
        (["UPDATE audit_log SET after = '{}' WHERE seq = 3"], "change 3: its hash"),
        (["UPDATE audit_log SET at_ms = at_ms + 1 WHERE seq = 5"], "change 5: its hash"),
        (["DELETE FROM audit_log WHERE seq = 3"], "change 4: follows 2"),
        (["DELETE FROM audit_log WHERE seq = 1"], "change 2: follows 0"),
        (
            [
                "DELETE FROM audit_log WHERE seq = 2",
                "UPDATE audit_log SET seq = 2 WHERE seq = 3",
                "UPDATE audit_log SET seq = 3 WHERE seq = 4",
                "UPDATE audit_log SET seq = 4 WHERE seq = 5",
                "UPDATE audit_head SET seq = 4",
            ],
            "change 2: does not continue",
        ),
        (
            [
                "UPDATE audit_log SET seq = 99 WHERE seq = 2",
                "UPDATE audit_log SET seq = 2 WHERE seq = 3",
                "UPDATE audit_log SET seq = 3 WHERE seq = 99",
            ],
            "change 2: does not continue",
        ),
        ([CUT_OFF], "end at 4, their head says 5"),
        (["DELETE FROM audit_log"], "end at 0, their head says 5"),
        (["DELETE FROM audit_head"], "no writer put it behind"),
        (
            [
                "INSERT INTO audit_log SELECT tenant_id, 6, at_ms, author, source, action, target, before,"
                " after, previous_sha256, sha256, '' FROM audit_log WHERE seq = 5"
            ],
            "change 6: no writer put it behind",
        ),
        (["UPDATE audit_head SET seq = 6"], "end at 5, their head says 6"),
    ],
)
async def test_a_row_that_was_changed_removed_inserted_or_moved_is_found(
    sqlite: Database, statements: list[str], match: str
) -> None:
    """And an end that was cut off, while its head is as it was."""
    await five_changes(sqlite)
    assert match in "\n".join(await found_after(sqlite, *statements))


async def test_a_chain_is_whole_on_postgres_too(database: Database) -> None:
    """And what was changed there is found."""
    await five_changes(database)
    assert await found_after(database, "UPDATE audit_log SET target = 'x' WHERE seq = 2") != []


async def test_an_end_that_was_cut_off_with_its_head_is_found_by_what_was_kept(sqlite: Database) -> None:
    """The database alone says nothing of it: what was printed before, and kept elsewhere, does."""
    before = await five_changes(sqlite)
    kept = [VerifiedHeads(TENANT, changes=5, changes_sha256=before.sha256)]
    assert (await verify_against_earlier(sqlite, kept)).faults == {TENANT: []}
    assert await found_after(sqlite, CUT_OFF, HEAD_TOO) == []
    assert (await verify_against_earlier(sqlite, kept)).faults == {
        TENANT: ["change 5: it is not the one that was read before"]
    }
    assert await found_after(sqlite, "DELETE FROM audit_log", "DELETE FROM audit_head") == []
    assert (await verify_against_earlier(sqlite, kept)).faults != {TENANT: []}
    missing = await verify_against_earlier(sqlite, [VerifiedHeads("t2", transactions=3, sha256="x")])
    assert missing.faults == {"t2": ["transaction 3: it is not the one that was read before"]}


async def test_a_chain_can_be_read_from_where_it_was_read_before(sqlite: Database) -> None:
    """What was read before is not read again, but for the row that it ended at."""
    before = await five_changes(sqlite)
    async with sqlite.transaction() as session:
        await record(session, TENANT, "thing.change", "5", None, {})
    found = await verify_log(sqlite, TENANT, 5, before.sha256)
    assert (found.rows, found.faults) == (1, [])
    assert (await verify_log(sqlite, TENANT, 5, "another")).faults != []


async def test_chains_without_a_tenant_are_found(sqlite: Database) -> None:
    """The platform's own, and what is left of a tenant whose row somebody deleted."""
    tenant = await create_tenant(sqlite, "acme")
    await five_changes(sqlite)
    await create_plan(sqlite, "gold")
    assert await owners(sqlite) == {"": "(platform)", tenant.tenant_id: "acme", TENANT: "(deleted)"}
