"""How long the browser's client waits, on a clock that the test moves or holds."""

import pytest
import pytest_asyncio

from tests.browser.conftest import OpenPage, WatchedPage
from tests.support.patience import pause, wait_until
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HEALTHY_MS = 30_000
START = """async (chance) => {
  const { Client } = await import("/web/client.js");
  Math.random = () => chance;
  window.waits = [];
  window.client = new Client({
    token: async () => "ticket",
    onState: (state) => state.state === "waiting" && window.waits.push(state.inMs),
  });
  window.client.connect();
}"""

SLEEPY = """() => {
  const real = window.setTimeout;
  window.setTimeout = (act, ms) => real(act, 300 * ms);
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def blank(open_page: OpenPage, peer: Peer) -> WatchedPage:
    """An empty page with a clock of its own."""
    return await open_page(f"{peer.url}/blank", own=True)


async def lose(blank: WatchedPage, peer: Peer, times: int) -> None:
    """Lose the connection so often, each time welcomed again after the longest wait."""
    for _ in range(times):
        socket = await peer.socket()
        await socket.welcome()
        await wait_until(lambda: blank.page.evaluate("client.state.state === 'open'"))
        await socket.close(1012)
        await wait_until(lambda: blank.page.evaluate("client.state.state === 'waiting'"))
        await blank.page.clock.fast_forward(20_000)


@pytest.mark.parametrize(
    ("chance", "waits"),
    [
        (1, [500, 1000, 2000, 4000, 8000, 16000, 20000, 20000]),
        (0.5, [250, 500, 1000, 2000, 4000, 8000, 10000, 10000]),
    ],
)
async def test_the_wait_is_full_jitter_under_a_ceiling_that_doubles(
    blank: WatchedPage, peer: Peer, chance: float, waits: list[int]
):
    """From 0.5 s to 20 s at most; how much of it is chance."""
    await blank.page.clock.install()
    await blank.page.evaluate(START, chance)
    await lose(blank, peer, len(waits))
    assert await blank.page.evaluate("waits") == waits


async def test_a_connection_that_lived_for_30_s_starts_anew(blank: WatchedPage, peer: Peer):
    """A healthy connection forgives; one that broke at once does not."""
    await blank.page.clock.install()
    await blank.page.evaluate(START, 1)
    await lose(blank, peer, 3)
    socket = await peer.socket()
    await socket.welcome(heartbeat={"interval_ms": 10 * HEALTHY_MS, "timeout_ms": 10_000})
    await wait_until(lambda: blank.page.evaluate("client.state.state === 'open'"))
    await blank.page.clock.fast_forward(HEALTHY_MS + 1)
    await socket.close(1012)
    await wait_until(lambda: blank.page.evaluate("waits.length === 4"))
    assert await blank.page.evaluate("waits") == [500, 1000, 2000, 500]


async def test_a_token_that_never_comes_is_asked_for_again(blank: WatchedPage, peer: Peer):
    """A function that hangs does not hang the client."""
    await blank.page.clock.install()
    await blank.page.evaluate(START.replace('async () => "ticket"', "() => new Promise(() => {})"), 1)
    await blank.page.clock.fast_forward(15_001)
    await wait_until(lambda: blank.page.evaluate("waits.length === 1"))


async def test_a_hidden_tab_whose_timers_sleep_acknowledges(blank: WatchedPage, peer: Peer):
    """Browsers let the timers of hidden tabs fire once a minute; a reader there must not count as stuck."""
    await blank.page.evaluate(SLEEPY)
    await blank.page.evaluate(START, 1)
    socket = await peer.socket()
    await socket.welcome()
    await blank.page.evaluate("void client.send({ content: 'Hello' })")
    await socket.accept()
    await socket.delta("one ", 1)
    await wait_until(lambda: socket.log[-1]["t"] == "send")
    await pause()
    await socket.delta("two ", 2, p=4)
    assert (await socket.hear("ack"))["a"] == [[1, 2]]
