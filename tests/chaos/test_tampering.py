"""What is edited past the commands is found by the verification that operators run."""

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from billing.audit_heads.earlier import VerifiedHeads, verify_against_earlier
from billing.cli.audit import Found, faults_in, verify_all
from billing.posting.biller import post
from chaos.tampering.edits import EDITS, Edit
from chaos.tampering.filling import fill, typing
from chaos.tampering.trying import NotWholeError, tried
from core.sql.database import Database
from tests.support.home import TEST_SECRET

SHORT = (
    "a request's user_id",
    "a request's cost_nano",
    "a request that was deleted",
    "a request that was made up",
    "a line's amount",
    "two transactions changed for one another",
    "a rollup's user",
    "a charge's month",
    "what is left of a grant",
    "a tier's minimum",
    "who made a change",
    "the last change, deleted with its head",
    "the last change, deleted by a restore that was made up",
)


def test_there_are_forty_kinds_and_no_two_of_one_name() -> None:
    """Those of the short form are among them."""
    names = [edit.name for edit in EDITS]
    assert len(set(names)) == len(names) >= 40
    assert set(SHORT) <= set(names)


def test_edits_past_the_commands_are_found(home: Path, redis_url: str, sqlite_template: Path) -> None:
    """One of each sort; `python -m chaos bench tampering` tries them all."""
    shutil.copy(sqlite_template, home / "parley.db")
    type_line = typing({"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url})
    database, kept = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}"), list[VerifiedHeads]()

    def book(events: Sequence[bytes]) -> None:
        runner.run(closing_after(post(database, "default", events)))

    async def verified() -> list[Found]:
        return await verify_all(database, None, (await verify_against_earlier(database, kept)).faults)

    def verify() -> str:
        found = runner.run(closing_after(verified()))
        if not kept:
            kept.extend(
                VerifiedHeads(books.tenant_id, books.txns, books.sha256, log.rows, log.sha256)
                for _, books, log, _ in found
            )
        return next((fault for _, fault in faults_in(found)), "")

    async def closing_after(done: Awaitable[Any]) -> Any:
        """The file is replaced between two of them."""
        result = await done
        await database.close()
        return result

    with asyncio.Runner() as runner:
        ids = fill(home, type_line, book, TEST_SECRET)
        chosen = [edit for edit in EDITS if edit.name in SHORT]
        results = list(tried(home / "parley.db", verify, chosen, ids))
        assert [each.name for each in results if not each.found] == []
        assert "acme-7: user_id: not what was booked" in results[0].fault
        with pytest.raises(ValueError, match="nothing to edit"):
            list(tried(home / "parley.db", verify, [Edit("none", ("DELETE FROM gpu_cost",))], ids))
        with closing(sqlite3.connect(home / "parley.db")) as connection, connection:
            connection.execute("UPDATE rollup_hour SET requests = 0")
        with pytest.raises(NotWholeError, match="its rollup says requests 0"):
            list(tried(home / "parley.db", verify, [], ids))
