"""A tenant's money on its page in the console: what it used, its statement, and what is granted to it."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Route, expect

from billing.operations.wallet_views import list_wallets
from billing.unit_of_work.listing import ListQuestion
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.operations import Role
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.tenants_sample import WIDE, in_dialog, opened
from tests.browser.tenants_sample import console as console  # the fixture
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def left(stores: Stores) -> list[str]:
    """What is left in each wallet."""
    page = await answer_of(list_wallets, stores, OWNER, ListQuestion())
    return [each.left.nano for each in page.items]


async def test_how_it_does_now_and_its_statement_by_the_address(
    open_page: OpenPage, console: tuple[str, Stores]
):
    """What runs where, the last hour, the month; a statement's lines by what is chosen, which the address
    holds and back undoes; their total is to the nano."""
    watched = await opened(open_page, console, "/tenants/acme?by=day", viewport=WIDE)
    page = watched.page
    strip = page.get_by_label("Now", exact=True)
    await expect(strip).to_contain_text("in acme-1 · 1 wait")
    await expect(strip).to_contain_text("of 2 in the last hour")
    await expect(page.get_by_role("region", name="Pools", exact=True)).to_contain_text("2 running, dedicated")
    table = page.get_by_role("table", name="Statement")
    total = table.get_by_role("row", name="Total")
    await expect(total).to_contain_text("48")
    said = await total.inner_text()
    await expect(page.get_by_role("region", name="Money")).to_contain_text(said.split()[-1])
    await page.get_by_label("By", exact=True).select_option("model")
    await expect(table).to_contain_text("smollm2")
    assert "by=model" in page.url
    assert await total.inner_text() == said
    await page.go_back()
    await expect(page.get_by_label("By", exact=True)).to_have_value("day")
    await shot(page, "statement")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_every_line_of_a_long_statement_is_reached(open_page: OpenPage, console: tuple[str, Stores]):
    """Twenty first, then a thousand at a time; what is not listed is told in one line, which goes at last."""
    sums = dict.fromkeys(("requests", "errors", "input_uncached", "input_cached"), 1)
    sums |= {"output_text": 1, "output_reasoning": 0, "cost": {"nano": "1", "currency": "USD"}}
    users = [{"of": f"u{number}", "name": f"user {number}", "sums": sums} for number in range(1_300)]
    facts = {
        "month": "2026-11",
        "time_zone": "UTC",
        "closed": False,
        "lacks": "",
        "by": "user",
        "total": sums,
    }

    async def answer(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        start = int(asked["skip"][0])
        end = start + int(asked["limit"][0])
        more = {"lines": users[start:end], "more": max(0, len(users) - end), "others": sums}
        await route.fulfill(json={**facts, **more})

    watched = await opened(open_page, console, "/tenants", viewport=WIDE)
    page = watched.page
    await page.route("**/api/tenants/*/statement*", answer)
    await page.goto(f"{console[0]}/console/tenants/acme?by=user")
    rows = page.get_by_role("table", name="Statement").get_by_role("row")
    await expect(rows).to_have_count(1 + 20 + 1 + 1)
    await expect(rows.filter(has_text="1,280 others together")).to_have_count(1)
    await page.get_by_role("button", name="Load more lines: 1,000 of 1,280").click()
    await expect(rows.filter(has_text="280 others together")).to_have_count(1)
    await page.get_by_role("button", name="Load more lines: 280").click()
    await expect(rows).to_have_count(1 + 1_300 + 1)
    await expect(page.get_by_role("button", name="Load more lines")).to_have_count(0)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_grant_is_previewed_made_and_voided(open_page: OpenPage, console: tuple[str, Stores]):
    """What is no amount is said beside it; a mistake is taken back by the tenant's name."""
    watched = await opened(open_page, console, "/tenants/acme", viewport=WIDE)
    page, stores = watched.page, console[1]
    dialog = await in_dialog(page, "Grant…", "Grant money to acme")
    await dialog.get_by_label("Amount, USD").fill("a lot")
    await expect(dialog.get_by_text("An amount like 250.00")).to_be_visible()
    await dialog.get_by_label("Amount, USD").fill("12.5")
    await dialog.get_by_label("Ends").fill("soon")
    await expect(dialog.get_by_label("Ends")).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("Ends").fill("")
    await expect(dialog.get_by_label("What is booked")).to_contain_text("12.500000000 USD")
    await dialog.get_by_label("Reason").fill("contract 9")
    await shot(page, "grant")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Grant").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_label("Grants").last).to_contain_text("12.50 / 12.50")
    assert await left(stores) == ["62500000001"]
    dialog = await in_dialog(page, "Movements", "Wallet of acme")
    await expect(dialog.get_by_role("row").nth(1)).to_contain_text("62.500000001")
    await shot(page, "movements")
    await page.keyboard.press("Escape")

    dialog = await in_dialog(page, "Void the grant of 12.50", "Void the grant of 12.50 USD")
    await dialog.get_by_label("Reason").fill("a mistake")
    await dialog.get_by_label("Type acme to confirm").fill("acme")
    await dialog.get_by_role("button", name="Void").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_label("Grants").last).not_to_contain_text("12.50")
    await page.get_by_role("button", name="All 2").click()
    await expect(page.get_by_label("Grants").last).to_contain_text("voided")
    assert await left(stores) == ["50000000001"]
    assert watched.strangers == []


async def test_what_one_may_not_grant_alone_is_said_and_waits(
    open_page: OpenPage, console: tuple[str, Stores]
):
    """Before it is asked for, and when it is: nothing is booked until somebody else approves. Who has no
    wallet is told that the first grant makes one."""
    watched = await opened(open_page, console, "/tenants/tyrell", viewport=WIDE)
    page, stores = watched.page, console[1]
    dialog = await in_dialog(page, "Grant…", "Grant money to tyrell")
    await expect(dialog.get_by_text("This opens a wallet")).to_be_visible()
    await dialog.get_by_label("Amount, USD").fill("300")
    await expect(dialog.get_by_text("nobody else may approve it")).to_be_visible()
    await staff_code(stores.settings, stores.db, "Bob", Role.FINANCE)
    await dialog.get_by_label("Amount, USD").fill("301")
    await expect(dialog.get_by_text("it will wait for a second person")).to_be_visible()
    await dialog.get_by_label("Reason").fill("contract 9")
    await dialog.get_by_role("button", name="Grant").click()
    await expect(dialog.get_by_role("status")).to_contain_text("it waits for a second person")
    await shot(page, "grant-waits")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Done").click()
    await expect(page.get_by_role("region", name="Money")).to_contain_text("by invoice")
    assert await left(stores) == ["50000000001"]
    assert watched.strangers == []


async def test_finance_sees_money_and_nothing_that_runs(open_page: OpenPage, console: tuple[str, Stores]):
    """And is offered grants, but no limits, keys or safety."""
    url, stores = console
    code = await staff_code(stores.settings, stores.db, "Fin", Role.FINANCE)
    watched = await open_page(f"{url}/console/tenants/acme#p={code}", own=True, viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("table", name="Statement")).to_contain_text("default")
    await expect(page.get_by_role("button", name="Grant…")).to_be_visible()
    await expect(page.get_by_label("Now", exact=True)).to_contain_text("nobody knows")
    for name in ("Keys", "Limits", "Safety"):
        await expect(page.get_by_role("region", name=name)).to_have_count(0)
    assert (watched.errors, watched.strangers) == ([], [])
