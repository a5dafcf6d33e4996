"""Both reference clients are held to every case of this folder (README.md)."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, async_playwright

from tests.browser.conftest import FLAGS
from tests.conformance.clients.runner import Failed, play
from tests.conformance.clients.steps import ClientCase, cases_in
from tests.conformance.clients.subjects import BrowserSubject, PythonSubject, Subject
from tests.support.browsers import chromium_path
from tests.support.scripted_peer import Peer, scripted_peer

CASES = cases_in(Path(__file__).parent)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def peer() -> AsyncGenerator[Peer]:
    """The server that all cases share; what one leaves behind is another's failure."""
    async with scripted_peer() as playing:
        yield playing


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def page(peer: Peer) -> AsyncGenerator[Page]:
    """One blank page of the peer's origin for all cases."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        page = await browser.new_page()
        await page.goto(f"{peer.url}/blank")
        yield page
        await browser.close()


async def _held(case: ClientCase, peer: Peer, subject: Subject) -> None:
    problem = ""
    try:
        await play(case, peer, subject)
    except Failed as failed:
        problem = str(failed)
    peer.cut()
    while not peer.sockets.empty():
        peer.sockets.get_nowait()
    if problem:
        pytest.fail(problem, pytrace=False)


def _cases(*, browser: bool, files: tuple[str, ...] = ("",)) -> list[ClientCase]:
    able = [case for case in CASES if (not case.sees_http if browser else case.only is None)]
    return [case for case in able if case.id.startswith(files)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in _cases(browser=False)])
async def test_the_python_client_keeps_the_protocol(case: ClientCase, peer: Peer):
    """One case, in JSON."""
    await _held(case, peer, PythonSubject("json"))


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.id) for case in _cases(browser=False, files=("order", "text", "several"))],
)
async def test_the_python_client_keeps_the_protocol_in_msgpack(case: ClientCase, peer: Peer):
    """One case of those about what is in the messages, in MessagePack."""
    await _held(case, peer, PythonSubject("msgpack"))


@pytest.mark.browser
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in _cases(browser=True)])
async def test_the_browsers_client_keeps_the_protocol(case: ClientCase, peer: Peer, page: Page):
    """One case, in Chromium."""
    await _held(case, peer, BrowserSubject(page))
