"""A person's steps in Chromium against the whole platform with a real model."""

import re
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from billing.api import authenticate_key, make_link_code
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from parley_client import Client
from tests.browser.chat_page import PHONE, write
from tests.browser.conftest import OpenPage
from tests.support.patience import START_SECONDS, wait_until
from tests.support.platform import Platform

pytestmark = [pytest.mark.browser, pytest.mark.vllm, pytest.mark.asyncio(loop_scope="session")]

FACTS = re.compile(r"^[\d,]+ tokens \([\d,]+ in, [\d,]+ out\) · \$0\.\d+$")
STORY = "Tell me about a fox and a lighthouse."
LOOK_SECONDS = 0.1
# Answers of a set length: the page does not offer it, and a small model may end at once or go on for minutes.
# Only a story goes on for as long as a page takes to be opened again.
SET_LENGTH = f"""
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (text) {{
    const frame = JSON.parse(text);
    const tokens = frame.content === "{STORY}" ? 200 : 16;
    if (frame.t === "send") frame.options = {{ min_tokens: tokens, max_tokens: tokens }};
    send.call(this, JSON.stringify(frame));
  }};
"""


@pytest_asyncio.fixture(loop_scope="session")
async def link(platform: Platform) -> str:
    """A sign-in link like the one that `parley up` prints."""
    settings = Settings.model_validate({"home": platform.home})
    database = Database(settings.database_endpoint)
    try:
        principal = await authenticate_key(database, platform.key)
    finally:
        await database.close()
    assert principal is not None
    code = make_link_code(settings.keyring, principal.tenant, principal.key, "demo", now_ms())
    return f"{platform.url}/#c={code}"


async def growing(page: Page) -> None:
    """Wait until tokens are seen to arrive: the last answer is longer than it was."""
    answer = page.locator(".answer .prose").last
    await expect(answer).not_to_be_empty()
    before = await answer.inner_text()
    await wait_until(lambda: longer(page, before), seconds=START_SECONDS, interval=LOOK_SECONDS)
    await expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()


async def longer(page: Page, before: str) -> bool:
    """The last answer has grown beyond `before`."""
    return len(await page.locator(".answer .prose").last.inner_text()) > len(before)


async def test_a_persons_steps(open_page: OpenPage, link: str):
    """Open, type, see tokens arrive, stop one, reload mid-answer and see it complete."""
    watched = await open_page(link, SET_LENGTH)
    page = watched.page
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert "#c=" not in page.url

    await write(page, "Say hello in five words.")
    await expect(page.get_by_text("tokens (").first).to_be_visible()
    await expect(page.locator(".facts").first).to_have_text(FACTS)

    await write(page, STORY)
    await growing(page)
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    await expect(page.locator(".answer .prose").last).not_to_be_empty()

    await write(page, STORY)
    await growing(page)
    await page.reload()
    await growing(page)
    before = await page.locator(".answer .prose").last.inner_text()
    await expect(page.locator(".facts").nth(2)).to_have_text(FACTS)
    complete = await page.locator(".answer .prose").last.inner_text()
    assert complete.startswith(before[: len(before) // 2])
    await expect(page.locator("#announcer")).to_have_text("Cut off: the answer reached its length limit.")

    await page.reload()
    await expect(page.locator(".answer")).to_have_count(3)
    assert await page.locator(".answer .prose").last.inner_text() == complete
    await expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    assert (watched.errors, watched.strangers) == ([], [])


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, PHONE, PHONE | {"color_scheme": "dark"}],
    ids=["light", "dark", "phone", "phone-dark"],
)
async def test_light_dark_and_phone(open_page: OpenPage, link: str, options: dict[str, Any]):
    """In every theme and width: an answer, axe finds nothing, nothing overflows, nobody else is asked."""
    watched = await open_page(link, SET_LENGTH, **options)
    page = watched.page
    await write(page, "Name three rivers as a list.")
    await expect(page.locator(".facts")).to_have_text(FACTS)
    assert await watched.axe() == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 25, 27)"
    assert dark is ("color_scheme" in options)
    assert (watched.errors, watched.strangers) == ([], [])


async def test_another_tab_sees_the_same_answer_grow(open_page: OpenPage, platform: Platform, link: str):
    """A second tab of the same browser attaches to the running answer and ends with the same text."""
    watched = await open_page(link, SET_LENGTH)
    page = watched.page
    await write(page, STORY)
    await growing(page)
    second = await page.context.new_page()
    await second.goto(page.url)
    await growing(second)
    for tab in (page, second):
        await expect(tab.locator(".facts")).to_have_text(FACTS)
    assert await second.locator(".prose").inner_text() == await page.locator(".prose").inner_text()


async def test_the_python_client_agrees(platform: Platform):
    """The Python client streams a verified answer from the same platform, and stops one."""
    async with Client(platform.url, platform.key) as client:
        answer = await client.send("Name three rivers.", options={"max_tokens": 32})
        pieces = [text async for text in answer]
        ended = await answer.end()
        assert ("".join(pieces), ended.verified) == (answer.text, True)
        stopped = await client.send(STORY, options={"min_tokens": 400})
        async for _ in stopped:
            await stopped.cancel()
        assert (await stopped.end()).reason == "cancelled"
    assert client.counters.verified == 2
