"""The days under which the sidebar lists chats."""

import pytest

from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DAYS = """async ([now, times]) => {
  const { dayText } = await import("/web/words.js");
  return times.map((time) => dayText(new Date(time).getTime(), new Date(now)));
}"""
HEADINGS = ["Today", "Yesterday", "Yesterday", "Last 7 days", "Last 7 days", "Earlier"]
CLOCK_CHANGES = {  # Europe/Berlin: now, then the edges of its days
    "23 hours yesterday": [
        *["2026-03-30T12:00", "2026-03-30T00:00"],
        *["2026-03-29T23:59", "2026-03-29T00:00", "2026-03-28T23:30", "2026-03-23T00:00", "2026-03-22T23:30"],
    ],
    "25 hours yesterday": [
        *["2026-10-26T12:00", "2026-10-26T00:00"],
        *["2026-10-25T23:59", "2026-10-25T00:30", "2026-10-24T23:59", "2026-10-19T00:30", "2026-10-18T23:59"],
    ],
    "25 hours today": [
        *["2026-10-25T23:30", "2026-10-25T00:00"],
        *["2026-10-24T23:59", "2026-10-24T00:00", "2026-10-23T23:59", "2026-10-18T00:00", "2026-10-17T23:59"],
    ],
}


@pytest.mark.parametrize("change", CLOCK_CHANGES)
async def test_days_are_the_calendars(open_page: OpenPage, peer: Peer, change: str):
    """One on which clocks change is no longer and no shorter than its date."""
    watched = await open_page(f"{peer.url}/blank", timezone_id="Europe/Berlin")
    now, *times = CLOCK_CHANGES[change]
    assert await watched.page.evaluate(DAYS, [now, times]) == HEADINGS
