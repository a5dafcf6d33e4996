"""The usage API: who reads what of whose usage, and how much of it."""

import csv
import io
from typing import Any

import httpx
import pytest
from sqlalchemy import update
from sqlmodel import col

from admin.console import Console
from admin.usage import gate, routes
from admin.usage.gate import RecordedReads, UsageGate
from billing.api import (
    revoke_key,
    rotate_key,
    set_tenant,
)
from billing.audit.log import list_rows
from billing.periods import HOUR_MS
from billing.tables.tenants import ApiKey, Tenant, TenantUser
from billing.tenants.cost_centers import charge_project_to, create_cost_center
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from tests.support.usage_office import HOST, OCTOBER, TENANT, USAGE, Office, amounts, booked, office

__all__ = ["office"]


async def test_a_key_sees_its_project_and_no_more(office: Office):
    """Each query is bound to it, whatever it names; another project answers as one that nobody has."""
    whole = await booked(office)
    seen: list[int] = []
    for project in ("web", "ops"):
        secret = office.secrets[f"acme-{project}"]
        rows = await office.data(secret, **OCTOBER, by="project,user")
        assert {row["project"]["name"] for row in rows} == {project}
        for path, by, bucket in (("/v1/costs", "meter", "hour"), ("/v1/usage", "key", "day")):
            assert amounts(await office.data(secret, path, **OCTOBER, by=by, bucket=bucket)) == amounts(rows)
        seen.append(amounts(rows))
    assert sum(seen) == whole
    ops = office.secrets["acme-ops"]
    elsewhere = await create_cost_center(office.db, office.tenants["acme"], "4711")
    await charge_project_to(office.db, office.tenants["acme"], office.projects["acme", "web"], elsewhere.id)
    for asked in (
        {"project": ("web", "none")},
        {"project": (office.projects["acme", "web"], "none")},
        {"key": (office.keys["acme-web"].id, "none")},
        {"cost_center": ("4711", "none")},
    ):
        for facet, (exists, nowhere) in asked.items():
            answers = [(await office.get(ops, **{facet: each})) for each in (exists, nowhere)]
            assert answers[0].status_code == answers[1].status_code == 400, facet
            assert answers[0].text == answers[1].text, facet
    assert (await office.get(office.secrets["acme-web"], cost_center="4711")).status_code == 200


async def test_what_another_tenant_has_is_unknown(office: Office):
    """By every fact, its name and its id; and nothing of it is in any answer."""
    mine, theirs = office.secrets["acme"], office.tenants["other"]
    project = office.projects["other", "web"]
    center = await create_cost_center(office.db, theirs, "4711")
    foreign = {
        "project": project,
        "cost_center": center.id,
        "key": office.keys["other-web"].id,
        "user": office.users["other", "ann"],
    }
    for path in ("/v1/usage", "/v1/costs"):
        for facet, id in foreign.items():
            answers = [await office.get(mine, path, **OCTOBER, **{facet: each}) for each in (id, "none")]
            assert {answer.status_code for answer in answers} <= {200, 400}
            told = [answer.text.replace(answer.request.url.query.decode(), "") for answer in answers]
            assert told[0] == told[1], facet
            if answers[0].status_code == 200:
                assert answers[0].json()["data"] == []
        for by in ("project,user", "key,cost_center"):
            text = (await office.get(mine, path, **OCTOBER, by=by)).text
            assert not [id for id in (*foreign.values(), theirs) if id in text]
    assert amounts(await office.data(mine, **OCTOBER)) == await booked(office)


async def test_a_cursor_is_for_one_question_of_one_key(office: Office, monkeypatch: pytest.MonkeyPatch):
    """Changed, of another question, another key or another tenant, or an hour old it is none; a rotated key's
    successor reads on."""
    secret = office.secrets["acme"]
    asked: dict[str, Any] = {**OCTOBER, "by": "user,model", "limit": 3}
    cursor = (await office.get(secret, **asked)).json()["cursor"]
    sheet: dict[str, Any] = asked | {"limit": 5, "format": "csv", "cursor": cursor}
    assert (await office.get(secret, **sheet)).status_code == 200
    new, successor = await rotate_key(office.db, office.tenants["acme"], office.keys["acme"].id, 60)
    assert new.owner_key
    assert (await office.get(successor, **asked, cursor=cursor)).status_code == 200
    another = await office.key("another", "acme", "web", scopes=TENANT)
    middle = len(cursor) // 2
    changed = cursor[:middle] + ("A" if cursor[middle] != "A" else "B") + cursor[middle + 1 :]
    for whose, question, shown in (
        (secret, {**asked, "by": "model,user"}, cursor),
        (secret, {**asked, "month": "2026-09"}, cursor),
        (secret, {**asked, "bucket": "day"}, cursor),
        (secret, {**asked, "model": "small"}, cursor),
        (secret, asked, changed),
        (secret, asked, "x" * 7000),
        (secret, asked, "é.ü"),
        (another, asked, cursor),
        (office.secrets["acme-web"], asked, cursor),
        (office.secrets["other"], asked, cursor),
    ):
        reply = await office.get(whose, **question, cursor=shown)
        assert (reply.status_code, "cursor" in reply.json()["error"]["message"]) == (400, True), question
    costs = await office.get(secret, "/v1/costs", **asked, cursor=cursor)
    assert costs.status_code == 400
    by_day = asked | {"bucket": "day"}
    days = (await office.get(secret, **by_day)).json()["cursor"]
    await set_tenant(office.db, office.tenants["acme"], time_zone="Asia/Tokyo")
    assert (await office.get(secret, **by_day, cursor=days)).status_code == 400  # days begin elsewhere now
    assert (await office.get(secret, **asked, cursor=cursor)).status_code == 200
    monkeypatch.setattr(routes, "now_ms", lambda: now_ms() + HOUR_MS)
    assert (await office.get(secret, **asked, cursor=cursor)).status_code == 400


@pytest.mark.parametrize("path", ["/v1/usage", "/v1/costs"])
async def test_who_may_not_read_usage_is_told_by_a_code(office: Office, path: str):
    """Keys without the scope or of one user, no key, a wrong one, one that was revoked, a closed tenant."""
    tenant = office.tenants["acme"]
    chat = await office.key("chat", "acme", "web")
    users = await office.key("ann's", "acme", "web", user="ann")
    async with office.db.transaction() as session:  # as nobody can make it
        given = update(ApiKey).where(col(ApiKey.id) == office.keys["ann's"].id)
        await (await session.connection()).execute(given.values(scopes=TENANT))
    wrong = "pk_ffffffffffff_" + "0" * 48
    for secret, status, code in (
        (chat, 403, "forbidden"),
        (users, 403, "forbidden"),
        (wrong, 401, "unauthorized"),
        ("tk_x", 401, "unauthorized"),
        ("", 401, "unauthorized"),
    ):
        reply = await office.get(secret, path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code), reply.text
    bare = await office.client.get(path, headers={"cookie": "parley_session=x; parley_operator=y"})
    assert bare.status_code == 401
    secret = office.secrets["acme"]
    assert (await office.get(secret, path)).status_code == 200
    await revoke_key(office.db, office.redis, tenant, office.keys["acme"].id)
    assert (await office.get(secret, path)).status_code == 401
    async with office.db.transaction() as session:
        closed = update(Tenant).where(col(Tenant.tenant_id) == tenant).values(closed_ms=1)
        await (await session.connection()).execute(closed)
    reply = await office.get(office.secrets["acme-web"], path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (402, "account_suspended")


async def test_no_key_of_one_user_has_the_scope(office: Office):
    """Neither can be made."""
    for scope in (USAGE, TENANT):
        with pytest.raises(Refused, match="services"):
            await office.key("x", "acme", "web", scopes=["chat", *scope], user="ann")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit"),
    ({"limit": -1}, "limit"),
    ({"limit": 1001}, "limit"),
    ({"limit": 2**63}, "limit"),
    ({"limit": "1e3"}, "limit"),
    ({"limit": "NaN"}, "limit"),
    ({"limit": "١٠"}, "limit"),
    ({"limit": ""}, "limit"),
    ({"month": "2026-13"}, "month"),
    ({"month": "2026-00"}, "month"),
    ({"month": "٢٠٢٦-١٠"}, "month"),
    ({"month": "2026-1"}, "month"),
    ({"month": "0001-01"}, "month"),
    ({"month": "9999-12"}, "month"),
    ({"month": "1e30"}, "month"),
    ({"month": "2026-10", "from": "2026-10-01"}, "month"),
    ({"month": ["2026-10", "2026-11"]}, "month"),
    ({"to": "2026-10-01"}, "to"),
    ({"from": "2026-02-30"}, "from"),
    ({"from": "2026-10-01T24:01Z"}, "from"),
    ({"from": "2026-10-01T12:00+99:00"}, "from"),
    ({"from": "٢٠٢٦-١٠-٠١"}, "from"),
    ({"from": "20261001"}, "from"),
    ({"from": "2026-W40-1"}, "from"),
    ({"from": "9223372036854775808"}, "from"),
    ({"from": "NaN"}, "from"),
    ({"from": "0001-01-01"}, "from"),
    ({"from": "9999-12-31", "to": "9999-12-31T23:59:59-23:59"}, "to"),
    ({"from": "2026-10-02", "to": "2026-10-01"}, "from"),
    ({"from": "2026-10-02", "to": "2026-10-02"}, "from"),
    ({"from": "9998-12-30", "to": "9999-02-01", "bucket": "day"}, "9998"),
    ({"from": "2020-01-01", "to": "2026-10-02"}, "400 days"),
    ({"from": "2026-08-01", "to": "2026-10-02", "bucket": "hour"}, "32 days"),
    ({"from": "2026-08-01", "to": "2026-10-02", "by": "reason"}, "32 days"),
    ({"by": "project,user,key"}, "by"),
    ({"by": "user,user"}, "by"),
    ({"by": "tenant"}, "by"),
    ({"by": "meter"}, "by"),
    ({"by": "user,"}, "by"),
    ({"bucket": "week"}, "bucket"),
    ({"bucket": "DAY"}, "bucket"),
    ({"format": "xml"}, "format"),
    ({"tenant": "other"}, "unknown parameter"),
    ({"meter": "input"}, "unknown parameter"),
    ({"Month": "2026-10"}, "unknown parameter"),
    ({"user": [f"u{n}" for n in range(21)]}, "user"),
    ({"user": "\0"}, "user"),
    ({"model": "x" * 4000}, "model"),
    ({"project": "\0"}, "project"),
    ({"cost_center": "\0"}, "cost_center"),
    ({"key": "x' OR 1=1"}, "key"),
    ({"cursor": "x"}, "cursor"),
    ({"cursor": ["x", "y"]}, "cursor"),
]


async def test_what_is_no_question_is_named(office: Office):
    """In one line that names the parameter; nothing is recorded."""
    for asked, named in BAD:
        reply = await office.get(office.secrets["acme"], **asked)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["retry"]) == (400, "bad_request", False), asked
        assert named in error["message"], asked
        assert "\n" not in error["message"], asked
        assert len(error["message"]) < 300, asked
    assert await reads(office) == []


async def test_meters_and_kinds_are_named(office: Office):
    """Where they are none."""
    for asked in ({"meter": "tokens"}, {"kind": "x"}):
        assert (await office.get(office.secrets["acme"], "/v1/costs", **asked)).status_code == 400
    assert (
        await office.get(office.secrets["acme"], "/v1/costs", meter="input", kind="usage")
    ).status_code == 200


async def reads(office: Office, tenant: str = "acme") -> list[Any]:
    """What the audit log says was read."""
    rows = await list_rows(office.db, office.tenants[tenant])
    return [row for row in rows if row.action == "usage.read"]


async def test_reads_are_recorded(office: Office, monkeypatch: pytest.MonkeyPatch):
    """By whom, and of what; the pages of one read are one, and the same question once an hour."""
    secret, key = office.secrets["acme"], office.keys["acme"]
    await office.data(secret, **OCTOBER, by="user,model", user="ann", limit=1)
    [row] = await reads(office)
    assert (row.author, row.source, row.target) == (key.id, "api", key.id)
    assert "2026-10-01T00:00:00Z" in row.after
    assert office.users["acme", "ann"] in row.after
    assert '"ann"' not in row.after
    await office.data(secret, **OCTOBER, by="user,model", user="ann", limit=50)
    assert len(await reads(office)) == 1
    await office.data(secret, "/v1/costs", **OCTOBER)
    assert len(await reads(office)) == 2
    monkeypatch.setattr(gate, "RECORDED_SECONDS", 0.0)
    for _ in range(3):
        await office.data(secret, **OCTOBER, by="pool")
    assert len(await reads(office)) == 5
    assert await reads(office, "other") == []


async def test_no_name_of_who_is_not_known_is_kept(office: Office):
    """Who was erased is asked about by a dashboard that goes on: the log, which is chained, is not told."""
    async with office.db.transaction() as session:
        erased = update(TenantUser).where(col(TenantUser.id) == office.users["acme", "bob"]).values(name=None)
        await (await session.connection()).execute(erased)
    for name in ("bob", "eve@example.com"):
        assert (await office.get(office.secrets["acme"], user=[name, "ann", ""])).status_code == 200
    for row in await reads(office):
        assert f'"user":["(unknown)","{office.users["acme", "ann"]}",""]' in row.after
        assert "bob" not in row.after
        assert "eve" not in row.after


def test_what_is_recorded_is_forgotten_in_time() -> None:
    """After an hour, and beyond so many keys."""
    at = 0.0
    recorded = RecordedReads(lambda: at)
    recorded.add("k", b"x")
    assert recorded.has("k", b"x")
    assert not recorded.has("other", b"x")
    at = gate.RECORDED_SECONDS
    assert not recorded.has("k", b"x")
    for number in range(gate.RECORDED_KEYS_MAX + 1):
        recorded.add(f"{number}", b"x")
    assert (recorded.has("0", b"x"), recorded.has("1", b"x")) == (False, False)
    assert recorded.has("9999", b"x")


async def test_whoever_asks_all_the_time_does_not_fill_the_audit_log(
    office: Office, monkeypatch: pytest.MonkeyPatch
):
    """Sliding times are one question a day; of others a key has so many rows an hour, and the next row counts
    what had none."""
    monkeypatch.setattr(gate, "ROWS_AN_HOUR", 3)
    secret = office.secrets["acme"]
    for minute in range(4):
        times = {"from": "2026-10-01", "to": f"2026-10-02T12:0{minute}:00Z"}
        assert (await office.get(secret, **times)).status_code == 200
    assert len(await reads(office)) == 1
    for model in ("small", "large", "a", "b", "c"):
        assert (await office.get(secret, **OCTOBER, model=model)).status_code == 200
    rows = sorted(await reads(office), key=lambda row: row.seq)
    assert ['"further":3' in row.after for row in rows] == [False, True, False]
    assert ["last_of_the_hour" in row.after for row in rows] == [False, False, True]
    assert (await office.get(office.secrets["acme-ops"], **OCTOBER)).status_code == 200
    assert len(await reads(office)) == 4


async def test_a_tenant_reads_so_often(settings: Settings, office: Office):
    """Pages a minute, and at once, by tenant; what another one reads is its own."""
    few = settings.model_copy(update={"usage_reads_per_tenant_per_minute": 2.0})
    app = Console(few, office.redis, office.db).app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=HOST) as office.client:
        secret = office.secrets["acme"]
        assert [(await office.get(secret)).status_code for _ in range(3)] == [200, 200, 429]
        reply = await office.get(office.secrets["acme-ops"])
        assert (reply.status_code, reply.json()["error"]["scope"]) == (429, "tenant")
        assert int(reply.headers["retry-after"]) >= 1
        assert (await office.get(office.secrets["other"])).status_code == 200


def test_so_many_read_at_once(settings: Settings) -> None:
    """Of a tenant, and of all."""
    gates = UsageGate(settings.model_copy(update={"usage_reads_max": 3, "usage_reads_per_tenant_max": 2}))
    with gates.turn("a"), gates.turn("a"):
        with pytest.raises(Refused) as own, gates.turn("a"):
            pass
        with gates.turn("b"), pytest.raises(Refused) as all_, gates.turn("c"):
            pass
    assert (own.value.refusal.code, all_.value.refusal.code) == ("rate_limited", "overloaded")
    with gates.turn("a"), gates.turn("a"), gates.turn("c"):
        pass


async def test_what_takes_too_long_is_refused(settings: Settings, office: Office):
    """By the database's own clock; nothing waits for it after."""
    short = settings.model_copy(update={"usage_seconds_max": 1e-6})
    app = Console(short, office.redis, office.db).app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=HOST) as office.client:
        await office.used("acme", 300, prefix="many")
        reply = await office.get(office.secrets["acme"], "/v1/costs", **OCTOBER, by="meter,user")
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")
        assert "shorter time" in reply.json()["error"]["message"]


async def test_a_sheet_has_no_formulas(office: Office):
    """CSV: ids with names, amounts as numbers; what a user is called is no formula."""
    reply = await office.get(office.secrets["acme"], **OCTOBER, by="user,model", format="csv", limit=4)
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    assert reply.headers["content-disposition"] == 'attachment; filename="usage.csv"'
    assert reply.headers["cache-control"] == "no-store"
    lines = list(csv.DictReader(io.StringIO(reply.text)))
    rest = await office.get(
        office.secrets["acme"],
        **OCTOBER,
        by="user,model",
        format="csv",
        cursor=reply.headers["x-parley-cursor"],
    )
    assert "x-parley-cursor" not in rest.headers
    lines += list(csv.DictReader(io.StringIO(rest.text)))
    assert {line["user_name"] for line in lines} == {"ann", "'=cmd()", "bob"}
    assert sum(int(line["amount_nano"]) for line in lines) == await booked(office)
    assert {line["currency"] for line in lines} == {"usd"}


async def test_who_was_erased_has_no_name(office: Office):
    """A tag tells them from others."""
    id = office.users["acme", "bob"]
    async with office.db.transaction() as session:
        erased = update(TenantUser).where(col(TenantUser.id) == id).values(name=None, erased_ms=1)
        await (await session.connection()).execute(erased)
    rows = await office.data(office.secrets["acme"], **OCTOBER, by="user")
    assert {row["user"]["name"] for row in rows} == {"ann", "=cmd()", f"(erased {id[-8:]})"}
