"""The console's page of models: what serves where, what is under way, a version that is used or removed."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Route, expect

from billing.pools import PoolRow, create_pool, read_pools
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from engine.models.registry import ModelRecord, save
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.browser.pools_sample import desired, play
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
UNTIL = (datetime.now(UTC) + timedelta(minutes=20)).replace(microsecond=0)
VERSION = ("version", "workers", "ready", "requests", "until")


def version(name: str, state: str, model: str = "smollm2", **more: Any) -> dict[str, Any]:
    """A version of a model."""
    lists: dict[str, Any] = {each: [] for each in ("pools", "next_in", "earlier_in", "seen")}
    facts = {"name": model, "version": name, "state": state, "fingerprint": "f" * 64, "folder": "/models/f"}
    facts |= {"max_model_len": 8192, "dtype": "bfloat16", "answer_tokens": None, "removed": None}
    facts |= {"size_bytes": 272 << 20, "added": "2026-11-20T08:00:00+00:00"}
    return {**facts, "proved": "not yet: the first worker proves it", **lists, **more}


def seen(pool: str, ready: int, requests: int = 0, until: str | None = None) -> dict[str, Any]:
    """What the fleet sees of a version in a pool of two workers."""
    counts = {"workers": ready, "ready": ready, "desired": 2, "requests": requests, "until": until}
    return {"pool": pool, **counts, "why": ""}


def pool(name: str, versions: list[tuple[Any, ...]], **more: Any) -> dict[str, Any]:
    """A pool of two workers of smollm2, and what the fleet sees."""
    made = desired(name, 2, more.pop("why", ""), model="smollm2", version="0.1.0")
    made["observed"]["versions"] = [dict(zip(VERSION, each, strict=True)) for each in versions]
    return made | {"next_version": None, "earlier_version": None, **more}


BY_ANSWER = "by an answer on gpu-01 at 2026-11-20T08:00:00+00:00"
OLD = ("0.0.9", 1, 1, 3, UNTIL.isoformat())
WHY = "a worker of 0.2.0 starts"
PLAYED: dict[str, Any] = {
    "**/api/models?*": {
        "next": None,
        "items": [
            version("v4", "in_use", "qwen3-8b", pools=["acme-1"], proved=BY_ANSWER, size_bytes=None),
            version("0.0.9", "earlier", earlier_in=["eu-1"], seen=[seen("eu-1", 1, 3, UNTIL.isoformat())]),
            version("0.1.0", "in_use", pools=["eu-1", "us-1"], proved=BY_ANSWER, seen=[seen("us-1", 2)]),
            version("0.2.0", "next", next_in=["eu-1"], seen=[seen("eu-1", 1)], proved=BY_ANSWER),
            version("0.3.0", "prepared"),
        ],
    },
    "**/api/pools?*": {
        "next": None,
        "items": [
            pool(
                "eu-1",
                [("0.1.0", 1, 1, 0, None), OLD, ("0.2.0", 1, 1, 0, None)],
                next_version="0.2.0",
                earlier_version="0.0.9",
                why=WHY,
            ),
            pool("us-1", [("0.1.0", 2, 2, 0, None)]),
            desired("acme-1", 1, model="qwen3-8b"),
        ],
    },
}


async def opened(open_page: OpenPage, url: str, code: str, **options: Any) -> WatchedPage:
    """The page of models with the answers of PLAYED."""
    watched = await open_page(f"{url}/healthz", own=True, **options)
    await play(watched.page, PLAYED)
    await watched.page.goto(f"{url}/console/models#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_models_say_where_each_version_serves_and_what_is_under_way(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str
):
    """In a sentence, then who waits for what, then versions by model. Axe finds nothing, the policy holds, a
    phone does not scroll sideways."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, color_scheme=scheme, viewport=WIDE)
    page = watched.page
    said = "2 models serve in 3 pools; pool eu-1 is switching to 0.2.0: 1 of 2 workers ready; "
    said += f"the old 0.0.9 still has 3 requests, at most until {UNTIL:%H:%M} UTC."
    await expect(page.get_by_role("heading", level=1)).to_have_text(said)
    under_way = page.get_by_role("table", name="Under way").get_by_role("row", name="eu-1")
    await expect(under_way).to_contain_text("0.1.0 → 0.2.0")
    await expect(under_way).to_contain_text(WHY)
    rows = page.get_by_role("table", name="Versions of smollm2").get_by_role("row")
    await expect(rows.nth(1)).to_contain_text(re.compile("0.3.0.*prepared.*272.*not yet.*2026-11-20"))
    await expect(rows.nth(2)).to_contain_text(re.compile("0.2.0.*next.*eu-1 next, 1 of 2 ready"))
    await expect(rows.nth(3)).to_contain_text(re.compile("in use.*us-1 2 of 2 ready.*by an answer on gpu-01"))
    await expect(rows.nth(4)).to_contain_text("still needed")
    await shot(page, f"models-{scheme}")
    assert await watched.axe() == []
    await page.set_viewport_size({"width": 390, "height": 844})
    assert not await page.evaluate(SIDEWAYS)
    await shot(page, f"models-phone-{scheme}")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_version_is_used_after_the_words_of_its_dry_run(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str
):
    """What becomes of each pool is said before it is saved; a refused gap stands beside its field."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, color_scheme=scheme, viewport=WIDE)
    page, sent = watched.page, list[Any]()

    async def use(route: Route) -> None:
        body = route.request.post_data_json or {}
        if not body["accept_gap"]:
            told = "with 0.3.0 nobody would serve. Free a place, or take that with --accept-gap"
            return await route.fulfill(status=400, json={"detail": told, "field": "accept_gap"})
        if "dry_run=true" not in route.request.url:
            sent.append(body)
        change = {"pool": "us-1", "before": "0.1.0", "version": "0.1.0", "next": "0.3.0", "workers": 2}
        change |= {"differs": ["tokenizer"], "cut_off_seconds": 1800, "accept_gap": True, "note": ""}
        await route.fulfill(json={"model": "smollm2", "pools": [change]})

    await page.route("**/api/models/smollm2/use*", use)
    await page.get_by_role("button", name="What can be done with smollm2 0.3.0").click()
    await page.get_by_role("menuitem", name="Use in…").click()
    dialog = page.get_by_role("dialog", name="Use smollm2 0.3.0")
    await expect(dialog.get_by_text("nobody would serve. Free a place, or take that here")).to_be_visible()
    watched.errors.clear()  # the refusal
    await dialog.get_by_label("Pools").select_option("us-1")
    await dialog.get_by_label("Until workers of it are ready").select_option("yes")
    await dialog.get_by_label("Cut-off").fill("30m")
    would = "us-1 switches to 0.3.0 once its 2 workers of it are ready, and serves with 0.1.0 until then; "
    await expect(dialog.get_by_text(would + "what still needs 0.1.0 ends 30 min later.")).to_be_visible()
    await expect(dialog.get_by_text("Another tokenizer than 0.1.0.")).to_be_visible()
    await shot(page, f"models-use-{scheme}")
    assert await watched.axe() == []
    await dialog.get_by_label("Reason").fill("newer")
    await dialog.get_by_role("button", name="Use it").click()
    await expect(dialog).to_have_count(0)
    ask = {"pool": "us-1", "version": "0.3.0", "cut_off": "30m", "accept_gap": True, "reason": "newer"}
    assert sent == [ask]
    watched.errors[:] = [each for each in watched.errors if "400" not in each]
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_change_is_wanted_and_given_up_on_the_page(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """On real stores: the pool's row says the next version, the page that no fleet makes it ready; then it is
    given up."""
    for named in ("v1", "v2"):
        record = ModelRecord("smollm2", named, f"print-{named}", Path("/none"), 4096)
        await save(sqlite, record, {"sha256": {}, "source": "s", "bytes": {}}, now_ms())
    row = PoolRow(pool="eu-1", model="smollm2", version="v1", workers=2, labels={}, made_ms=1)
    await create_pool(sqlite, row)
    code = await staff_code(settings, sqlite)
    watched = await open_page(f"{console}/console/models#p={code}", own=True, viewport=WIDE)
    page, heading = watched.page, watched.page.get_by_role("heading", level=1)
    await expect(heading).to_have_text("smollm2 v1 serves in 1 pool.")

    async def chosen(named: str, item: str, save: str) -> None:
        await page.get_by_role("button", name=f"What can be done with smollm2 {named}").click()
        await page.get_by_role("menuitem", name=item).click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("group", name="What happens")).to_contain_text("eu-1")
        await dialog.get_by_label("Reason").fill("try it")
        await dialog.get_by_role("button", name=save).click()
        await expect(dialog).to_have_count(0)

    await chosen("v2", "Use in…", "Use it")
    told = "pool eu-1 is switching to v2: nobody knows how many workers are ready."
    await expect(heading).to_have_text(f"smollm2 v1 serves in 1 pool; {told}")
    assert (await read_pools(sqlite))[0].next_version == "v2"
    await expect(page.get_by_role("table", name="Under way")).to_contain_text("no fleet runs")
    await chosen("v2", "Roll back…", "Roll back")
    await expect(heading).to_have_text("smollm2 v1 serves in 1 pool.")
    assert (await read_pools(sqlite))[0].next_version == ""
    assert (watched.errors, watched.strangers) == ([], [])


async def test_each_version_offers_what_fits_it(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """One that is used goes back, one that is only prepared is removed by its name, and who may not change
    models is offered nothing."""
    watched = await opened(open_page, console, await staff_code(settings, sqlite), viewport=PHONE)
    page, sent = watched.page, list[str]()

    async def remove(route: Route) -> None:
        sent.append(route.request.url)
        await route.fulfill(json=version("0.3.0", "removed"))

    await page.route("**/api/models/smollm2/versions/0.3.0*", remove)
    for named, offered in (("0.3.0", ["Use in…", "Remove…"]), ("0.1.0", ["Roll back…"])):
        await page.get_by_role("button", name=f"What can be done with smollm2 {named}").click()
        assert await page.get_by_role("menuitem").all_inner_texts() == offered
        await page.keyboard.press("Escape")
    await page.get_by_role("button", name="What can be done with smollm2 0.3.0").click()
    await page.get_by_role("menuitem", name="Remove…").click()
    dialog = page.get_by_role("dialog", name="Remove smollm2 0.3.0")
    await dialog.get_by_label("Type 0.3.0 to confirm").fill("0.3.0")
    await dialog.get_by_label("Reason").fill("not needed")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Remove version").click()
    await expect(dialog).to_have_count(0)
    assert "dry_run=false" in sent[-1]
    assert (watched.errors, watched.strangers) == ([], [])

    watched = await opened(
        open_page, console, await staff_code(settings, sqlite, "Sue", Role.SUPPORT), viewport=WIDE
    )
    await expect(watched.page.get_by_role("table", name="Versions of smollm2")).to_be_visible()
    await expect(watched.page.get_by_role("button", name="What can be done")).to_have_count(0)
