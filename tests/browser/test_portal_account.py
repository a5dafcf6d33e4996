"""How a member of a tenant stays able to sign in: a password of their own, and an admin's link."""

import pytest
from playwright.async_api import expect

from billing.operations import people
from billing.operations.people_facts import InvitePerson, NamePerson
from billing.unit_of_work.perform import answer_of
from core.operations import Role
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.portal_sample import PHONE, WHY, WIDE, PortalOfAcme
from tests.browser.portal_sample import acme as acme  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PASSWORD, ZOE = "correct horse battery", "zoe@acme.example"


async def invited(acme: PortalOfAcme, email: str = ZOE, role: Role = Role.VIEWER) -> str:
    """The part of an invitation's link that the page reads."""
    made = await answer_of(
        people.invite_person, acme.stores, OWNER, InvitePerson(email=email, role=role, tenant="acme"), WHY
    )
    assert made.link is not None
    return made.link.shown.partition("#")[2]


async def test_who_joins_sets_a_password_and_signs_in_by_it(open_page: OpenPage, acme: PortalOfAcme):
    """The page says so until they have; after a sign-out the portal takes mail and password, and says whom to
    ask for a link."""
    watched = await open_page(f"{acme.url}/portal/#{await invited(acme)}", own=True, viewport=WIDE)
    page = watched.page
    await page.get_by_label("Your name").fill("Zoe")
    await page.get_by_role("button", name="Join").click()
    hint = page.get_by_text("You have no password.")
    await expect(hint).to_be_visible()
    assert await watched.axe() == []
    await shot(page, "portal-no-password")
    await page.get_by_role("link", name="Set a password").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Account")
    await expect(page.get_by_role("region", name="You", exact=True)).to_contain_text(ZOE)
    await expect(page.get_by_role("textbox", name="Present password")).to_have_count(0)
    await page.get_by_role("textbox", name="New password").fill("short")
    await page.get_by_role("button", name="Set password").click()
    await expect(page.get_by_text("12 to 200 characters")).to_be_visible()
    watched.errors.clear()  # Chromium's line on what was refused
    await page.get_by_role("textbox", name="New password").fill(PASSWORD)
    await page.get_by_role("button", name="Set password").click()
    await expect(page.get_by_role("textbox", name="Present password")).to_be_visible()
    await expect(page.get_by_role("table", name="Where you are signed in")).to_contain_text("This one")
    for width in (WIDE, PHONE):
        await page.set_viewport_size(width)
        await shot(page, f"portal-account-{width['width']}")
        assert await watched.axe() == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width["width"]
    await page.set_viewport_size(WIDE)
    await expect(hint).to_have_count(0)
    await page.get_by_role("button", name="Account of Zoe").first.click()
    await expect(page.get_by_role("menuitem", name="Account")).to_be_visible()
    await page.get_by_role("menuitem", name="Sign out").click()
    await expect(page.get_by_text("ask an admin of your organisation for a new link")).to_be_visible()
    await page.get_by_label("E-mail").fill(ZOE)
    await page.get_by_role("textbox", name="Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Account")
    assert watched.strangers == []


async def test_an_admin_makes_a_link_for_who_is_locked_out(open_page: OpenPage, acme: PortalOfAcme):
    """Shown once where no mail is set up. It signs in; the member ends what else is open."""
    joining = await open_page(f"{acme.url}/portal/#{await invited(acme)}", own=True)
    await joining.page.get_by_label("Your name").fill("Zoe")
    await joining.page.get_by_role("button", name="Join").click()
    await expect(joining.page.get_by_role("link", name="Keys")).to_be_visible()
    watched = await acme.opened(open_page, "members", viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("button", name="Change the role of Mia")).to_have_count(0)
    await page.get_by_role("button", name="Make a sign-in link for Zoe").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("They have no password")).to_be_visible()
    await shot(page, "portal-sign-in-link")
    await dialog.get_by_label("Reason").fill("she lost her session")
    await dialog.get_by_role("button", name="Make the link").click()
    link = await dialog.get_by_role("code").inner_text()
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Done").click()
    zoe = await open_page(f"{acme.url}/portal/account{link[link.index('#') :]}", own=True, viewport=WIDE)
    rows = zoe.page.get_by_role("table", name="Where you are signed in").get_by_role("row")
    await expect(rows).to_have_count(3)
    await zoe.page.get_by_role("button", name="End the session of").click()
    await expect(rows).to_have_count(2)
    listed = await answer_of(
        people.list_person_sessions_of, acme.stores, OWNER, NamePerson(tenant="acme", person=ZOE)
    )
    assert len(listed.items) == 1
    assert (watched.errors, watched.strangers, zoe.errors) == ([], [], [])


async def test_a_viewers_requests_are_no_dead_ends(open_page: OpenPage, acme: PortalOfAcme):
    """Rows are text, as the role opens no request; one that is opened by its address leads back to them."""
    watched = await acme.opened(open_page, "requests?state=ended", Role.VIEWER, viewport=WIDE)
    page = watched.page
    await expect(page.locator("td.row-lead").first).to_be_visible()
    await expect(page.locator("td.row-lead a")).to_have_count(0)
    await page.goto(f"{acme.url}/portal/requests/nothing")
    await page.get_by_role("link", name="To the requests").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
    admin = await acme.opened(open_page, "requests?state=ended", viewport=WIDE)
    await expect(admin.page.locator("td.row-lead a").first).to_be_visible()
    assert (watched.errors, admin.errors) == ([], [])
