"""The operator console: who gets in, and that it shows what is there."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from admin import console
from admin.api.callers import OPERATORS_SIDE
from admin.console import Console
from billing.api import (
    PLATFORM,
    Comparison,
    NoisyFinding,
    OperationActor,
    RefusalSearch,
    RefusalTally,
    create_tenant,
)
from billing.audit.log import list_rows
from billing.audit.verify import verify_log
from billing.people.persons import create_member
from billing.posting.biller import post
from billing.requests.refusal_counter import RefusalCounter
from billing.usage import encode
from core.actor import Author
from core.cli import parley
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.operations import Role
from core.sql.database import Database
from tests.billing.events import an_event
from tests.support.home import TEST_SECRET
from tests.support.redis import Redis
from tests.support.staff import open_link, staff_code
from tests.support.watch import watch_in_hand

ORIGIN = "http://console.localhost"


@pytest.fixture
async def client(settings: Settings, redis: Redis, database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in front of the console."""
    transport = httpx.ASGITransport(app=Console(settings, redis, database).app())
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        yield client


async def test_a_link_lets_one_browser_in(client: httpx.AsyncClient, settings: Settings, database: Database):
    """Without the one-time code there is nothing to see; with it, once."""
    assert (await client.get("/api/status")).status_code == 401
    code = await staff_code(settings, database)
    assert (await open_link(client, code)).status_code == 200
    status = await client.get("/api/status")
    assert (status.json()["workers"], status.headers["cache-control"]) == ([], "no-store")
    assert (await open_link(client, code)).status_code == 401


async def test_a_method_that_is_not_served_is_an_error_as_all_others(
    client: httpx.AsyncClient, settings: Settings, redis: Redis, database: Database
):
    """Of every route of the console and of the usage API."""
    paths = [getattr(route, "path", "") for route in Console(settings, redis, database).routes()]
    served = [path for path in paths if path.startswith(("/api/", "/v1/"))]
    assert {"/v1/usage", "/v1/costs", "/api/status"} <= set(served)
    for path in served:
        reply = await client.request("TRACE", path)
        assert reply.status_code == 405, path
        if "{" not in path:
            told = reply.json()
            assert reply.headers["allow"] in (told.get("detail") or told["error"]["message"])


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
    await create_member(database, PLATFORM, "Bob", Role.SUPPORT)
    argv = ["--author", "Ann", "people", "link", "Bob"]
    printed = await asyncio.to_thread(CliRunner().invoke, parley, argv)
    assert printed.exit_code == 0, (printed.output, printed.exception)
    code = printed.stdout.partition("#p=")[2].split()[0]
    assert (await open_link(client, code)).status_code == 200
    most = int(settings.failed_signins_per_address_per_minute)
    answers = [(await open_link(client, code)).status_code for _ in range(most + 3)]
    assert set(answers) == {401}
    rows = [(row.action, row.author.split(" ")[0]) for row in (await list_rows(database, PLATFORM))[::-1]]
    assert rows.index(("person.link", "Ann")) < rows.index(("session.open", "Bob"))
    assert (await verify_log(database, PLATFORM)).faults == []


async def test_the_books_are_compared_for_operators_only(
    client: httpx.AsyncClient, settings: Settings, database: Database
):
    """Who signed in sees each check, and since when it differs."""
    assert (await client.get("/api/books")).status_code == 401
    await open_link(client, await staff_code(settings, database))
    found = (await client.get("/api/books")).json()
    counts = [(each["check"], each["compared"], each["differing"]) for each in found["checks"]]
    assert counts == [("R6", 1, 0), ("R7", 1, 0)]
    assert (await client.get("/api/books")).json() == found
    stored = (await client.get("/api/reconciliation")).json()
    assert {each["state"] for each in stored["checks"]} == {"unknown"}, "a page's look is no biller's"


async def test_a_request_is_explained_and_refusals_are_shown_to_operators_only(
    client: httpx.AsyncClient, settings: Settings, database: Database, redis: Redis
):
    """By the functions that the commands ask; who is nobody learns nothing of an id either."""
    paths = ("/api/explained/r1", "/api/explained/%00", "/api/refusals")
    assert {(await client.get(path)).status_code for path in paths} == {401}
    tenant = (await create_tenant(database, "acme")).tenant_id
    await post(database, "default", [encode(an_event("r1", tenant))])
    tally = RefusalTally(redis, settings.installation)
    tally.add((tenant, "k1", ""), "overloaded", "", uuid7(now_ms()), now_ms())
    await tally.tell()
    await RefusalCounter(database, redis, settings).step(now_ms())
    await open_link(client, await staff_code(settings, database))
    for query in ("", "?tenant=acme", f"?tenant={tenant}"):
        found = (await client.get("/api/explained/r1" + query)).json()
        assert (found["state"], found["tenant_name"], found["booked"]["cost_nano"]) == (
            "booked",
            "acme",
            3700,
        )
    for path in (
        "/api/explained/r2",
        "/api/explained/r1?tenant=beta",
        "/api/explained/%00",
        "/api/explained/r1?tenant=%1b",
    ):
        refused = await client.get(path)
        assert (refused.status_code in (400, 404), bool(refused.json()["detail"])) == (True, True)
    (one,) = (await client.get(f"/api/refusals?tenant={tenant}")).json()["found"]
    assert (one["code"], one["number"], one["key"]) == ("overloaded", 1, "k1")
    assert (await client.get("/api/refusals?tenant=another")).json()["found"] == []
    assert (await client.get("/api/status")).status_code == 200
    told = [row for row in await list_rows(database, tenant) if row.action == "request.explain"]
    assert [(row.author, row.target) for row in told] == [("Ann", "r1")], "once, however often it is read"
    read = {(row.action, row.target) for row in await list_rows(database, PLATFORM)}
    assert read >= {("request.find", tenant), ("request.find", "another"), ("request.list", "default")}


async def test_books_and_noisy_tenants_are_shown_to_operators_only(
    client: httpx.AsyncClient, settings: Settings, database: Database
):
    """An operator sees at a glance which books agree, and who takes more than their share."""
    paths = ("/api/books", "/api/noisy")
    assert [(await client.get(path)).status_code for path in paths] == [401, 401]
    tenant = await create_tenant(database, "acme")
    async with database.transaction() as session:
        session.add(_finding(tenant.tenant_id))
    await open_link(client, await staff_code(settings, database))
    books = (await client.get("/api/books")).json()
    assert {each["check"]: each["differing"] for each in books["checks"]}["R8"] == 0
    assert (books["disagreements"], books["disagreements_total"]) == ([], 0)
    (noisy,) = (await client.get("/api/noisy")).json()
    assert (noisy["name"], noisy["share_permille"], noisy["slots_max"]) == ("acme", 900, 2)


@pytest.mark.parametrize("cookie", ["", "x", "99999999999999.00", "."])
async def test_a_forged_cookie_is_refused(client: httpx.AsyncClient, cookie: str):
    """It names no session."""
    client.cookies.set(OPERATORS_SIDE.cookie, cookie)
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


class RecordedConsole:
    """A console of nobody's stores, for whoever comes, and what it asked them."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        nothing: Any = None
        self.console = Console(settings, nothing, nothing)
        self.sought: list[RefusalSearch] = []
        self.compared: list[bool] = []
        monkeypatch.setattr(console, "find_refusals", self._refusals)
        monkeypatch.setattr(console, "Reconciliation", self._reconciliation)
        monkeypatch.setattr(self.console.api.callers, "whoever", self._who)

    async def _who(self, _: object) -> tuple[OperationActor, None]:
        return OperationActor(Author("Ann", "command"), Role.OPERATOR), None

    async def _refusals(self, _: object, sought: RefusalSearch) -> dict[str, int]:
        self.sought.append(sought)
        return {"refused": 1}

    def _reconciliation(self, *_: object, stores: bool) -> "RecordedConsole":
        self.compared.append(stores)
        return self

    async def run(self) -> list[Comparison]:
        """As billing's."""
        return []

    async def get(self, path: str) -> object:
        """What a browser reads there."""
        transport = httpx.ASGITransport(app=self.console.app())
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            return (await client.get(path)).json()


async def test_refusals_are_those_of_the_last_hour(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """Fifty; a gateway whose clock is ahead is among them."""
    asked = RecordedConsole(settings, monkeypatch)
    with watch_in_hand() as watch:
        assert await asked.get("/api/refusals") == {"refused": 1}
        await asked.get("/api/refusals?tenant=t1")
        hour: dict[str, Any] = {"since_ms": watch.ms - 3_600_000, "until_ms": watch.ms + 3_600_000}
    assert asked.sought == [RefusalSearch(**hour, tenant=of, limit=50) for of in (None, "t1")]


async def test_books_are_compared_every_ten_seconds(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """However often they are looked at; without what is read for hours."""
    asked, at = RecordedConsole(settings, monkeypatch), [0.0]
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: at[0]))
    for at[0], compared in ((0.0, 1), (10.0, 1), (11.0, 2), (21.0, 2)):
        await asked.get("/api/books")
        assert asked.compared == [False] * compared
