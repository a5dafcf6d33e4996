"""The operator console: who gets in, and that it shows what is there."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from redis.asyncio import Redis

from admin import operators
from admin.console import Console
from admin.findings import books_of
from admin.operators import REFUSED_ROWS_A_MINUTE
from billing.api import (
    PLATFORM,
    Check,
    Compared,
    NoisyFinding,
    RefusalTally,
    create_tenant,
)
from billing.posting.biller import post
from billing.requests.refusal_counter import RefusalCounter
from billing.tenants.audit_log import list_rows
from billing.tenants.audit_verify import verify_log
from billing.usage import encode
from core.cli import parley
from core.clock import now_ms
from core.database import Database
from core.ids import uuid7
from core.settings import Settings
from tests.billing.events import an_event
from tests.support.home import TEST_SECRET

ORIGIN = "http://console.test"


@pytest.fixture
async def client(settings: Settings, redis: Redis, database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in front of the console."""
    transport = httpx.ASGITransport(app=Console(settings, redis, database).app())
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        yield client


async def test_a_link_lets_one_browser_in(client: httpx.AsyncClient, settings: Settings):
    """Without the one-time code there is nothing to see; with it, once."""
    assert (await client.get("/api/status")).status_code == 401
    code = operators.make_operator_code(settings.keyring)
    assert (await client.post("/api/login", headers={"x-parley-code": code})).status_code == 200
    status = await client.get("/api/status")
    assert (status.json()["workers"], status.headers["cache-control"]) == ([], "no-store")
    assert (await client.post("/api/login", headers={"x-parley-code": code})).status_code == 401


async def test_a_method_that_is_not_served_is_an_error_as_all_others(
    client: httpx.AsyncClient, settings: Settings, redis: Redis, database: Database
):
    """Of every route of the console and of the usage API."""
    paths = [getattr(route, "path", "") for route in Console(settings, redis, database).routes()]
    served = [path for path in paths if path.startswith(("/api/", "/v1/"))]
    assert {"/v1/usage", "/v1/costs", "/api/status"} <= set(served)
    for path in served:
        reply = await client.patch(path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (405, "bad_request"), path
        assert reply.headers["allow"] in reply.json()["error"]["message"]


async def test_links_and_sign_ins_are_recorded(
    client: httpx.AsyncClient,
    settings: Settings,
    database: Database,
    database_url: str,
    home: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
):
    """Who made a link for whom, who came in by it, and who did not: of a flood only the first."""
    given = {"HOME": str(home), "REDIS_URL": redis_url, "DATABASE_URL": database_url, "SECRET": TEST_SECRET}
    for name, value in given.items():
        monkeypatch.setenv(f"PARLEY_{name}", value)
    argv = ["--author", "Ann", "console", "--link", "--for", "Bob", "--url", "https://console.example/"]
    printed = await asyncio.to_thread(CliRunner().invoke, parley, argv)
    assert printed.exit_code == 0, (printed.output, printed.exception)
    at, _, code = printed.stdout.strip().partition("#o=")
    assert at == "https://console.example/"
    assert (await client.post("/api/login", headers={"x-parley-code": code})).status_code == 200
    most = int(settings.failed_signins_per_address_per_minute)
    answers = [
        (await client.post("/api/login", headers={"x-parley-code": code})).status_code
        for _ in range(most + 3)
    ]
    assert (set(answers[:most]), answers[-1]) == ({401}, 429)
    rows = [
        (row.action, row.author.split(" ")[0], row.target if row.action == "operator.link" else "")
        for row in (await list_rows(database, PLATFORM))[-2::-1]  # without the seal
    ]
    assert rows[:2] == [("operator.link", "Ann", "Bob"), ("session.open", "Bob", "")]
    assert {row[0] for row in rows[2:]} == {"operator.refuse"}
    assert 1 <= len(rows[2:]) <= min(most + 1, REFUSED_ROWS_A_MINUTE + 1)
    assert (await verify_log(database, PLATFORM)).faults == []


async def test_the_books_are_compared_for_operators_only(client: httpx.AsyncClient, settings: Settings):
    """Who signed in sees each comparison with what it expects, what it found and since when it differs."""
    assert (await client.get("/api/reconciliation")).status_code == 401
    code = operators.make_operator_code(settings.keyring)
    await client.post("/api/login", headers={"x-parley-code": code})
    found = (await client.get("/api/reconciliation")).json()
    assert found["checks"]["R7"] == "hash chains"
    assert [(each["check"], each["subject"], each["state"]) for each in found["compared"]] == [
        ("R7", "audit", "equal"),
        ("R6", "default", "equal"),
    ]
    assert (await client.get("/api/reconciliation")).json() == found


async def test_a_request_is_explained_and_refusals_are_shown_to_operators_only(
    client: httpx.AsyncClient, settings: Settings, database: Database, redis: Redis
):
    """By the functions that the commands ask; who is nobody learns nothing of an id either."""
    paths = ("/api/requests/r1", "/api/requests/%00", "/api/refusals")
    assert {(await client.get(path)).status_code for path in paths} == {401}
    tenant = (await create_tenant(database, "acme")).tenant_id
    await post(database, "default", [encode(an_event("r1", tenant))])
    tally = RefusalTally(redis, settings.installation)
    tally.add((tenant, "k1", ""), "overloaded", "", uuid7(now_ms()), now_ms())
    await tally.tell()
    await RefusalCounter(database, redis, settings).step(now_ms())
    code = operators.make_operator_code(settings.keyring)
    await client.post("/api/login", headers={"x-parley-code": code})
    for query in ("", "?tenant=acme", f"?tenant={tenant}"):
        found = (await client.get("/api/requests/r1" + query)).json()
        assert (found["state"], found["tenant_name"], found["booked"]["cost_nano"]) == (
            "booked",
            "acme",
            3700,
        )
    for path in (
        "/api/requests/r2",
        "/api/requests/r1?tenant=beta",
        "/api/requests/%00",
        "/api/requests/r1?tenant=%1b",
    ):
        refused = await client.get(path)
        assert (refused.status_code, bool(refused.json()["error"]["message"])) == (400, True)
    (one,) = (await client.get(f"/api/refusals?tenant={tenant}")).json()["found"]
    assert (one["code"], one["number"], one["key"]) == ("overloaded", 1, "k1")
    assert (await client.get("/api/refusals?tenant=another")).json()["found"] == []


async def test_books_and_noisy_tenants_are_shown_to_operators_only(
    client: httpx.AsyncClient, settings: Settings, database: Database
):
    """An operator sees at a glance which books agree, and who takes more than their share."""
    paths = ("/api/books", "/api/noisy")
    assert [(await client.get(path)).status_code for path in paths] == [401, 401]
    tenant = await create_tenant(database, "acme")
    async with database.transaction() as session:
        session.add(_finding(tenant.tenant_id))
    code = operators.make_operator_code(settings.keyring)
    await client.post("/api/login", headers={"x-parley-code": code})
    books = (await client.get("/api/books")).json()
    assert {each["check"]: each["differing"] for each in books["checks"]}["R8"] == 0
    assert (books["disagreements"], books["disagreements_total"]) == ([], 0)
    (noisy,) = (await client.get("/api/noisy")).json()
    assert (noisy["name"], noisy["share_permille"], noisy["slots_max"]) == ("acme", 900, 2)


def test_what_differs_stands_first_in_words():
    """Differences stand before what waits, money as money, tenants by name, a pool's without one."""
    compared = [
        Compared(Check.R4, "t1", "budget", "nano", 10, 5, waiting="requests end now"),
        Compared(Check.R5, "", "default", "tokens", 1000, 2000, age_ms=60_000),
        Compared(Check.R1, "t1", "input", "nano", 1_500_000_000, 1_500_000_001),
        Compared(Check.R1, "t2", "input", "nano", 7, 7),
    ]
    books = books_of(compared, {"t1": "acme"})
    assert [(each.check, each.compared, each.differing, each.waiting) for each in books.checks] == [
        ("R1", 2, 1, 0),
        ("R4", 1, 0, 1),
        ("R5", 1, 1, 0),
    ]
    assert [(each.check, each.name, each.difference) for each in books.disagreements] == [
        ("R1", "acme", "$0.000000001"),
        ("R5", "", "1,000 tokens"),
        ("R4", "acme", "-$0.000000005"),
    ]
    assert (books.disagreements_total, books.disagreements[2].detail) == (3, "requests end now")
    many = books_of([compared[1]] * 200, {})
    assert (len(many.disagreements), many.disagreements_total) == (100, 200)


@pytest.mark.parametrize("cookie", ["", "x", "99999999999999.00", "."])
async def test_a_forged_cookie_is_refused(client: httpx.AsyncClient, cookie: str):
    """It names no session."""
    client.cookies.set(operators.COOKIE, cookie)
    assert (await client.get("/api/status")).status_code == 401


def _finding(tenant: str) -> NoisyFinding:
    now = now_ms()
    return NoisyFinding(
        tenant_id=tenant,
        id=uuid7(now),
        pool="default",
        opened_ms=now,
        updated_ms=now,
        share_permille=900,
        fair_permille=500,
        used_tokens=10_000,
        others_wait_ms=4000,
        baseline_wait_ms=500,
        slots_max=2,
        throttled_ms=now,
        proposal={},
    )
