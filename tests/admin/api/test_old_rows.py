"""What calls and sessions leave behind goes, also where their owners never come again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from sqlmodel import func, select

from admin import console
from admin.api import old_rows
from billing.people import person_sessions
from billing.people.person_sessions import open_person_session
from billing.people.persons import create_member
from billing.tables.people import PersonSession
from billing.tables.replies import KeptReply
from billing.tables.runs import OperationRun
from billing.tables.tenants import PLATFORM
from billing.unit_of_work import replies, run_rows
from core.clock import now_ms
from core.sql.database import Database
from tests.support.home import settings_in
from tests.support.patience import wait_until

DAY_MS, MONTH_MS = 86_400_000, 30 * 86_400_000


def kept(caller: str, number: int, made_ms: int) -> KeptReply:
    """A reply to a caller who may come again or not."""
    tenant = "acme" if number % 2 else PLATFORM
    facts = {"digest": "d", "state": replies.DONE, "reply": "null"}
    return KeptReply.model_validate(
        {"tenant_id": tenant, "caller": caller, "key": f"k{number}", "made_ms": made_ms, **facts}
    )


def run(id: str, beat_ms: int) -> OperationRun:
    """A run whose process ended."""
    who = {"tenant_id": PLATFORM, "caller": "gone", "author": "Ann", "operation": "workers.drain"}
    facts = {"state": run_rows.RunState.RUNNING, "events": "[]", "answer": "null", "problem": "null"}
    return OperationRun.model_validate({"id": id, "begun_ms": 0, "beat_ms": beat_ms, **who, **facts})


async def left(db: Database, table: Any) -> int:
    """How many rows there are."""
    async with db.session() as session:
        return (await session.exec(select(func.count()).select_from(table))).one()


async def test_replies_runs_and_sessions_go_when_they_are_old(database: Database) -> None:
    """In batches, whosever they are; what is young stays, to the millisecond."""
    now = now_ms()
    member = await create_member(database, PLATFORM, "Ann", "owner")
    async with database.transaction() as session:
        session.add_all(kept("gone", number, now - DAY_MS - 60_000) for number in range(7))
        session.add_all([kept("young", 1, now), run("old", now - DAY_MS - 60_000), run("young", now)])
        for ends_ms in (now + MONTH_MS, now + MONTH_MS, now - MONTH_MS - 60_000):
            new = await open_person_session(session, member.person, member.membership, "192.0.2.1", "Browser")
            new.signed_in.session.ends_ms = ends_ms
    assert [await replies.clear_replies(database, now, 3) for _ in range(4)] == [3, 3, 1, 0]
    await old_rows.clear_round(database)
    assert (await left(database, KeptReply), await left(database, OperationRun)) == (1, 1)
    assert await left(database, PersonSession) == 2
    edge = now + DAY_MS
    assert await replies.clear_replies(database, edge) == await run_rows.clear_runs(database, edge) == 0
    assert (
        await replies.clear_replies(database, edge + 1) == await run_rows.clear_runs(database, edge + 1) == 1
    )
    ends = now + 2 * MONTH_MS
    assert await person_sessions.clear_person_sessions(database, ends - 1) == 0
    assert await person_sessions.clear_person_sessions(database, ends) == 2


async def test_the_tenants_console_leaves_the_platforms_rows(sqlite: Database) -> None:
    """Its role on Postgres may not delete them; the operators' console does."""
    now = now_ms()
    member = await create_member(sqlite, PLATFORM, "Ann", "owner")
    async with sqlite.transaction() as session:
        session.add_all(kept("gone", number, now - DAY_MS - 60_000) for number in range(5))
        session.add(run("old", now - DAY_MS - 60_000))
        new = await open_person_session(session, member.person, member.membership, "192.0.2.1", "Browser")
        new.signed_in.session.ends_ms = now - MONTH_MS - 60_000
    tables = (KeptReply, OperationRun, PersonSession)
    for staff, rows in ((False, [3, 1, 1]), (True, [0, 0, 0])):
        await old_rows.clear_round(sqlite, staff)
        assert [await left(sqlite, table) for table in tables] == rows, staff


async def test_one_step_that_fails_keeps_no_other_from_its_work(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again in the next round."""
    done: list[str] = []

    async def fails(*_: object, staff: bool) -> int:
        done.append("failed")
        raise OperationalError("", None, Exception())

    async def works(*_: object, staff: bool) -> int:
        done.append("worked")
        return 0

    monkeypatch.setattr(old_rows, "STEPS", (fails, works))
    await old_rows.clear_round(sqlite)
    await old_rows.clear_round(sqlite)
    assert done == ["failed", "worked"] * 2


async def test_a_console_does_it(home: Path, redis_url: str, sqlite: Database) -> None:
    """While it serves; and ends with it."""
    async with sqlite.transaction() as session:
        session.add(kept("gone", 1, now_ms() - 2 * DAY_MS))
    stop, settings = asyncio.Event(), settings_in(home, redis_url=redis_url, console_port=0)
    serving = asyncio.create_task(console.serve(settings, stop))
    await wait_until(lambda: gone(sqlite))
    stop.set()
    await serving


async def gone(db: Database) -> bool:
    """True once no reply is left."""
    return await left(db, KeptReply) == 0
