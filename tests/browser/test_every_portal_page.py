"""Every kind of page that the portal's router lists, on real stores, as each role sees it."""

from collections.abc import AsyncGenerator
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import ViewportSize, expect
from sqlmodel import col, select

from billing.seeding.fill import seed_settings
from billing.seeding.shapes import SeedShape
from billing.seeding.usage_posting import post_seeded_usage
from billing.tables.tenants import UsageRow
from chaos.bench.console_pages import change_theme, console_pages, show
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDE = ViewportSize(width=1440, height=900)
PHONE = ViewportSize(width=390, height=844)
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
THEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
PAGES = console_pages("portal")


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(settings: Settings, sqlite: Database) -> AsyncGenerator[str]:
    """A tenant of the books with a month of usage."""
    shape = SeedShape(3, 30, now_ms())
    seeded = await seed_settings(sqlite, shape, lambda _: None)
    await post_seeded_usage(sqlite, shape, seeded.sources, settings.pool)
    yield seeded.sources[0].tenant


async def test_each_page_keeps_the_policy_in_both_themes_at_both_widths(
    open_page: OpenPage, tenant: str, portal: str, settings: Settings, sqlite: Database
):
    """Axe finds nothing, no error is told (a broken policy would be one), nothing is asked of another origin,
    nothing scrolls sideways."""
    code = await staff_code(settings, sqlite, "Mia", Role.ADMIN, tenant)
    watched = await open_page(f"{portal}/#p={code}", own=True, viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("button", name="Account of").first).to_be_visible()
    faults: list[str] = []
    async with sqlite.session() as session:
        ended = select(UsageRow.request_id).where(col(UsageRow.tenant_id) == tenant).limit(1)
        named = {"request": (await session.exec(ended)).one()}
    for each in PAGES:
        await show(page, portal + each.address(named))
        for width in (WIDE, PHONE):
            await page.set_viewport_size(width)
            for scheme in THEMES:
                await change_theme(page, scheme)
                await shot(page, f"portal-{each.name}-{width['width']}-{scheme}")
                seen = f"{each.name}, {width['width']} px, {scheme}"
                faults += [f"{seen}: {found}" for found in await watched.axe()]
            faults += [f"{each.name} scrolls sideways at {width['width']} px"] * await page.evaluate(SIDEWAYS)
        faults += [f"{each.name}: {error}" for error in (*watched.errors, *watched.strangers)]
        watched.errors.clear()
    assert faults == []


@pytest.mark.parametrize("role", [Role.ADMIN, Role.BILLING, Role.DEVELOPER, Role.VIEWER])
async def test_each_role_sees_its_pages_and_no_refusal(
    open_page: OpenPage, tenant: str, portal: str, settings: Settings, sqlite: Database, role: Role
):
    """A link signs in and shows the first page of the role; each page of its sidebar is shown without an
    error, as no call is made that the role is refused."""
    code = await staff_code(settings, sqlite, "Mia", role, tenant)
    watched = await open_page(f"{portal}/#p={code}", own=True, viewport=WIDE)
    page = watched.page
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    await expect(links.first).to_be_visible()
    for title in await links.all_inner_texts():
        await links.get_by_text(title, exact=True).click()
        await page.wait_for_load_state("networkidle")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
    assert (watched.errors, watched.strangers) == ([], [])
