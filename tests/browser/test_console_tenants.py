"""The console's pages of tenants: on real stores, and edited by what is typed there."""

import pytest
from playwright.async_api import expect

from billing.operations import limits
from billing.operations.limits import EditLimit, ListLimits
from billing.tables.tenants import Tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.operations import Role
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.tenants_sample import WIDE, in_dialog, opened
from tests.browser.tenants_sample import console as console  # the fixture
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_tenants_are_found_and_each_has_a_page(open_page: OpenPage, console: tuple[str, Stores]):
    """The list, filtered in its address; a tenant with all it has; one without a key, which says
    what is next. Axe finds nothing, the policy holds, and nobody else is asked."""
    watched = await opened(open_page, console, "/tenants", viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("heading", level=1)).to_have_text("2 open tenants.")
    await shot(page, "tenants-light")
    assert await watched.axe() == []
    await page.get_by_label("State").select_option("closed")
    await expect(page.get_by_role("heading", level=1)).to_have_text("1 closed tenant.")
    assert page.url.endswith("/tenants?state=closed")
    await page.get_by_label("Name contains").fill("nobody")
    await expect(page.get_by_role("link", name="Clear filters")).to_be_visible()
    await page.get_by_role("link", name="Clear filters").click()

    await page.get_by_role("link", name="acme").click()
    await expect(page.get_by_role("table", name="Limits")).to_contain_text("1,200")
    await expect(page.get_by_role("table", name="Keys")).to_contain_text("chat-web")
    await expect(page.get_by_role("region", name="Money")).to_contain_text("50.000000001")
    await expect(page.get_by_role("region", name="Audit")).to_contain_text("a test's")
    await expect(page.get_by_text("Within all limits.")).to_be_visible()
    await shot(page, "tenant-light")
    assert await watched.axe() == []

    await page.get_by_role("link", name="Tenants").first.click()
    await page.get_by_role("link", name="tyrell").click()
    await expect(page.get_by_role("heading", name="No key, so no requests yet")).to_be_visible()
    await shot(page, "tenant-empty-light")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_on_a_phone_a_row_is_two_lines(open_page: OpenPage, console: tuple[str, Stores]):
    """Neither page scrolls sideways."""
    watched = await opened(open_page, console, "/tenants", viewport={"width": 390, "height": 844})
    page = watched.page
    sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    await expect(page.get_by_role("link", name="acme")).to_be_visible()
    assert not await page.evaluate(sideways)
    await shot(page, "tenants-390")
    await page.get_by_role("link", name="acme").click()
    await expect(page.get_by_text("chat-web", exact=True)).to_be_visible()
    await expect(page.get_by_text("1,200")).to_be_visible()
    assert not await page.evaluate(sideways)
    await shot(page, "tenant-390")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_limit_is_edited_with_a_preview_and_over_somebody_else_only_knowingly(
    open_page: OpenPage, console: tuple[str, Stores]
):
    """What it would do is said before; a reason is asked for beside its field; what another set meanwhile is
    told, and what was typed is kept and can be saved over it."""
    watched = await opened(open_page, console, "/tenants/acme", viewport=WIDE)
    page, stores = watched.page, console[1]
    dialog = await in_dialog(page, "Edit Requests per minute", "Requests per minute")
    await dialog.get_by_label("Limit").fill("many")
    await expect(dialog.get_by_text("A whole number, like 1200.")).to_be_visible()
    await dialog.get_by_label("Limit").fill("1500")
    await expect(dialog.get_by_label("What changes")).to_contain_text("1,200 → 1,500")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_text("Say why")).to_be_visible()
    await shot(page, "limit-refused")
    assert await watched.axe() == []
    (limit,) = (await answer_of(limits.list_limits, stores, OWNER, ListLimits(tenant="acme"))).items
    faster = EditLimit(tenant="acme", limit_id=limit.limit_id, limit=900)
    await answer_of(limits.edit_limit, stores, OWNER, faster, Terms(reason="a storm"))
    await dialog.get_by_label("Reason").fill("launch week")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Not saved: Ann changed this limit")
    await expect(dialog.get_by_role("alert")).to_contain_text("from 1,200 to 900. What you typed is kept.")
    await expect(dialog.get_by_label("Limit")).to_have_value("1500")
    await shot(page, "limit-conflict")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Save over it").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("table", name="Limits")).to_contain_text("1,500")
    await expect(page.get_by_role("region", name="Audit")).to_contain_text("“launch week”")
    assert watched.strangers == []


async def test_a_key_is_shown_once_rotated_and_revoked_by_its_name(
    open_page: OpenPage, console: tuple[str, Stores]
):
    """Of a tenant that had none; a name that no user may have is said beside its field."""
    watched = await opened(open_page, console, "/tenants/tyrell", viewport=WIDE)
    page = watched.page
    dialog = await in_dialog(page, "Create key…", "New key of tyrell")
    await dialog.get_by_label("Name").fill("first")
    user = dialog.get_by_label("User", exact=True)
    await user.fill("x" * 201)
    await expect(user).to_have_attribute("aria-invalid", "true")
    await shot(page, "key-wrong")
    await user.fill("")
    await dialog.get_by_label("Reason").fill("they signed")
    await dialog.get_by_role("button", name="Create key").click()
    dialog = page.get_by_role("dialog", name="Your key first")
    secret = dialog.get_by_label("The new key").get_by_role("code")
    await expect(secret).to_contain_text("pk_")
    first = await secret.inner_text()
    await shot(page, "key-made")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="I have stored it").click()
    assert first not in await page.content()

    dialog = await in_dialog(page, "Rotate first", "Rotate first")
    await dialog.get_by_label("Reason").fill("a leak")
    await dialog.get_by_role("button", name="Rotate").click()
    dialog = page.get_by_role("dialog", name="Your new key first")
    await expect(dialog.get_by_label("The new key")).not_to_contain_text(first)
    await dialog.get_by_role("button", name="I have stored it").click()
    table = page.get_by_role("table", name="Keys")
    await expect(table).to_contain_text("rotated")

    dialog = await in_dialog(page, "Revoke first", "Revoke first")
    await dialog.get_by_label("Reason").fill("a leak")
    await dialog.get_by_label("Type first to confirm").fill("last")
    await dialog.get_by_role("button", name="Revoke").click()
    await expect(dialog.get_by_text("this is not its name")).to_be_visible()
    await shot(page, "key-revoke")
    assert await watched.axe() == []
    await dialog.get_by_label("Type first to confirm").fill("first")
    await dialog.get_by_role("button", name="Revoke").click()
    await expect(table).to_contain_text("revoked")


DIALOGS = {
    "stop": (
        ("Change plan…", "Change the plan of acme"),
        ("Throttle…", "Throttle acme"),
        ("Cancel what it runs…", "Cancel what acme runs"),
        ("Close acme…", "Close acme"),
        ("Close ann", "Close ann"),
        ("Close project default", "Close project default"),
        ("End Requests per minute", "End requests per minute"),
        ("End Whole tenant, month", "End Whole tenant, month"),
    ),
    "add": (
        ("Set limit…", "Set a limit of acme"),
        ("Add user…", "Add a user of acme"),
        ("Create project…", "Create a project of acme"),
        ("Add budget…", "Add a budget of acme"),
        ("Grant…", "Grant money to acme"),
        ("Void the grant of 50.00", "Void the grant of 50.00 USD"),
        ("Movements", "Wallet of acme"),
    ),
    "change": (
        ("Override Whole tenant, month", "Override Whole tenant, month"),
        ("Try a text…", "Try a text by the rules of acme"),
        ("Change terms…", "Terms of acme"),
        ("Change…", "Change acme"),
        ("Edit chat-web", "Edit chat-web"),
        ("Rotate chat-web", "Rotate chat-web"),
    ),
}


@pytest.mark.parametrize(("kind", "scheme"), [("stop", "dark"), ("add", "light"), ("change", "light")])
async def test_each_dialog_opens_and_breaks_nothing(
    open_page: OpenPage, console: tuple[str, Stores], kind: str, scheme: str
):
    """All of a tenant's dialogs: axe finds nothing in them, and the policy holds."""
    watched = await opened(open_page, console, "/tenants/acme", color_scheme=scheme, viewport=WIDE)
    page = watched.page
    for opener, title in DIALOGS[kind]:
        if opener in ("Throttle…", "Cancel what it runs…", "Close acme…"):
            await page.get_by_role("button", name="Stop").click()
            await page.get_by_role("menuitem", name=opener).click()
        else:
            await page.get_by_role("button", name=opener, exact=True).click()
        dialog = page.get_by_role("dialog", name=title)
        await expect(dialog).to_be_visible()
        await shot(page, f"dialog-{opener.strip('…').replace(' ', '-').lower()}-{scheme}")
        assert await watched.axe() == [], opener
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_tenant_is_found_by_the_search_throttled_closed_and_reopened(
    open_page: OpenPage, console: tuple[str, Stores]
):
    """By the keys alone to its page; closing wants its name typed; a text is tried by its rules."""
    watched = await opened(open_page, console, "/tenants", viewport=WIDE)
    page = watched.page
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    await page.keyboard.type("acm")
    await expect(page.get_by_role("option", name="acme").first).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("acme")

    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search").fill("chat-w")
    await page.get_by_role("option", name="chat-web").click()
    await expect(page.get_by_role("table", name="Keys")).to_be_in_viewport()
    assert page.url.endswith("/tenants/acme#keys")

    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("menuitem", name="Throttle…").click()
    dialog = page.get_by_role("dialog", name="Throttle acme")
    await dialog.get_by_label("Running at once").fill("2")
    await expect(dialog.get_by_label("What changes")).to_contain_text("no maximum → 2")
    await dialog.get_by_label("Reason").fill("too much")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_label("In the pools").get_by_text("2", exact=True)).to_be_visible()

    dialog = await in_dialog(page, "Try a text…", "Try a text by the rules of acme")
    await dialog.get_by_label("Text").fill("write to ann@example.com")
    await dialog.get_by_role("button", name="Try").click()
    await expect(dialog.get_by_role("table", name="Matches")).to_contain_text("email")
    await shot(page, "tried")
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("menuitem", name="Close acme…").click()
    dialog = page.get_by_role("dialog", name="Close acme")
    await dialog.get_by_label("Type acme to confirm").fill("acme")
    await dialog.get_by_label("Reason").fill("unpaid")
    await dialog.get_by_role("button", name="Close tenant").click()
    await expect(page.get_by_text("Closed since")).to_be_visible()
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("menuitem", name="Reopen acme…").click()
    dialog = page.get_by_role("dialog", name="Reopen acme")
    await dialog.get_by_label("Reason").fill("paid")
    await dialog.get_by_role("button", name="Reopen").click()
    await expect(page.get_by_text("Closed since")).to_be_hidden()
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_thousand_tenants_come_page_by_page(open_page: OpenPage, console: tuple[str, Stores]):
    """A hundred at once, more when asked for, never silently cut off; one is found by a part of its name."""
    numbers = [f"{number:04}" for number in range(1000)]
    many = [
        Tenant(
            tenant_id=each, name=f"shop {each}", price_book_id="default", priority_max="bulk", created_ms=1
        )
        for each in numbers
    ]
    async with console[1].db.transaction() as session:
        session.add_all(many)
    watched = await opened(open_page, console, "/tenants", viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("heading", level=1)).to_have_text("1,002 tenants.")
    await page.get_by_role("button", name="Load more tenants").click()
    await expect(page.get_by_role("row")).to_have_count(201)
    await page.get_by_label("Name contains").fill("P 0777")
    await expect(page.get_by_role("link", name="shop 0777")).to_be_visible()
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.reload()
    await expect(page.get_by_label("Name contains")).to_have_value("P 0777")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_session_that_ends_under_an_open_dialog_loses_nothing(
    open_page: OpenPage, console: tuple[str, Stores]
):
    """What was typed stays under the dialog that lets its owner in again."""
    watched = await opened(open_page, console, "/tenants/acme", viewport=WIDE)
    page = watched.page
    dialog = await in_dialog(page, "Change terms…", "Terms of acme")
    await dialog.get_by_label("Running at once").fill("7")
    await dialog.get_by_label("Reason").fill("they grow")
    await page.context.clear_cookies()
    await expect(page.get_by_role("dialog", name="Your session has ended")).to_be_visible()
    await expect(dialog.get_by_label("Running at once")).to_have_value("7")
    await expect(dialog.get_by_label("Reason")).to_have_value("they grow")


async def test_support_reads_and_is_offered_no_edit(open_page: OpenPage, console: tuple[str, Stores]):
    """No button that the API would refuse: of all that stops a tenant, only cancelling on its word."""
    url, stores = console
    code = await staff_code(stores.settings, stores.db, "Sue", Role.SUPPORT)
    watched = await open_page(f"{url}/console/tenants/acme#p={code}", own=True, viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("table", name="Keys")).to_contain_text("chat-web")
    for name in (
        "Change plan…",
        "Create key…",
        "Grant…",
        "Edit rules…",
        "Set limit…",
        "Change terms…",
        "Change…",
    ):
        await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    await expect(page.get_by_role("button", name="Revoke chat-web")).to_have_count(0)
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("menuitem")).to_have_text(["Cancel what it runs…"])
    assert (watched.errors, watched.strangers) == ([], [])
