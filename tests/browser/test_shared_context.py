"""Tests share a browser context: none finds what another left."""

import pytest
from playwright.async_api import Browser

from tests.browser.conftest import emptied, new_context
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

KEEP = "localStorage.kept = document.cookie = 'kept=1'"
KEPT = "[localStorage.length, document.cookie]"


async def test_a_context_that_was_emptied_keeps_nothing(chromium: Browser, peer: Peer):
    """Neither pages, nor what they stored, nor cookies; and it is online."""
    context = await new_context(chromium)
    page = await context.new_page()
    await page.goto(f"{peer.url}/blank")
    await page.evaluate(KEEP)
    assert await page.evaluate(KEPT) == [1, "kept=1"]
    await context.set_offline(True)
    await emptied(context)
    assert context.pages == []
    page = await context.new_page()
    await page.goto(f"{peer.url}/blank")
    assert await page.evaluate(KEPT) == [0, ""]
    await context.close()
