"""The console's pages of pools, with a fleet in trouble."""

import re
from typing import Any

import pytest
from playwright.async_api import Route, expect

from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.browser.moves_sample import preview
from tests.browser.pools_sample import MOVED, PLAYED, RUNNING, STARTED, play, use
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDE = {"width": 1440, "height": 900}
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


async def opened(open_page: OpenPage, url: str, code: str, path: str, **options: Any) -> WatchedPage:
    """A page of the console, for an owner, with the answers of PLAYED."""
    watched = await open_page(f"{url}/healthz", own=True, **options)
    await play(watched.page, PLAYED)
    await watched.page.goto(f"{url}/console{path}#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pools_say_what_they_lack_and_each_has_a_page(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str
):
    """The list names the pools in trouble, counts the others, tells what each lacks and cost; a pool has its
    workers, whose requests it has and what waits. Axe finds nothing, the policy holds."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, "/pools", color_scheme=scheme, viewport=WIDE)
    page = watched.page
    said = "eu-1 is full and lacks two workers; big lost two workers; one more needs you; "
    said += "one pool is as desired."
    await expect(page.get_by_role("heading", level=1)).to_have_text(said)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="eu-1", exact=True))
    await expect(row).to_contain_text("96 / 96")
    await expect(row).to_contain_text("5 of 7")
    await expect(page.get_by_role("row").filter(has_text="acme-1")).to_contain_text("as desired")
    why = r"waits for users in Redis: run parley redis acl --url URL --pool eu-1, for \d+ min"
    await expect(row).to_contain_text(re.compile(why))
    await expect(page.get_by_role("row").filter(has_text="no room")).to_contain_text("0 of 1")
    await expect(row.get_by_role("cell", name="Busy GPUs of eu-1")).to_contain_text("27")
    for told in ("100.00", "1.00"):  # idle cost, margin
        await expect(row.get_by_role("cell", name=told, exact=True)).to_be_visible()
    await shot(page, f"pools-{scheme}")
    assert await watched.axe() == []

    await row.get_by_role("link", name="eu-1").click()
    tile = page.get_by_role("listitem").filter(has_text="lost: node gpu-05 sent nothing")
    await expect(tile).to_contain_text("eu-1-w4")
    tenants = page.get_by_role("table", name="Tenants here")
    initech = tenants.get_by_role("row", name="initech")
    await expect(initech.get_by_role("cell", name="80")).to_contain_text("80")
    await expect(initech.get_by_role("img", name="over its fair share")).to_be_visible()
    desired = page.get_by_role("region", name="Desired and observed")
    await expect(desired).to_contain_text("5 of 7")
    await expect(desired).to_contain_text("waits for users in Redis")
    await expect(desired).to_contain_text("is switching to v5: 0 of 7 workers ready")
    await page.get_by_role("button", name="Show as table").click()
    await expect(page.get_by_role("row").filter(has_text="2.22").first).to_contain_text("4")
    await expect(page.get_by_role("table", name="Waiting").get_by_role("row").last).to_contain_text("10.0")
    await expect(page.get_by_role("region", name="Money")).to_contain_text("1.00 USD")
    await shot(page, f"pool-{scheme}")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_what_nobody_set_is_said_and_money_is_for_those_who_may_see_it(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """A type of GPU without a cost has the command that sets it, and no margin; support sees no money, and no
    change that the API would refuse."""
    unpriced = {**use("eu-1", 360_000, 180_000, 180_000, 0, 0, 0), "gpu_type": "cpu"}
    unpriced |= {"cost": None, "margin_per_gpu_hour": None}
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, "/pools", viewport=WIDE)
    page = watched.page
    await page.route("**/api/pools/usage*", lambda route: route.fulfill(json={"uses": [unpriced]}))
    await page.reload()
    command = page.get_by_text("parley pools costs --gpu cpu --hour 'AMOUNT USD'")
    await expect(command).to_be_visible()
    await page.get_by_role("link", name="eu-1").click()
    await expect(command).to_be_visible()
    await expect(page.get_by_role("region", name="Money")).to_contain_text("not known")

    code = await staff_code(settings, sqlite, "Sue", Role.SUPPORT)
    watched = await opened(open_page, console, code, "/pools", viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("columnheader", name="Busy, %")).to_be_visible()
    await expect(page.get_by_role("columnheader", name="USD")).to_have_count(0)
    await page.get_by_role("link", name="eu-1").click()
    await expect(page.get_by_role("region", name="Desired and observed")).to_be_visible()
    await expect(page.get_by_role("region", name="Money")).to_have_count(0)
    for name in ("Resize…", "More", "Move"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_on_a_phone_nothing_scrolls_sideways(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """A row of the list is some lines; tiles stand below each other."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, "/pools", viewport={"width": 390, "height": 844})
    page = watched.page
    await expect(page.get_by_role("link", name="eu-1")).to_be_visible()
    assert not await page.evaluate(SIDEWAYS)
    await page.get_by_role("link", name="eu-1").click()
    await expect(page.get_by_role("region", name="Tenants here")).to_be_visible()
    assert not await page.evaluate(SIDEWAYS)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_pool_is_reached_by_keys_by_search_and_from_the_overview(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """`g p` opens the list, a worker that was found its pool, a name on the overview the pool's page."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, "/", viewport=WIDE)
    page, heading = watched.page, watched.page.get_by_role("heading", level=1)
    await page.keyboard.press("g")
    await page.keyboard.press("p")
    await expect(page).to_have_url(f"{console}/console/pools")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("eu-1-w2")
    await page.get_by_role("option", name="eu-1-w2").click()
    await expect(page).to_have_url(f"{console}/console/pools/eu-1")
    await expect(heading).to_contain_text("eu-1")
    await page.get_by_role("link", name="Overview").click()
    await page.get_by_role("region", name="Workers").get_by_role("link", name="acme-1").click()
    await expect(heading).to_contain_text("acme-1 for acme")
    assert (watched.errors, watched.strangers) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_requests_move_after_their_preview_and_their_run_is_seen_and_stopped(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str
):
    """The dialog says what moves and what room there is, asks why, then shows the run's steps in place; it
    is stopped there, and what stayed is counted."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, "/pools/eu-1", color_scheme=scheme, viewport=WIDE)
    page, run, sent = watched.page, dict(RUNNING), list[Any]()

    async def migrate(route: Route) -> None:
        dry = "dry_run=true" in route.request.url
        if not dry:
            sent.append(route.request.post_data_json)
        whose = (route.request.post_data_json or {}).get("tenant")
        room = preview(streams=1, waiting=1 if whose else 2, slots=112, free=30)
        await route.fulfill(json={**MOVED, "preview": room} if dry else STARTED)

    async def stop(route: Route) -> None:
        run.update(stop_asked=True, state="stopped", answer=MOVED)
        await route.fulfill(json=run)

    await page.route("**/api/requests/migrate*", migrate)
    await page.route("**/api/runs/run-1", lambda route: route.fulfill(json=run))
    await page.route("**/api/runs/run-1/stop*", stop)
    await page.get_by_role("button", name="Move requests…").click()
    dialog = page.get_by_role("dialog", name="Move requests of eu-1")
    await expect(dialog.get_by_text("30 free of 112, 29 after it")).to_be_visible()
    await shot(page, f"pool-move-{scheme}")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Move 3 requests").click()
    await expect(dialog.get_by_text("Say why")).to_be_visible()
    await dialog.get_by_label("Whose").select_option("initech")
    await dialog.get_by_label("Reason").fill("eu-1 is full")
    await dialog.get_by_role("button", name="Move 2 requests").click()
    await expect(dialog.get_by_text("2 of 3 done")).to_be_visible()
    assert sent == [{"pool": "eu-1", "to": "acme-1", "tenant": "initech", "reason": "eu-1 is full"}]
    await expect(dialog.get_by_text("r2 stays: acme-1 takes 32768 tokens")).to_be_visible()
    await shot(page, f"pool-moving-{scheme}")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Stop after this one").click()
    await expect(dialog.get_by_text("Stopped: 1 moved, 1 stays")).to_be_visible()
    await dialog.get_by_role("button", name="Close", exact=True).last.click()
    await expect(dialog).to_have_count(0)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_worker_is_killed_only_by_its_name_and_with_a_reason(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """What will happen is said first; a wrong name is told beside its field and nothing is sent."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, "/pools/eu-1", viewport=WIDE)
    page, sent = watched.page, list[Any]()

    async def kill(route: Route) -> None:
        if "dry_run=true" not in route.request.url:
            sent.append(route.request.post_data_json)
        await route.fulfill(json={"worker": "eu-1-w0", "pool": "eu-1", "held": 3, "gone": False})

    await page.route("**/api/workers/eu-1-w0/kill*", kill)
    await page.get_by_role("button", name="What can be done with eu-1-w0").click()
    assert await watched.axe() == []
    await page.get_by_role("menuitem", name="Kill…").click()
    dialog = page.get_by_role("dialog", name="Kill eu-1-w0")
    await expect(dialog.get_by_text("end at once")).to_be_visible()
    assert await watched.axe() == []
    await dialog.get_by_label("Type eu-1-w0 to confirm").fill("eu-1-w1")
    await dialog.get_by_label("Reason").fill("it hangs")
    await dialog.get_by_role("button", name="Kill worker").click()
    await expect(dialog.get_by_text("this is not its name")).to_be_visible()
    assert sent == []
    await dialog.get_by_label("Type eu-1-w0 to confirm").fill("eu-1-w0")
    await dialog.get_by_role("button", name="Kill worker").click()
    await expect(dialog).to_have_count(0)
    assert sent == [{"pool": "eu-1", "reason": "it hangs"}]
    assert (watched.errors, watched.strangers) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_idle_cost_of_shared_pools_is_told_by_tenants(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str
):
    """A pool's page leads to its own, and that to all. The month stands in the address and is what the file
    holds; what nobody priced is no zero, and is named."""
    watched = await opened(
        open_page,
        console,
        await staff_code(settings, sqlite),
        "/pools/eu-1",
        color_scheme=scheme,
        viewport=WIDE,
    )
    page = watched.page
    await page.get_by_role("link", name="Idle cost of a month").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Idle cost of eu-1")
    table = page.get_by_role("table", name="Idle cost")
    await expect(table.get_by_role("row", name="initech")).to_contain_text("75")
    await expect(table.get_by_role("row").last).to_contain_text("40.00")
    await page.get_by_role("link", name="All shared pools").click()
    await expect(table.get_by_role("row", name="nobody used it")).to_contain_text("cpu-1")
    await expect(page.get_by_text("without 1 pool whose GPUs nobody priced")).to_be_visible()
    await page.get_by_role("combobox", name="Month").select_option("2026-11")
    await expect(page).to_have_url(re.compile("month=2026-11"))
    export = page.get_by_role("link", name="Export CSV")
    await expect(export).to_have_attribute("href", re.compile("/api/chargeback/idle/export.month=2026-11"))
    await shot(page, f"idle-cost-{scheme}")
    assert await watched.axe() == []
    await page.set_viewport_size({"width": 390, "height": 844})
    assert not await page.evaluate(SIDEWAYS)
    await shot(page, f"idle-cost-phone-{scheme}")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])
