"""The chat page as tests open and use it."""

from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import OpenPage, WatchedPage
from tests.support.scripted_peer import Peer, Socket

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


async def opened(
    open_page: OpenPage, peer: Peer, path: str = "/", **options: Any
) -> tuple[WatchedPage, Socket]:
    """The page, signed in and connected."""
    watched = await open_page(peer.url + path, **options)
    socket = await peer.socket()
    await socket.welcome()
    await expect(watched.page.get_by_label("Message", exact=True)).to_be_visible()
    return watched, socket


async def write(page: Page, text: str) -> None:
    """Type a message and send it: by Enter, or by the button where that makes a line."""
    await page.get_by_label("Message", exact=True).fill(text)
    if await page.evaluate("matchMedia('(pointer: coarse) and (hover: none)').matches"):
        await page.locator("#send").click()
    else:
        await page.keyboard.press("Enter")


def note(page: Page) -> Locator:
    """What is said below the last answer of why it is not there, or not whole."""
    return page.locator(".note").last
