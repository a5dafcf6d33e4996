"""The console's pages of requests: the list by filters in the address, one request's life, ending it."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from billing.api import create_tenant
from billing.audit.log import list_rows
from billing.posting.biller import post
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import connect
from core.sql.database import Database
from engine.api import PoolQueue
from tests.billing.events import an_event
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.browser.overview_sample import overview
from tests.browser.requests_sample import (
    ENDED,
    HELD_BACK,
    NOW_MS,
    RUNNING,
    booked,
    detail,
    ended_row,
    explained,
    live_row,
    lived,
    reader,
    refused_row,
    running,
)
from tests.engine.builders import request
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


class PlayedRequests:
    """Answers about requests: two that run, seventeen that ended on two pages, two minutes of refusals."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.explained: dict[str, Any] = {ENDED: explained(), RUNNING: running()}

    async def __call__(self, route: Route) -> None:
        """A handler for Playwright."""
        address = urlsplit(route.request.url)
        query = parse_qs(address.query)
        await route.fulfill(json=self._answer(address.path, query))

    def _answer(self, path: str, query: dict[str, list[str]]) -> Any:
        last = path.rsplit("/", 1)[-1]
        if path == "/api/overview":
            return overview()
        if path == "/api/requests":
            waiting = live_row("waits", "queued", first_token_ms=0, claimed_ms=0, tokens=0)
            meant = "all_pools" in query or query["pool"] == ["eu-1"]
            items = [live_row(), waiting] if meant else []
            return {"items": items, "next": None, "now_ms": NOW_MS}
        if path == "/api/ended-requests":
            self.asked.append(query)
            return self._ended(query)
        if path == "/api/refused-requests":
            return {"items": [refused_row(), refused_row(others=True, key="", user="")], "next": None}
        if last == "migrate":
            dry, moved = query["dry_run"] == ["true"], {"id": RUNNING, "tenant": "t1", "source": "eu-1"}
            why = "this was a dry run" if dry else "acme-1 has no room for it"
            return moved | {"to": "acme-1", "moved": False, "reason": "no_room", "message": why}
        if last == "explained":
            return self.explained[path.split("/")[-2]]
        stuck = {"state": "stuck", "stuck_since_ms": NOW_MS - 31_000, "unacked_events": 256, "behind": 700}
        paused = {"state": "paused", "paused_since_ms": NOW_MS - 4_000, "unacked_events": 256, "behind": 90}
        readers = [
            *(reader("c-1", "gateway-a"), reader("c-2", "gateway-b", **stuck)),
            reader("c-3", "gateway-a", **paused),
        ]
        shown = {"request": detail(), "at": None, "came_from": ["acme-1"], "tenant_name": "acme"}
        return shown | {"readers": readers, "unheard": []}

    def _ended(self, query: dict[str, list[str]]) -> Any:
        if query.get("tenant") == ["nobody"]:
            return {"items": [], "next": None}
        if query.get("after"):
            return {"items": [ended_row("older", "error", code="engine_lost")], "next": None}
        reasons = ["length", "cancelled", "blocked", "deadline", "budget", "slow_reader", "error"]
        return {"items": [ended_row(), *(ended_row(each, each) for each in reasons)], "next": "c1"}


async def opened(
    open_page: OpenPage, url: str, settings: Settings, db: Database, path: str, **options: Any
) -> tuple[WatchedPage, PlayedRequests]:
    """A page of the console with played answers, signed in by a link."""
    played = PlayedRequests()
    code = await staff_code(settings, db)
    watched = await open_page(f"{url}/healthz", own=True, **options)
    for pattern in ("**/api/overview*", "**/api/requests**", "**/api/*-requests*"):
        await watched.page.route(pattern, played)
    await watched.page.goto(f"{url}/console/{path}#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_attached()
    return watched, played


WIDE = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_each_page_and_dialog_keeps_the_policy(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str
):
    """The list, refusals, one that ended and one that runs, both its dialogs: axe finds nothing, nothing is
    asked of another origin, no error is told."""
    watched, _ = await opened(open_page, console, settings, sqlite, "requests", color_scheme=scheme, **WIDE)
    page = watched.page
    await expect(page.get_by_role("row")).to_have_count(11)
    await expect(page.get_by_role("cell", name="decoding")).to_be_visible()
    await expect(page.get_by_text("first 10 requests, 1 failed")).to_be_visible()
    await shot(page, f"requests-{scheme}")
    assert await watched.axe() == []

    await page.get_by_text("Refused", exact=True).click()
    await expect(page.get_by_role("cell", name="rate_limited")).to_have_count(2)
    await expect(page).to_have_url(f"{console}/console/requests?state=refused")
    assert await watched.axe() == []
    await page.go_back()

    await page.get_by_role("link", name="0198b2c4\u2026d1aa").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(
        "Ended normally after 29.38 s: 9.12 s in the queue, 0.32 s to its first token, 16.18 s to write, "
        "3.24 s to move off a lost worker."
    )
    life = page.get_by_role("table", name="Its life")
    await expect(life.get_by_role("row", name="Waited for room at a worker")).to_contain_text("9.12")
    await expect(page.get_by_role("region", name="Bill")).to_contain_text("Total 0.000515040")
    who = page.get_by_role("region", name="Who, and from where")
    for name, id in (("initech", "t2"), ("web", "p1"), ("u-2210", "u1"), ("chat-web", "pk_chat")):
        await expect(who.get_by_text(name, exact=True)).to_have_attribute("title", id)
    await expect(who.get_by_role("button", name="Copy the key's id")).to_be_visible()
    await shot(page, f"request-{scheme}")
    assert await watched.axe() == []

    await page.goto(f"{console}/console/requests/{RUNNING}?tenant=t1")
    await expect(page.get_by_role("row", name="gateway-b")).to_contain_text("stuck for 31 s")
    await expect(page.get_by_role("row", name="c-3")).to_contain_text("paused for 4.0 s")
    await expect(page.get_by_role("row", name="gateway-b")).to_contain_text("256 of 256")
    limits = page.get_by_role("table", name="Its limits now")
    await expect(limits.get_by_role("row", name="Requests per minute, key chat-web")).to_contain_text(
        "refused"
    )
    await expect(limits.get_by_role("row", name="Slots of eu-1")).to_contain_text("wait")
    await expect(
        limits.get_by_role("row", name="KV tokens of eu-1").get_by_role("cell", name="go")
    ).to_be_visible()
    await shot(page, f"request-live-{scheme}")
    await expect(page.get_by_text("It came from acme-1.")).to_be_visible()
    assert await watched.axe() == []
    for button, name in (("Move\u2026", "Move this request"), ("Cancel\u2026", "Cancel this request")):
        await page.get_by_role("button", name=button).click()
        await expect(page.get_by_role("dialog", name=name)).to_be_visible()
        assert await watched.axe() == []
        await page.keyboard.press("Escape")
    assert (watched.errors, watched.strangers) == ([], [])


Rows = list[tuple[str, ...]]  # what each row has to say, from the second on
MOVED = [("queued", 0), ("claimed", 500), ("decode", 900), ("moved", 2_000), ("queued", 2_070)]
PARKED = [("queued", 2), ("cap", 2), ("claimed", 5_000), ("preempt", 5_100), ("parked", 6_000)]
LIVES: dict[str, tuple[list[tuple[str, int]], Rows]] = {
    "an event of before": (
        [],
        [("Waited", "in eu-1", "9.12"), ("Claimed",), ("Prefill", "0.32"), ("Decode", "19.94"), ("Ended",)],
    ),
    "moved": (
        [
            *MOVED,
            ("claimed", 3_000),
            ("decode", 3_400),
            ("grant", 9_000),
            ("decode", 9_400),
            ("ended", 29_380),
        ],
        [
            *(("Waited", "in its first pool", "0.50"), ("Claimed",), ("Prefill", "0.40"), ("Decode", "1.10")),
            *(("Moved", "to another pool", "0.07"), ("Waited", "in its new pool", "0.93")),
            *(("Prefill", "3,614 tokens again", "0.40"), ("Decode", "5.60")),
            *(("Waited", "until more output is allowed", "0.40"), ("Decode", "654 tokens in all", "19.98")),
            ("Ended", "stop"),
        ],
    ),
    "parked and blocked": (
        [
            *PARKED,
            ("queued", 7_000),
            ("claimed", 7_200),
            ("drain", 8_000),
            ("new", 9_000),
            ("blocked", 29_380),
        ],
        [
            *(("Waited", "at its cap", "5.00"), ("Claimed",), ("Prefill", "0.10")),
            *(("Waited", "made way", "0.90"), ("Parked", "nobody read it", "1.00")),
            *(("Waited", "read again", "0.20"), ("Prefill", "0.80"), ("Moved", "its worker drains", "1.00")),
            *(("new",), ("Blocked",)),
        ],
    ),
}


@pytest.mark.parametrize(("phases", "rows"), LIVES.values(), ids=list(LIVES))
async def test_a_life_has_a_row_for_each_phase(
    open_page: OpenPage,
    console: str,
    settings: Settings,
    sqlite: Database,
    phases: list[tuple[str, int]],
    rows: Rows,
):
    """Why, and how long; a wait whose reason came at once is one; a kind that is not known yet has a row."""
    watched, played = await opened(open_page, console, settings, sqlite, "requests", **WIDE)
    played.explained["lived"] = explained(booked=booked() | {"phases": lived(*phases)})
    await watched.page.goto(f"{console}/console/requests/lived")
    life = watched.page.get_by_role("table", name="Its life").get_by_role("row")
    await expect(life).to_have_count(2 + len(rows))
    for at, row in enumerate(rows):
        for words in row:
            await expect(life.nth(2 + at)).to_contain_text(words)
    assert watched.errors == []


async def test_filters_are_in_the_address_and_pages_come_behind_each_other(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """A filter that is typed is asked for and sent on; Load more goes on behind the last; nothing found says
    how to find more; what is only known of ended ones leaves those that run out, and says so."""
    watched, played = await opened(open_page, console, settings, sqlite, "requests?state=ended", **WIDE)
    page = watched.page
    await page.get_by_role("button", name="Load more").click()
    await expect(page.get_by_role("link", name="older")).to_be_visible()
    await expect(page.get_by_text("9 requests, 2 failed")).to_be_visible()
    await page.get_by_label("Outcome").select_option("error")
    await page.get_by_label("Tenant").fill("nobody")
    await page.get_by_label("Tenant").press("Enter")
    await expect(page.get_by_role("heading", name="No request matches")).to_be_visible()
    await expect(page).to_have_url(f"{console}/console/requests?tenant=nobody&state=ended&outcome=error")
    await page.get_by_role("button", name="Last 7 days").click()
    await expect(page.get_by_label("Time")).to_have_value("7d")
    assert (played.asked[-1]["since"], played.asked[-1]["reason"]) == (["7d"], ["error"])
    await page.get_by_role("button", name="Clear filters").click()
    await expect(page).to_have_url(f"{console}/console/requests?state=ended")
    await page.goto(f"{console}/console/requests?tenant=acme&user=ann")
    await expect(page.get_by_role("cell", name="decoding")).to_be_visible()
    await expect(page.get_by_label("User")).to_have_value("ann")
    await page.goto(f"{console}/console/requests?tenant=acme&outcome=error")
    await expect(page.get_by_text("Requests that run are left out: their outcome is known")).to_be_visible()
    await expect(page.get_by_role("cell", name="decoding")).to_be_hidden()
    assert watched.errors == []


@pytest.mark.parametrize(
    "path", ["requests", "requests?state=refused", f"requests/{ENDED}", f"requests/{RUNNING}"]
)
async def test_at_390_pixels_nothing_scrolls_sideways(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, path: str
):
    """Rows are two lines, the waterfall's bars stand below their words."""
    watched, _ = await opened(open_page, console, settings, sqlite, path, **PHONE)
    await expect(watched.page.get_by_role("row").nth(1)).to_be_visible()
    assert await watched.page.evaluate("document.documentElement.scrollWidth") <= 390
    await shot(watched.page, f"{path.replace('?', '-').replace('/', '-')}-390")


async def test_a_user_and_a_key_are_found_among_those_that_run(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """By id or name, alone or both; nobody else's request is listed."""
    watched, _ = await opened(open_page, console, settings, sqlite, "requests?state=live", **WIDE)
    page = watched.page
    runs, none = (
        page.get_by_role("cell", name="decoding"),
        page.get_by_role("heading", name="No request matches"),
    )
    for user, key in (("ann", ""), ("u-5596", "chat-web"), ("", "pk_chat")):
        await page.goto(f"{console}/console/requests?state=live&user={user}&key={key}")
        await expect(runs).to_be_visible()
    await page.get_by_label("User").fill("bob")
    await page.get_by_label("User").press("Enter")
    await expect(none).to_be_visible()
    await expect(page).to_have_url(f"{console}/console/requests?user=bob&key=pk_chat&state=live")
    await page.get_by_label("User").fill("")
    await page.get_by_label("User").press("Enter")
    await page.get_by_label("Key").fill("other")
    await page.get_by_label("Key").press("Enter")
    await expect(none).to_be_visible()
    assert watched.errors == []


STATES: list[tuple[dict[str, Any], str]] = [
    (running(state="parked") | {"in_pool": detail("parked", parked_ms=NOW_MS - 2_000)}, "Parked for 2.00 s"),
    (explained(state="refused", booked=None, refused=[refused_row()]), "Refused: rate_limited."),
    (explained(state="held_back", booked=None, held_back=[HELD_BACK]), "Ended, and held back from the books"),
]


@pytest.mark.parametrize(("found", "said"), STATES, ids=["parked", "refused", "held back"])
async def test_each_state_is_said_in_a_sentence(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, found: dict[str, Any], said: str
):
    """Parked, refused, or held back from the books: without a bill, with what is known of it."""
    watched, played = await opened(open_page, console, settings, sqlite, "requests?state=live", **WIDE)
    played.explained["odd"] = found
    await watched.page.goto(f"{console}/console/requests/odd")
    await expect(watched.page.get_by_role("heading", level=1)).to_contain_text(said)
    assert await watched.axe() == []
    assert watched.errors == []


async def test_a_request_that_cannot_move_stays_and_says_why(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """The dialog tells what the move would do, then why it did not; what was typed is kept."""
    watched, _ = await opened(open_page, console, settings, sqlite, f"requests/{RUNNING}?tenant=t1", **WIDE)
    await watched.page.get_by_role("button", name="Move\u2026").click()
    dialog = watched.page.get_by_role("dialog", name="Move this request")
    await dialog.get_by_label("To pool").select_option("acme-1")
    await expect(dialog.get_by_label("What it would do")).to_contain_text("see a pause")
    await dialog.get_by_label("Reason").fill("eu-1 is full")
    await dialog.get_by_role("button", name="Move it").click()
    await expect(dialog).to_contain_text("It stays in eu-1: acme-1 has no room for it.")
    await expect(dialog.get_by_label("Reason")).to_have_value("eu-1 is full")
    await expect(dialog.get_by_label("To pool")).to_have_value("acme-1")


async def signed_in(open_page: OpenPage, url: str, settings: Settings, db: Database) -> Page:
    """The overview of a console on real stores."""
    code = await staff_code(settings, db)
    watched = await open_page(f"{url}/healthz", own=True, **WIDE)
    await watched.page.goto(f"{url}/#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched.page


async def test_a_waiting_request_is_found_and_cancelled_for_a_reason(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """On real stores: `g r` goes to the list, which has it; without a reason it is not cancelled, and that is
    said at the field; then it ends, and the audit log says who and why."""
    acme = (await create_tenant(sqlite, "acme")).tenant_id
    waiting = request(tenant=acme, accepted_ms=now_ms(), deadline_ms=now_ms() + 600_000)
    redis = connect(settings)
    await PoolQueue(redis, settings.pool, settings).enqueue(waiting)
    await redis.aclose()
    page = await signed_in(open_page, console, settings, sqlite)
    await page.keyboard.press("g")
    await page.keyboard.press("r")
    row = page.get_by_role("row").filter(has=page.get_by_title(waiting.id))
    await expect(row).to_contain_text("waiting")
    await row.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("it is the next of its class")
    await page.get_by_role("button", name="Cancel\u2026").click()
    dialog = page.get_by_role("dialog", name="Cancel this request")
    await expect(dialog).to_contain_text("It ends at once")
    await dialog.get_by_role("button", name="Cancel the request").click()
    await expect(dialog).to_contain_text("Say why")
    await dialog.get_by_label("Reason").fill("its sender asked for it")
    await dialog.get_by_role("button", name="Cancel the request").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Ended")
    await expect(page.get_by_role("button", name="Cancel\u2026")).to_be_hidden()
    (row,) = [row for row in await list_rows(sqlite, acme) if row.action == "request.cancel"]
    assert (row.author, row.target) == ("Ann", waiting.id)
    assert "its sender asked for it" in (row.after or "")


async def test_an_ended_request_is_opened_by_the_search(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """Its id is enough; a user without a tenant is refused beside the field, and what was typed stays."""
    acme = (await create_tenant(sqlite, "acme")).tenant_id
    event = an_event(
        "r-77", acme, owner=UsageOwner("p1", "k1", ""), accepted_ms=now_ms() - 2_000, ended_ms=now_ms()
    )
    await post(sqlite, "default", [encode(event)])
    page = await signed_in(open_page, console, settings, sqlite)
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search").fill("r-77")
    await page.get_by_role("option", name="r-77").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("after 2.00 s")
    await expect(page.get_by_role("region", name="Bill")).to_contain_text("0.000003700")
    explains = [row for row in await list_rows(sqlite, acme) if row.action == "request.explain"]
    assert len(explains) == 1
    await page.goto(f"{console}/console/requests?user=ann")
    await expect(page.get_by_text("A user is of one tenant: name the tenant too.")).to_be_visible()
    await expect(page.get_by_label("User")).to_have_value("ann")
    await page.goto(f"{console}/console/requests/nobodys")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Nobody knows this request.")
