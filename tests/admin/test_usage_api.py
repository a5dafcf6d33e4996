"""The usage API: what a tenant used, in pieces that add up."""

import asyncio
from datetime import datetime
from typing import Any

import msgspec

from billing.api import (
    DEFAULT_PROJECT,
    find_project,
    set_tenant,
)
from billing.posting.biller import post
from billing.tables.ledger import UsageLine
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.support.usage_office import (
    BEGIN,
    NAMES,
    OCTOBER,
    Office,
    amounts,
    bearer,
    booked,
    office,
)

__all__ = ["office"]


async def test_a_tenants_usage_is_its_ledger(office: Office):
    """By whatever two facts, in whatever buckets and pages: to the nano, with names beside ids."""
    secret, ledger = office.secrets["acme"], await booked(office)
    for path, by in (
        ("/v1/usage", ""),
        ("/v1/usage", "project,user"),
        ("/v1/usage", "key,model"),
        ("/v1/usage", "pool,cost_center"),
        ("/v1/usage", "reason"),
        ("/v1/costs", "meter,kind"),
        ("/v1/costs", "user,meter"),
    ):
        for bucket in ({}, {"bucket": "day"}, {"bucket": "month"}, {"bucket": "hour"}):
            rows = await office.data(secret, path, **OCTOBER, by=by, **bucket, limit=7)
            assert amounts(rows) == ledger, (path, by, bucket)
    rows = await office.data(secret, **OCTOBER, by="user,key")
    assert {row["user"]["name"] for row in rows} == set(NAMES)
    assert {row["user"]["id"] for row in rows} == {office.users["acme", name] for name in NAMES}
    key = office.keys["acme-web"]
    assert {tuple(row["key"].values()) for row in rows} == {(key.id, f"pk_{key.prefix} acme-web")}
    [whole] = await office.data(secret, **OCTOBER)
    assert (whole["from"], whole["to"]) == ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    assert (whole["requests"], whole["amount_nano"]) == (40, ledger)
    assert whole["amount"] == f"{ledger // 10**9}.{ledger % 10**9:09d}".rstrip("0")
    assert "requests" not in (await office.data(secret, "/v1/costs", **OCTOBER))[0]


async def test_a_key_of_web_pages_reads_nothing_elsewhere(office: Office):
    """As at a gateway: a program is refused, and a page that is not listed."""
    secret = await office.key("of-pages", "acme", "web", scopes=["usage:read"], origins=["https://a.example"])
    for origin, status in (("https://a.example", 200), ("https://b.example", 403), ("", 403)):
        headers = bearer(secret) | ({"origin": origin} if origin else {})
        reply = await office.client.get("/v1/usage", params=OCTOBER, headers=headers)
        assert reply.status_code == status, reply.text


async def test_facts_choose_by_name_and_by_id(office: Office):
    """Of several values one has to hold; of several facts all."""
    secret = office.secrets["acme"]
    by_user = {
        row["user"]["name"]: row["requests"] for row in await office.data(secret, **OCTOBER, by="user")
    }
    for named in ("ann", office.users["acme", "ann"]):
        [row] = await office.data(secret, **OCTOBER, user=named)
        assert row["requests"] == by_user["ann"]
    two = await office.data(secret, **OCTOBER, user=["ann", "bob"])
    assert two[0]["requests"] == by_user["ann"] + by_user["bob"]
    key = office.keys["acme-web"]
    for named in (key.id, key.prefix, f"pk_{key.prefix}"):
        assert (await office.data(secret, **OCTOBER, key=named))[0]["requests"] == 40
    [web] = await office.data(secret, **OCTOBER, project="web", model="small", reason="error")
    assert web["requests"] == web["errors"] < 40
    assert await office.data(secret, **OCTOBER, user="nobody") == []
    assert await office.data(secret, **OCTOBER, model="none") == []


async def test_pages_go_on_while_usage_arrives(office: Office):
    """No group is missed or told twice, and the pages are the ledger as of the first one."""
    secret, before = office.secrets["acme"], await booked(office)
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        more = {"cursor": cursor} if cursor else {}
        reply = await office.get(secret, **OCTOBER, by="user,model", bucket="day", limit=9, **more)
        assert reply.headers.get("x-parley-cursor") == reply.json()["cursor"]
        rows += reply.json()["data"]
        cursor = reply.json()["cursor"]
        pages += 1
        await office.used("acme", 5, seed=pages, prefix=f"late{pages}-")
    assert pages > 3
    groups = [(row["from"], row["user"]["id"], row["model"]) for row in rows]
    assert len(set(groups)) == len(groups)
    assert amounts(rows) == before < await booked(office)


async def test_times_are_the_tenants(office: Office):
    """Days begin at its midnight, also where clocks are turned: 25 hours, 23, and one that begins at one."""
    secret = office.secrets["acme"]
    for zone, day, begin, end in (
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ("America/Havana", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"),
        ("Asia/Kathmandu", "2026-10-25", "2026-10-24T18:15:00Z", "2026-10-25T18:15:00Z"),
    ):
        tenant = office.tenants["acme"]
        await set_tenant(office.db, tenant, time_zone=zone)
        for number, ended in enumerate((_ms(begin) - 1, _ms(begin), _ms(end) - 1, _ms(end))):
            event = an_event(f"{zone}-{day}-{number}", tenant, model=zone, ended_ms=ended)
            await post(office.db, "default", [encode(event)])
        after = f"{day[:-2]}{int(day[-2:]) + 1:02}"
        rows = await office.data(secret, **{"from": day, "to": after}, bucket="day", model=zone)
        assert [(row["from"], row["to"], row["requests"]) for row in rows] == [(begin, end, 2)], zone
    reply = await office.get(secret, **{"from": "2026-10-25T00:00:00.001", "to": "2026-10-25T00:00:00.002"})
    assert (reply.json()["from"], reply.json()["time_zone"]) == ("2026-10-24T18:15:00.001Z", "Asia/Kathmandu")
    running = (await office.get(secret)).json()
    assert _ms(running["from"]) < _ms(running["to"]) <= now_ms()


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


async def test_reads_at_once_are_each_their_own(office: Office):
    """Two tenants at the same moment."""
    mine, theirs = await asyncio.gather(
        office.data(office.secrets["acme"], **OCTOBER, by="user"),
        office.data(office.secrets["other"], **OCTOBER, by="user"),
    )
    assert amounts(mine) == amounts(theirs) == await booked(office)
    assert not {row["user"]["id"] for row in mine} & {row["user"]["id"] for row in theirs}


async def test_what_is_of_no_request_is_nobodys(office: Office):
    """Null, and found by an empty name."""
    tenant = office.tenants["acme"]
    project = await find_project(office.db, tenant, DEFAULT_PROJECT)
    owner = UsageOwner(project.id if project else "p", "k", "")
    await post(office.db, "default", [encode(an_event("of-nobody", tenant, owner=owner, ended_ms=BEGIN))])
    rows = await office.data(office.secrets["acme"], **OCTOBER, by="user", user="")
    assert [(row["user"], row["requests"]) for row in rows] == [(None, 1)]
    assert msgspec.json.decode((await office.get(office.secrets["acme"], **OCTOBER)).content)["by"] == []
    assert len(await read(office.db, UsageLine, tenant)) > 40
