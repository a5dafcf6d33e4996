"""How long the browser's client waits, on a clock that the test moves or holds."""

import pytest
import pytest_asyncio

from tests.browser.conftest import OpenPage, WatchedPage
from tests.support.patience import wait_until
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HEALTHY_MS = 30_000
START = """async (chance) => {
  const { Client } = await import("/web/client/client.js");
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

ACK_MS = 200
LATER = """(ms) => {
  const now = performance.now.bind(performance);
  performance.now = () => now() + ms;
}"""

NO_TOKEN = """async () => {
  if (window.client.state.state === "open") throw new Error("signs nobody in");
  return "ticket";
}"""

AT_ONCE = """() => {
  const real = window.setTimeout;
  let now = 0;
  performance.now = () => now;
  window.slept = [];
  window.setTimeout = (act, ms) => ms > 5_000 ? real(act, ms) : real(() => {
    window.slept.push(ms);
    now += ms;
    act();
  }, 0);
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


@pytest.mark.parametrize(
    ("expires_in_ms", "waits_ms"),
    [(1_600, [400, 300, 250, 250, 250, 250]), (24_000, [5_000, 4_750, 3_562.5])],
)
async def test_a_fresh_token_is_asked_for_ever_more_often_and_not_in_a_storm(
    blank: WatchedPage, peer: Peer, expires_in_ms: int, waits_ms: list[float]
):
    """A quarter of what is left each time, from 250 ms to 5 s; when nothing is left the client is silent."""
    await blank.page.evaluate(START.replace('async () => "ticket"', NO_TOKEN), 1)
    socket = await peer.socket()
    await socket.welcome()
    await wait_until(lambda: blank.page.evaluate("client.state.state === 'open'"))
    await blank.page.evaluate(AT_ONCE)
    await socket.tell("auth_required", expires_in_ms=expires_in_ms)
    await wait_until(lambda: blank.page.evaluate(f"performance.now() >= {expires_in_ms}"))
    slept = await blank.page.evaluate("slept")
    assert slept[: len(waits_ms)] == waits_ms
    assert min(slept) == 250
    assert sum(slept[:-1]) < expires_in_ms <= sum(slept)


async def test_a_hidden_tab_whose_timers_sleep_acknowledges(blank: WatchedPage, peer: Peer):
    """Browsers let the timers of hidden tabs fire once a minute; a reader there must not count as stuck."""
    await blank.page.evaluate(SLEEPY)
    await blank.page.evaluate(START, 1)
    socket = await peer.socket()
    await socket.welcome()
    await blank.page.evaluate("void client.send({ content: 'Hello' }).then((sent) => (window.answer = sent))")
    await socket.accept()
    await socket.delta("one ", 1)
    await wait_until(lambda: blank.page.evaluate("window.answer?.text === 'one '"))
    await blank.page.evaluate(LATER, ACK_MS)
    await socket.delta("two ", 2, p=4)
    assert (await socket.hear("ack"))["a"] == [[1, 2]]
