"""Files over the API: sent while they are made, by whoever may, and whole or broken off."""

import asyncio
import csv
import io
from collections.abc import AsyncGenerator
from decimal import Decimal
from functools import partial
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect

from admin.api import file_reply
from admin.api.file_reply import (
    BYTES_PER_SECOND_MIN,
    FILE_SECONDS_MAX,
    PIECE_SECONDS_MAX,
    FileReply,
    ReceiverPace,
)
from admin.api.still import may_still
from billing.api import Stores, actor_of_session, find_person_session
from billing.people.person_sessions import end_person_session
from billing.posting.biller import post
from billing.reports import charge_pages
from billing.reports.focus import COLUMNS
from billing.tables.audit import AuditLog
from billing.tenants.tenancy import find_project
from billing.unit_of_work.file_turns import OF_TENANT_MAX, FileTurns
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.errors import Refused
from core.file_answer import FileAnswer
from core.operations import Role
from tests.admin.api.conftest import ApiSite, created
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read

ODD = ("=SUM(A1)", "+1", "@cmd|' /C calc'!A0", 'a "quoted", name', "أحمد", "😀 Zoë", "-2;=1+1")
EXPORT = "/api/tenants/acme/chargeback/export"


def rows_of(reply: httpx.Response) -> list[list[str]]:
    """The cells of a file."""
    return list(csv.reader(io.StringIO(reply.content.decode("utf-8-sig"), newline="")))


@pytest.fixture
async def acme(site: ApiSite, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tenant with usage of users of odd names, read in pages of three."""
    monkeypatch.setattr(charge_pages, "ROWS_AT_ONCE", 3)
    staff = await site.signed_in(Role.OWNER)
    tenant = await created(staff)
    project = await find_project(site.database, tenant, "default")
    assert project is not None
    for name in ODD:
        reply = await staff.post("/api/tenants/acme/users", json={"user": name, "reason": "r"})
        assert reply.status_code == 200, reply.text
    users = (await staff.get("/api/tenants/acme/users")).json()["items"]
    now = now_ms()
    events = [
        an_event(f"r{n}", tenant, owner=UsageOwner(project.id, "k1", user["user"]), ended_ms=now + n)
        for n, user in enumerate(users)
    ]
    await post(site.database, "default", [encode(event) for event in events])
    await created(staff, "other")
    return tenant


async def test_a_member_saves_their_month(site: ApiSite, acme: str) -> None:
    """As a file of a plain name, in which no cell is a formula and each name is as people know it; its rows
    add up to the report. What was taken stands in the audit log."""
    payer = await site.signed_in(Role.BILLING, acme, "Bea")
    report = (await payer.get("/api/tenants/acme/chargeback")).json()
    month = report["month"]
    for kind, amount in (("focus", "BilledCost"), ("table", "usd")):
        reply = await payer.get(EXPORT, params={"format": kind})
        assert (
            reply.headers["content-disposition"] == f'attachment; filename="parley-acme-{month}-{kind}.csv"'
        )
        assert reply.headers["content-type"].startswith("text/csv")
        head, *rows = rows_of(reply)
        total = sum(Decimal(row[head.index(amount)]) for row in rows)
        assert total * 10**9 == int(report["total"]["nano"])
        size = (await payer.get(f"{EXPORT}-size", params={"format": kind})).json()
        assert (size["rows"], size["total"]) == (len(rows), report["total"])
        user = head.index("user" if kind == "table" else "x_UserId")
        assert {row[user].lstrip("'").replace(";'=", ";=") for row in rows} == set(ODD)
        assert not any(cell[:1] in "=+@-" for row in rows for cell in row if cell and not is_number(cell))
    assert head != list(COLUMNS)
    recorded = [row for row in await read(site.database, AuditLog, acme) if row.action == "usage.export"]
    assert [row.tenant_id for row in recorded] == [acme] * 2


def is_number(cell: str) -> bool:
    """What may begin with a minus."""
    try:
        Decimal(cell)
    except ArithmeticError:
        return False
    return True


async def test_the_report_alone_is_a_file_too(site: ApiSite, acme: str) -> None:
    """Exact, with the sums of its rows and columns."""
    payer = await site.signed_in(Role.ADMIN, acme)
    asked = {"format": "report", "rows": "user", "columns": "model"}
    report = (await payer.get("/api/tenants/acme/chargeback", params={"rows": "user"})).json()
    head, *rows = rows_of(await payer.get(EXPORT, params=asked))
    assert head == ["row_kind", "row_id", "user", "smollm2", "total"]
    assert len(rows) == len(ODD) + 1
    assert [row[0] for row in rows] == ["value"] * len(ODD) + ["total"]
    assert len({row[1] for row in rows[:-1]}) == len(ODD)
    assert Decimal(rows[-1][-1]) * 10**9 == int(report["total"]["nano"])


async def test_nobody_saves_what_they_may_not_see(site: ApiSite, acme: str) -> None:
    """Another tenant's month, without a role for money, not signed in, of no month."""
    payer, viewer = await site.signed_in(Role.ADMIN, acme), await site.signed_in(Role.VIEWER, acme, "Vic")
    assert (await payer.get(EXPORT.replace("acme", "other"))).status_code == 404
    assert (await viewer.get(EXPORT)).status_code == 403
    assert (await (await site.browser()).get(EXPORT)).status_code == 401
    wrong = await payer.get(EXPORT, params={"month": "2026-13"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "month")


def test_few_files_are_sent_at_once() -> None:
    """A tenant has its turns, others theirs, and the last one is for a tenant that has none; a turn that is
    given back twice counts once."""
    turns = FileTurns()
    taken = [turns.take("t1") for _ in range(OF_TENANT_MAX)]
    with pytest.raises(Refused) as refused:
        turns.take("t1")
    assert refused.value.refusal.retry
    other = turns.take("t2")
    with pytest.raises(Refused):
        turns.take("t2")
    last = turns.take("t3")
    with pytest.raises(Refused):
        turns.take("t4")
    taken[0]()
    taken[0]()
    with pytest.raises(Refused):
        turns.take("t1")
    again = turns.take("t4")
    with pytest.raises(Refused):
        turns.take("t5")
    for give_back in (*taken, other, last, again):
        give_back()
    assert turns.take("t1")


def test_a_receiver_earns_its_time() -> None:
    """By what it takes: who trickles is waited for a minute in all, and who keeps the pace no longer than a
    file may take. How long the file takes to be made is not counted."""
    trickler, pace = ReceiverPace(), BYTES_PER_SECOND_MIN
    for _ in range(6):
        assert trickler.seconds_left() > 0
        trickler.took(1000, 10.0)
    assert trickler.seconds_left() < 0.2
    steady = ReceiverPace()
    for _ in range(int(FILE_SECONDS_MAX / 10)):
        assert steady.seconds_left() == min(PIECE_SECONDS_MAX, steady.seconds_left()) > 0
        steady.took(10 * pace, 10.0)
    assert steady.seconds_left() == 0
    fast = ReceiverPace()
    fast.took(10_000 * pace, 0.5)
    assert fast.seconds_left() == PIECE_SECONDS_MAX


async def test_a_receiver_that_trickles_holds_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes each piece in time, and yet the file breaks off, and its turn is another's."""
    monkeypatch.setattr(file_reply, "GRACE_SECONDS", 0.2)
    turns, sent = FileTurns(), list[Any]()

    async def pieces() -> AsyncGenerator[bytes]:
        while True:
            yield b"a few rows"

    async def send(message: Any) -> None:
        await asyncio.sleep(0.01)
        sent.append(message)

    reply = FileReply(FileAnswer("a.csv", "text/csv", pieces(), turns.take("t1")), may)
    with pytest.raises(ClientDisconnect):
        await reply({"type": "http", "asgi": {"spec_version": "2.4"}}, nothing_more, send)
    assert all(message.get("more_body", True) for message in sent)
    assert [turns.take("t1") for _ in range(OF_TENANT_MAX)]


async def may() -> bool:
    """What is said of a caller who is still let in."""
    return True


async def nothing_more() -> Any:
    """What a receiver says that only reads."""
    return {"type": "http.request"}


async def test_a_file_that_breaks_off_is_not_taken_for_whole() -> None:
    """The reply ends with the failure, and what the file was made with is let go."""
    ended: list[str] = []

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"one"
        raise RuntimeError("the database went away")

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    reply = FileReply(FileAnswer("a.csv", "text/csv", pieces(), lambda: ended.append("ended")), may)
    with pytest.raises(RuntimeError, match="went away"):
        await reply({"type": "http", "asgi": {"spec_version": "2.4"}}, nothing_more, send)
    assert [message.get("body") for message in sent] == [None, b"one"]
    assert ended == ["ended"]


async def test_a_file_breaks_off_for_who_is_removed_meanwhile(
    site: ApiSite, acme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon after, by looks between its pieces; its turn is another's."""
    monkeypatch.setattr(file_reply, "STILL_SECONDS", 0.0)
    mia = await site.signed_in(Role.BILLING, acme, "Mia")
    signed_in = await find_person_session(site.database, mia.cookies["parley_member"])
    assert signed_in is not None
    stores = Stores(site.settings, site.database, lambda: site.redis)
    actor, turns, sent = actor_of_session(signed_in, True), FileTurns(), list[bytes]()

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"one"
        await end_person_session(site.database, acme, signed_in.session.id)
        yield b"two"

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    reply = FileReply(
        FileAnswer("a.csv", "text/csv", pieces(), turns.take("t1")), partial(may_still, stores, actor)
    )
    with pytest.raises(ClientDisconnect):
        await reply({"type": "http", "asgi": {"spec_version": "2.4"}}, nothing_more, send)
    assert sent == [b"", b"one"]
    assert [turns.take("t1") for _ in range(OF_TENANT_MAX)]
