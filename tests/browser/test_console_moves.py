"""A tenant that is moved on a pool's page: the dialog in both themes, and one move over real stores."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from playwright.async_api import Route, expect

from billing.api import PLATFORM, create_tenant
from billing.audit.log import list_rows
from billing.pools import PoolRow, create_pool, read_routes
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.redis.client import connect
from core.sql.database import Database
from engine.api import Enqueued
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.browser.moves_sample import BEGUN, GOING, LISTED, WOULD
from tests.browser.pools_sample import PLAYED, desired, play
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import wait_until
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
POOLS = {"items": [desired("eu-1", 7), desired("big", 4, tenant="acme")], "next": None}
TEXT = "Elbe, Oder and Neiße: 川 🌊. " * 40


async def opened(open_page: OpenPage, url: str, code: str, **options: Any) -> WatchedPage:
    """The page of eu-1, for an owner, with answers that are played."""
    watched = await open_page(f"{url}/healthz", own=True, **options)
    await play(watched.page, {**PLAYED, "**/api/pools?*": POOLS, "**/api/pools/eu-1": desired("eu-1", 7)})
    await watched.page.goto(f"{url}/console/pools/eu-1#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)], ids=["light", "dark", "phone"]
)
async def test_a_move_says_what_it_will_do_and_then_how_far_it_is(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str, width: int
):
    """What does not fit stands in amber, the amount on the button; then a row for each stream, in place. It
    goes on when it is closed, and can be stopped. Axe finds nothing, the policy holds."""
    code = await staff_code(settings, sqlite)
    size = {"width": width, "height": 900}
    watched = await opened(open_page, console, code, color_scheme=scheme, viewport=size)
    page, run, sent = watched.page, dict(GOING), list[Any]()

    async def move(route: Route) -> None:
        dry = "dry_run=true" in route.request.url
        if not dry:
            sent.append(route.request.post_data_json)
        await route.fulfill(json=WOULD if dry else BEGUN)

    async def stop(route: Route) -> None:
        run.update(stop_asked=True, state="stopped")
        await route.fulfill(json=run)

    await page.route("**/api/pools/eu-1/move*", move)
    await page.route("**/api/runs/run-2", lambda route: route.fulfill(json=run))
    await page.route("**/api/runs/run-2/stop*", stop)
    await page.get_by_role("button", name="Move tenant…").click()
    dialog = page.get_by_role("dialog")
    for said in ("8 of 9", "20 free of 48, 12 after it", "54 → 71 %", "41,208 tokens, not billed"):
        await expect(dialog.get_by_text(said)).to_be_visible()
    await expect(dialog.get_by_text("1 request does not fit.")).to_be_visible()
    await expect(dialog.get_by_text("2 streams find no free slot.")).to_be_visible()
    await shot(page, f"move-tenant-{scheme}-{width}")
    assert await watched.axe() == []
    assert not await page.evaluate(SIDEWAYS)
    await dialog.get_by_role("button", name="Move 11 requests").click()
    await expect(dialog.get_by_text("Say why")).to_be_visible()
    await dialog.get_by_label("Reason").fill("eu-1 is full")
    await dialog.get_by_role("button", name="Move 11 requests").click()
    await expect(dialog.get_by_text("5 of 8 streams moved")).to_be_visible()
    assert sent == [{"tenant": "initech", "to": "big", "reason": "eu-1 is full"}]
    await expect(dialog.get_by_text("0 lost · 0 doubled · longest pause 0.62 s")).to_be_visible()
    await expect(dialog.get_by_role("row").filter(has_text="in eu-1, next")).to_have_count(1)
    await shot(page, f"moving-tenant-{scheme}-{width}")
    assert await watched.axe() == []
    assert not await page.evaluate(SIDEWAYS)
    await expect(dialog.get_by_text("Goes on when closed.")).to_be_visible()
    await dialog.get_by_role("button", name="Stop after this one").click()
    await expect(dialog.get_by_text("Stopped. New requests go there all the same")).to_be_visible()
    await dialog.get_by_role("button", name="Close", exact=True).last.click()
    await expect(dialog).to_have_count(0)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_the_progress_of_a_move_is_opened_again(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """On the pages of both pools and of the tenant, whoever began it; that its process ended is said."""
    code = await staff_code(settings, sqlite)
    await create_tenant(sqlite, "initech")
    watched = await opened(open_page, console, code, viewport={"width": 390, "height": 844})
    page, listed, run = watched.page, dict(LISTED), dict(GOING)
    await page.route("**/api/runs?*", lambda route: route.fulfill(json={"items": [listed], "next": None}))
    await page.route("**/api/runs/run-2", lambda route: route.fulfill(json=run))
    moves = page.get_by_role("list", name="Moves")
    await expect(moves).to_contain_text("Moving initech from eu-1 to big: 5 of 8 streams moved.")
    for path in ("pools/big", "tenants/initech"):
        await page.goto(f"{console}/console/{path}")
        await moves.get_by_role("button", name="Show progress…").click()
        dialog = page.get_by_role("dialog", name="Moving initech to big")
        await expect(dialog.get_by_text("5 of 8 streams moved")).to_be_visible()
        await expect(dialog.get_by_text("Goes on when closed.")).to_be_visible()
    await shot(page, "move-opened-again")
    assert await watched.axe() == []
    run.update(state="interrupted")
    await expect(dialog.get_by_text("It ended early.")).to_be_visible()
    await dialog.get_by_role("button", name="Close", exact=True).last.click()
    listed.update(state="interrupted", begun=datetime.now(UTC).isoformat())
    await expect(moves).to_contain_text("was interrupted: its process ended. Move again to bring the rest.")
    assert not await page.evaluate(SIDEWAYS)
    assert await watched.axe() == []
    listed.update(state="done")
    await expect(moves).to_have_count(0)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_tenant_moves_with_its_live_answer_over_real_stores(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """What cannot be stands beside its field; then new requests go there, and the answer after them."""
    code = await staff_code(settings, sqlite)
    acme = (await create_tenant(sqlite, "acme")).tenant_id
    payer = (await create_tenant(sqlite, "initech")).tenant_id
    for pool, tenant_id in (("a", ""), ("b", payer)):
        row = PoolRow(pool=pool, model="m", version="1", workers=1, labels={}, tenant_id=tenant_id, made_ms=1)
        await create_pool(sqlite, row)
    async with AsyncExitStack() as stack:
        redis: Any = connect(settings)
        stack.push_async_callback(redis.aclose)
        crews = {pool: PoolWorkers(redis, settings, pool) for pool in "ab"}
        for crew in crews.values():
            await stack.enter_async_context(crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0.05)))
        asked = msgspec.structs.replace(crews["a"].request_of(max_tokens=1_000), tenant=acme)
        assert isinstance(await crews["a"].queue.enqueue(asked), Enqueued)
        await wait_until(lambda: crews["a"].queue.tokens(acme, asked.id))

        watched = await open_page(f"{console}/healthz", own=True)
        page = watched.page
        await page.goto(f"{console}/console/pools/a#p={code}")
        await page.get_by_role("button", name="Move tenant…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_text("b lets it in")).to_be_visible()
        await dialog.get_by_label("Reason").fill("a is full")
        await shot(page, "move-tenant-real")
        await dialog.get_by_role("button", name="Move 1 request").click()
        await expect(dialog.get_by_text("1 of 1 streams moved")).to_be_visible()
        await expect(dialog.get_by_text("Done.")).to_be_visible()
        await expect(dialog.get_by_text("0 lost · 0 doubled · longest pause")).to_be_visible()
        await shot(page, "moved-tenant-real")
        await dialog.get_by_role("button", name="Close", exact=True).last.click()
        route = (await read_routes(sqlite)).of(acme, "m")
        assert route is not None
        assert route.pool == "b"
        (entry,) = await list_rows(sqlite, PLATFORM, limit=1)
        assert (entry.action, entry.target) == ("pool.move", "a")
        await wait_until(lambda: crews["b"].queue.tokens(acme, asked.id))

        await page.goto(f"{console}/console/pools/b")
        await page.get_by_role("button", name="Move tenant…").click()
        await dialog.get_by_label("Tenant").select_option("acme")
        await expect(dialog.get_by_text("b no more")).to_be_visible()
        assert watched.strangers == []
