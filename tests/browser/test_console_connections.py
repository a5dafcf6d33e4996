"""A tenant's connections on its page in the console, and why the last ones ended."""

import pytest
from playwright.async_api import expect

from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.units import Stores
from core.clock import now_ms
from core.redis.connection_ends import ConnectionEnd, note_end
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.tenants_sample import WIDE, opened
from tests.browser.tenants_sample import console as console  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CAUSES = (("no_pong", 4012), ("bye", 1000), ("lost", 0), ("made_up", 4999))


async def ended(stores: Stores, more: int = 0) -> None:
    """Connections of acme that ended of each cause, and so many more."""
    acme = await find_tenant(stores.db, "acme")
    assert acme is not None
    now = now_ms()
    for number, (cause, code) in enumerate((*CAUSES, *[("max_age", 4001)] * more)):
        end = ConnectionEnd(
            connection=f"c{number:03}",
            session=f"s{number}",
            gateway="gw-1",
            key="k1",
            user_id="u1",
            client="parley-js/1",
            protocol="parley.v1",
            since_ms=now - 60_000,
            unacked_bytes=2048 * (number == 0),
            ended_ms=now - 1_000,
            cause=cause,
            code=code,
        )
        await note_end(stores.redis, acme.tenant_id, end)


async def test_the_last_ends_say_why(open_page: OpenPage, console: tuple[str, Stores]):
    """In words with the code behind them, an unknown cause as it is; the address says which are shown; a
    list that is longer goes on when asked."""
    await ended(console[1], more=20)
    watched = await opened(open_page, console, "/tenants/acme?connections=ended", viewport=WIDE)
    page = watched.page
    table = page.get_by_role("table", name="Connections")
    await expect(table.get_by_role("row")).to_have_count(21)
    await expect(page.get_by_label("Connections that are")).to_have_value("ended")
    await page.get_by_role("button", name="Load more connections").click()
    for told in ("did not answer pings", "said goodbye", "lost without a word", "made up"):
        await expect(table).to_contain_text(told)
    await expect(table.get_by_title("close code 4012")).to_be_visible()
    await expect(table.get_by_role("row", name="did not answer pings")).to_contain_text("2,048")
    await shot(page, "connections")
    assert await watched.axe() == []
    await page.get_by_label("Connections that are").select_option("open")
    await expect(page.get_by_text("None is open now.")).to_be_visible()
    assert "connections=open" in page.url
    assert (watched.errors, watched.strangers) == ([], [])
