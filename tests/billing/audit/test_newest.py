"""The newest changes of all chains."""

from billing.audit.log import record
from billing.audit.newest import newest_changes
from billing.audit.pages import AuditSearch, audit_page
from billing.tables.tenants import PLATFORM
from core.sql.database import Database

READ = frozenset({"request.show"})


async def test_they_are_those_of_the_whole_log(database: Database) -> None:
    """Over all chains, newest first, but for those that are left out."""
    for at in range(30):
        async with database.transaction() as session:
            action = "request.show" if at % 5 == 0 else "key.create"
            await record(session, (PLATFORM, "t1", "t2")[at % 3], action, str(at), None, {"at": at})
    rows, _ = await audit_page(database, AuditSearch())
    every = [row.target for row in rows if row.action not in READ]
    for count in (1, 5, 100):
        found = await newest_changes(database, count, READ)
        assert [row.target for row in found] == every[:count]


async def test_an_empty_log_has_none(database: Database) -> None:
    """As on the first day."""
    assert list(await newest_changes(database, 5, {"audit.seal"})) == []
