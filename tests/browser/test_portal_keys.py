"""The portal's page of keys, on real stores: made, shown once, used, rotated, edited, revoked."""

import pytest
from playwright.async_api import expect

from billing.operations import keys
from billing.operations.keys import ListKeys
from billing.tenants.keys import authenticate_key
from billing.unit_of_work.perform import answer_of
from core.operations import Role
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.portal_sample import ARABIC, PHONE, WHY, WIDE, PortalOfAcme
from tests.browser.portal_sample import acme as acme  # the fixture
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_key_is_made_shown_once_and_its_first_call_is_seen(
    open_page: OpenPage, acme: PortalOfAcme, scheme: str
):
    """With programs that name the gateway's own address; the key is short there, and copied whole. Nothing
    but the button closes what is shown once."""
    watched = await acme.opened(open_page, "keys", color_scheme=scheme, viewport=WIDE)
    page = watched.page
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    table = page.get_by_role("table", name="Keys")
    await expect(table.get_by_role("row", name="idle")).to_contain_text("unused 49 days")
    await expect(table.locator("bdi", has_text=ARABIC)).to_be_visible()
    await shot(page, f"portal-keys-{scheme}")
    assert await watched.axe() == []

    await page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("search eu")
    await dialog.get_by_label("Project", exact=True).select_option("lab 🌙")
    await dialog.get_by_label("Reason").fill("a new search")
    await expect(dialog.get_by_label("The key")).to_contain_text("users that it names")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Create key").click()
    await expect(dialog.get_by_text("This is the only time it is shown.")).to_be_visible()
    secret = await dialog.get_by_role("group", name="The new key").locator("code").inner_text()
    assert await authenticate_key(acme.stores.db, secret) is not None
    program = dialog.get_by_role("group", name="Python program")
    await expect(program).to_contain_text("http://127.0.0.1:")
    assert secret not in await program.inner_text()
    await dialog.get_by_role("button", name="Copy the program, with the whole key").click()
    assert secret in await page.evaluate("navigator.clipboard.readText()")
    await shot(page, f"portal-key-made-{scheme}")
    assert await watched.axe() == []

    await page.keyboard.press("Escape")
    await expect(dialog.get_by_text("Waiting for its first call…")).to_be_visible()
    await acme.use("search eu", 0)
    await expect(dialog.get_by_text("Its first call came")).to_be_visible()
    await dialog.get_by_role("button", name="I have stored it").click()
    await expect(dialog).to_be_hidden()
    await expect(table.get_by_role("row", name="search eu")).to_contain_text("this hour")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_key_is_restricted_to_web_pages(open_page: OpenPage, acme: PortalOfAcme):
    """What is no origin is said beside the field before anything is saved. The program that is shown is one
    for a page; the table says which pages, and an edit what changes."""
    watched = await acme.opened(open_page, "keys", viewport=WIDE)
    page = watched.page
    await page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("widget")
    origins = dialog.get_by_label("Origins")
    await origins.fill("https://app.acme.example/chat")
    await expect(origins).to_have_attribute("aria-invalid", "true")
    await expect(dialog.get_by_text("Leave out what comes after the host", exact=False)).to_be_visible()
    await shot(page, "portal-key-origin-wrong")
    await origins.fill("HTTPS://App.acme.example/\nhttp://localhost:5173")
    shown = "pages of https://app.acme.example, http://localhost:5173"
    await expect(dialog.get_by_label("The key")).to_contain_text(shown)
    await dialog.get_by_label("Reason").fill("a chat in our shop")
    await shot(page, "portal-key-origins")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Create key").click()
    await expect(dialog.get_by_text(f"It works in {shown}, and nowhere else:")).to_be_visible()
    await expect(dialog.get_by_role("tab")).to_have_text(["JavaScript"])
    await shot(page, "portal-key-origins-made")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="I have stored it").click()
    row = page.get_by_role("table", name="Keys").get_by_role("row", name="widget")
    await expect(row).to_contain_text("in pages of app.acme.example and 1 more")
    await shot(page, "portal-keys-origins")

    await page.get_by_role("button", name="More for widget").click()
    await page.get_by_role("menuitem", name="Edit…").click()
    await expect(origins).to_have_value("https://app.acme.example\nhttp://localhost:5173")
    await origins.fill("https://*.acme.example")
    await expect(dialog.get_by_label("What changes")).to_contain_text("pages of https://*.acme.example")
    await dialog.get_by_label("Reason").fill("previews, too")
    await dialog.get_by_role("button", name="Save").click()
    await expect(row).to_contain_text("in pages of *.acme.example")
    listed = (await answer_of(keys.list_keys, acme.stores, OWNER, ListKeys(tenant="acme"))).items
    assert [each.origins for each in listed if each.name == "widget"] == [["https://*.acme.example"]]
    watched.errors[:] = [each for each in watched.errors if "400" not in each]  # of what was refused
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_rotation_says_whether_the_old_key_is_still_used(open_page: OpenPage, acme: PortalOfAcme):
    """Both work for the overlap; ending the old one names what it would stop."""
    watched = await acme.opened(open_page, "keys", viewport=WIDE)
    page = watched.page
    await page.get_by_role("button", name="Rotate support-bot prod").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Overlap").select_option("7 days")
    await dialog.get_by_label("Reason").fill("each quarter")
    await dialog.get_by_role("button", name="Rotate").click()
    await expect(dialog.get_by_text("The old key served 2 requests in the last hour")).to_be_visible()
    await shot(page, "portal-key-rotated")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="I have stored it").click()

    await page.get_by_role("button", name="old ends").click()
    await expect(dialog.get_by_role("group", name="Old and new key")).to_contain_text("somebody still has it")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="End the old one now…").click()
    await expect(dialog.get_by_role("radio", name="The old key now")).to_be_checked()
    await expect(dialog.get_by_text("served 2 requests in the last hour: it is in use.")).to_be_visible()
    await expect(dialog.get_by_text("is still let in, and billed")).to_be_visible()
    await shot(page, "portal-key-end-old")
    assert await watched.axe() == []
    await dialog.get_by_label("Type support-bot prod to confirm").fill("support-bot prod")
    await dialog.get_by_label("Reason").fill("all have the new one")
    await dialog.get_by_role("button", name="End the old key now").click()
    await expect(page.get_by_role("button", name="old ends")).to_be_hidden()
    await page.get_by_role("region", name="Ended keys").get_by_role("link", name="Show").click()
    await expect(page.get_by_role("table", name="Ended keys")).to_contain_text("revoked")
    assert page.url.endswith("/keys?ended=true")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_revoking_a_rotated_key_ends_both_unless_one_is_chosen(open_page: OpenPage, acme: PortalOfAcme):
    """The dialog names the prefixes of what is refused, and says of which nothing is."""
    listed = (await answer_of(keys.list_keys, acme.stores, OWNER, ListKeys(tenant="acme"))).items
    old = next(key for key in listed if key.name == "support-bot prod")
    rotate = keys.RotateKey(tenant="acme", key=old.key)
    new = (await answer_of(keys.rotate_key, acme.stores, OWNER, rotate, WHY)).key
    watched = await acme.opened(open_page, "keys", viewport=PHONE)
    page = watched.page
    await page.get_by_role("button", name="More for support-bot prod").click()
    await expect(page.get_by_role("menuitem", name="End the old key now…")).to_be_visible()
    await page.get_by_role("menuitem", name="Revoke…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("radio", name="Both")).to_be_checked()
    await expect(dialog.get_by_text(f"Whoever holds {old.prefix}, {new.prefix} is refused")).to_be_visible()
    await expect(dialog.get_by_text("is still let in")).to_have_count(0)
    await shot(page, "portal-key-revoke-both-390")
    assert await watched.axe() == []
    await dialog.get_by_label("Type support-bot prod to confirm").fill("support-bot prod")
    await dialog.get_by_label("Reason").fill("it leaked")
    await dialog.get_by_role("button", name="Revoke both").click()
    await expect(dialog).to_be_hidden()
    listed = (await answer_of(keys.list_keys, acme.stores, OWNER, ListKeys(tenant="acme"))).items
    assert [key.state.value for key in listed if key.name == "support-bot prod"] == ["revoked", "revoked"]
    assert (watched.errors, watched.strangers) == ([], [])


async def test_of_two_who_edit_a_key_at_once_the_second_keeps_what_they_typed(
    open_page: OpenPage, acme: PortalOfAcme
):
    """And is told who was faster, and what they did."""
    watched = await acme.opened(open_page, "keys", viewport=WIDE)
    page = watched.page
    await page.get_by_role("button", name="More for idle").click()
    await page.get_by_role("menuitem", name="Edit…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("mine")
    await expect(dialog.get_by_label("What changes")).to_contain_text("idle → mine")
    listed = (await answer_of(keys.list_keys, acme.stores, OWNER, ListKeys(tenant="acme"))).items
    theirs = keys.EditKey(tenant="acme", key=listed[2].key, name="theirs")
    await answer_of(keys.edit_key, acme.stores, OWNER, theirs, WHY)
    await dialog.get_by_label("Reason").fill("a better name")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Ann")
    await expect(dialog.get_by_role("alert")).to_contain_text("idle → theirs")
    await expect(dialog.get_by_label("Name")).to_have_value("mine")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Save over it").click()
    await expect(page.get_by_role("table", name="Keys").get_by_text("mine", exact=True)).to_be_visible()
    watched.errors.remove(next(each for each in watched.errors if "409" in each))
    assert (watched.errors, watched.strangers) == ([], [])


async def test_what_keys_spent_adds_up_to_the_month(open_page: OpenPage, acme: PortalOfAcme):
    """In cents, half to even, once a cell: what then lacks is a row. A key that ended this month is one too,
    and a rotated one is added to its successor."""
    for key in ("support-bot prod", ARABIC, "idle"):  # 0.0148009 each
        await acme.use(key, 0, output=37_000)
    listed = (await answer_of(keys.list_keys, acme.stores, OWNER, ListKeys(tenant="acme"))).items
    ids = {key.name: key.key for key in listed}
    rotate, revoke = (
        keys.RotateKey(tenant="acme", key=ids["support-bot prod"]),
        keys.RevokeKey(tenant="acme", key=ids["idle"]),
    )
    await answer_of(keys.rotate_key, acme.stores, OWNER, rotate, WHY)
    await answer_of(keys.revoke_key, acme.stores, OWNER, revoke, WHY)
    watched = await acme.opened(open_page, "keys", viewport=WIDE)
    table = watched.page.get_by_role("table", name="Keys")
    for name, cents in (
        ("support-bot prod", "0.01"),
        (ARABIC, "0.01"),
        ("Ended keys", "0.01"),
        ("Rounding to cents", "0.01"),
        ("Month to date", "0.04"),
    ):
        row = table.get_by_role("row").filter(has_text=name)
        await expect(row.get_by_role("cell").nth(5)).to_have_text(cents)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_who_only_reads_is_told_whom_to_ask(open_page: OpenPage, acme: PortalOfAcme):
    """Finance sees what keys spent and no button; a developer makes keys and sees no money."""
    await staff_code(acme.stores.settings, acme.stores.db, "Ada", Role.ADMIN, acme.tenant)
    watched = await acme.opened(open_page, "keys", Role.BILLING, viewport=PHONE)
    page = watched.page
    note = page.get_by_role("note")
    await expect(note).to_contain_text("Your role is Finance")
    await expect(note).to_contain_text("Ask an admin of acme: Ada")
    await expect(page.get_by_role("button", name="Rotate")).to_have_count(0)
    await expect(page.get_by_role("row", name="Month to date")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await shot(page, "portal-keys-finance-390")
    assert await watched.axe() == []
    developer = await acme.opened(open_page, "keys", Role.DEVELOPER, viewport=WIDE)
    await expect(developer.page.get_by_role("button", name="New key")).to_be_visible()
    await expect(developer.page.get_by_text("Month to date")).to_have_count(0)
    assert (watched.errors, watched.strangers, developer.errors) == ([], [], [])
