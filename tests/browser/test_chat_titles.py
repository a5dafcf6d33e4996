"""What a chat is called before the server has it."""

import pytest

from server.conversations.titles import title_of
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TITLES = """async (contents) => {
  const { titleOf } = await import("/web/words.js");
  return contents.map(titleOf);
}"""
CONTENTS = [
    " Plan \n a   trip ",
    "x" * 80,
    "x" * 81,
    "word " * 16,
    "word " * 17,
    "so " + "😀" * 90,
    "a" * 40 + " " + "b" * 60,
    " \u200b \u2060",
    "\u200bseen",
    "👩‍👧",
]


async def test_the_page_and_the_server_make_the_same(open_page: OpenPage, peer: Peer):
    """So that no title changes with the next reload."""
    watched = await open_page(f"{peer.url}/blank")
    assert await watched.page.evaluate(TITLES, CONTENTS) == [title_of(content) for content in CONTENTS]
