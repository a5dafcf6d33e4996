"""The portal's audit log, on real stores: how much a new or changed budget allows."""

import pytest
from playwright.async_api import expect

from billing.api import set_budget
from tests.browser.conftest import OpenPage
from tests.browser.portal_sample import WIDE, PortalOfAcme
from tests.browser.portal_sample import acme as acme  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_budgets_are_told_with_their_amounts(open_page: OpenPage, acme: PortalOfAcme):
    """In USD, of a new one and of one that was raised; never as nano."""
    stores = acme.stores
    for nano in (500_000_000, 670_000_000):
        await set_budget(stores.db, stores.redis, acme.tenant, scope="tenant", period="day", limit_nano=nano)
    watched = await acme.opened(open_page, "audit", viewport=WIDE)
    table = watched.page.get_by_role("table", name="Audit")
    await expect(table).to_contain_text("limit 0.50 USD")
    await expect(table).to_contain_text("0.67")
    await expect(table).not_to_contain_text("nano")
    assert (watched.errors, watched.strangers) == ([], [])
