"""What the chat page says where a limit refuses."""

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import opened, write
from tests.browser.conftest import OpenPage
from tests.helpers.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FIRST_OF_DECEMBER_2099_MS = 4_099_766_400_000


async def test_a_limit_is_told_in_words(open_page: OpenPage, peer: Peer):
    """Complaints 25 and 26: a budget says whose it is and when it begins anew, a rate when to try again."""
    watched, socket = await opened(open_page, peer, timezone_id="UTC")
    page = watched.page
    await write(page, "How do rainbows form?")
    refused = {"re": "send", "id": (await socket.hear("send"))["id"], "message": "x"}
    budget = {"scope": "user", "dimension": "month", "limit": 5, "resets_at_ms": FIRST_OF_DECEMBER_2099_MS}
    await socket.tell("error", code="budget_exceeded", retry=False, **refused, **budget)
    words = "Your budget for this month is used up; it begins anew on 1 December."
    await expect(page.get_by_text(words)).to_be_visible()
    await page.get_by_role("button", name="Retry").click()
    refused["id"] = (await socket.hear("send"))["id"]
    left = budget | {"scope": "tenant", "remaining": 36_700}
    await socket.tell("error", code="budget_exceeded", retry=False, **refused, **left)
    words = (
        "$0.0000367 of your organization's budget for this month is left, which does not pay for this request"
    )
    await expect(page.get_by_text(words)).to_be_visible()
    await page.get_by_role("button", name="Retry").click()
    refused["id"] = (await socket.hear("send"))["id"]
    rate = {"scope": "project", "dimension": "requests_per_minute", "after_ms": 3000}
    await socket.tell("error", code="rate_limited", retry=True, **refused, **rate)
    words = "This project's limit of requests a minute is reached. Try again in 3 seconds."
    await expect(page.get_by_text(words)).to_be_visible()
    assert watched.errors == []
