"""Both clients, and the chat page, at real gateways with a scripted worker: whole answers, slow readers,
access, drains."""

import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any, Protocol

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from billing.api import revoke_key
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from engine.policies.store import PolicyStore
from engine.safety.documents import PolicyDetector, PolicyDocument
from tests.browser.chat_page import write
from tests.browser.conftest import OpenPage
from tests.conformance.clients.steps import OptionsStep
from tests.conformance.clients.subjects import BrowserSubject, Facts, PythonSubject, Subject
from tests.server.site import running_site
from tests.support.balancer import running_balancer
from tests.support.gateways import LetterEngine, running_gateways
from tests.support.patience import wait_until
from tests.support.redis import Redis

pytestmark = pytest.mark.asyncio(loop_scope="session")

CARD = "4111 1111 1111 1111"
SECRETS = f"Pay with {CARD} or `{CARD}`, not [CARD_1] .\n\n```sh\nkey=AKIAIOSFODNN7EXAMPLE\n```\n"
TEXT = "Nile, Rhine and Zambezi: 川 🌊. " * 12


class Make(Protocol):
    """Makes the client under test, connected to a gateway."""

    async def __call__(self, url: str, key: str, **options: Any) -> Subject:
        """`options`: see Options."""
        ...


@pytest.fixture(params=["python", pytest.param("browser", marks=pytest.mark.browser)])
def chromium_or_none(request: pytest.FixtureRequest) -> Browser | None:
    """The session's Chromium, for the client in it."""
    return request.getfixturevalue("chromium") if request.param == "browser" else None


@pytest_asyncio.fixture(loop_scope="session")
async def make(chromium_or_none: Browser | None) -> AsyncGenerator[Make]:
    """The Python client, in MessagePack as all other tests with a gateway use JSON, and the browser's."""
    async with AsyncExitStack() as stack:

        async def made(url: str, key: str, **options: Any) -> Subject:
            if chromium_or_none is not None:
                opened = _in_chromium(chromium_or_none, url, key)
                subject: Subject = await stack.enter_async_context(opened)
            else:
                subject = PythonSubject("msgpack", key)
            await subject.start(url, OptionsStep(**options))
            stack.push_async_callback(subject.stop)
            return subject

        yield made


@asynccontextmanager
async def _in_chromium(chromium: Browser, url: str, key: str) -> AsyncGenerator[BrowserSubject]:
    page = await chromium.new_page()  # in a context of its own
    await page.goto(f"{url}/healthz")
    yield BrowserSubject(page, key)
    await page.close()


async def ask(subject: Subject, unread: bool = False, **fields: Any) -> str:
    """Send one turn; its id."""
    id = uuid7(now_ms())
    await subject.send(id, {"content": "Name three rivers.", **fields}, unread)
    return id


async def seen(subject: Subject, id: str, **facts: Any) -> Facts:
    """The answer, once it has these facts."""

    async def there() -> Facts | None:
        answer = await subject.answer(id)
        return answer if answer is not None and facts.items() <= answer.items() else None

    found = await wait_until(there)
    assert found is not None
    return found


async def test_an_answer_is_whole_and_tells_its_pieces(
    make: Make, sqlite: Database, redis: Redis, settings: Settings
):
    """Text, hash, usage and traces come over a real gateway, in each encoding."""
    async with running_site(settings, sqlite, redis) as site, site.answering(TEXT, 0.002):
        subject = await make(site.url, site.key, trace=True)
        answer = await seen(subject, await ask(subject), status="ended")
        assert (answer["text"], answer["verified"], answer["reason"]) == (TEXT, True, "stop")
        pieces, last = answer["traces"][:-1], answer["traces"][-1]
        assert [piece["batch"] for piece in pieces] == list(range(1, len(pieces) + 1))
        assert all(piece["ms"] >= 0 and not piece["final"] for piece in pieces)
        assert all(after["a"] > before["b"] for before, after in pairwise(pieces))
        assert (last["final"], last["b"]) == (True, answer["applied"])
        assert (await subject.counters())["verified"] == 1


async def test_a_reader_that_stops_is_paused_and_comes_back(
    make: Make, sqlite: Database, redis: Redis, settings: Settings
):
    """An application that does not read is told that it is paused; when it reads on, nothing is missing."""
    quick = {"paused_seconds": 0.2}
    async with running_site(settings, sqlite, redis, **quick) as site, site.answering(TEXT, 0.005):
        subject = await make(site.url, site.key, window={"events": 32})
        slow, brisk = await ask(subject, unread=True), await ask(subject)
        await seen(subject, slow, paused=True)
        assert (await seen(subject, brisk, status="ended"))["verified"]
        await subject.call("read", slow)
        answer = await seen(subject, slow, status="ended")
        assert (answer["text"], answer["verified"], answer["paused"]) == (TEXT, True, False)
        assert (await subject.counters())["reconnects"] == 0


async def test_access_that_ends_is_renewed_in_mid_answer(
    make: Make, sqlite: Database, redis: Redis, settings: Settings
):
    """The client shows a fresh ticket each time it is asked: a connection outlives several tickets."""
    short = {"access_seconds": 8, "auth_notice_seconds": 7.8}
    async with running_site(settings, sqlite, redis, **short) as site, site.answering(TEXT, 0.01):
        subject = await make(site.url, site.key)
        answer = await seen(subject, await ask(subject), status="ended")
        assert answer["verified"]
        assert (await subject.counters())["reconnects"] == 0
        assert await subject.state() == {"state": "open"}


async def test_a_revoked_key_stops_a_client(make: Make, sqlite: Database, redis: Redis, settings: Settings):
    """Its answers fail with the code, and it does not knock again."""
    async with running_site(settings, sqlite, redis) as site, site.answering(TEXT, 0.05):
        subject = await make(site.url, site.key)
        id = await ask(subject)
        await seen(subject, id, status="running")
        await revoke_key(site.database, site.redis, site.tenant, site.key_id)
        answer = await seen(subject, id, status="failed")
        assert answer["error"]["code"] == "unauthorized"
        assert (await subject.state())["code"] == "unauthorized"


@pytest.mark.browser
async def test_secrets_are_chips_on_the_page(
    open_page: OpenPage, sqlite: Database, redis: Redis, settings: Settings
):
    """While an answer streams and in the chat's history; what the model wrote like one is text."""
    async with running_site(settings, sqlite, redis) as site, site.answering(SECRETS, 0.004):
        watched = await open_page(site.url)
        page = watched.page
        await page.get_by_label("API key").fill(site.key)
        await page.keyboard.press("Enter")
        await write(page, "How do I pay?")
        shown = list[str]()
        for _ in range(2):
            await expect(page.locator(".facts")).to_be_visible()
            await expect(page.locator(".prose .chip")).to_have_text(["card 1", "[CARD_1]", "[API_KEY_1]"])
            await expect(page.locator(".prose > p")).to_have_text(
                "Pay with card 1 or [CARD_1], not [CARD_1] ."
            )
            await expect(page.locator(".missing")).to_have_text(
                "Removed before it reached you: 1 card number, 1 key."
            )
            shown.append(await page.locator(".prose").inner_html())
            assert "4111" not in await page.content()
            await page.reload()
        assert shown[0] == shown[1]
        assert watched.errors == []


@pytest.mark.browser
async def test_a_vetted_question_is_the_same_in_the_history(
    open_page: OpenPage, sqlite: Database, redis: Redis, settings: Settings
):
    """Of a real policy: no chat of a refused question; a redacted one, and its title, after a reload too."""
    rules = PolicyDocument((PolicyDetector("card", prompt="redact"), PolicyDetector("iban", prompt="block")))
    async with running_site(settings, sqlite, redis) as site, site.answering("No.", 0.004):
        await PolicyStore(site.database).set(site.redis, site.tenant, "", rules, "a test")
        watched = await open_page(site.url)
        page = watched.page
        await page.get_by_label("API key").fill(site.key)
        await page.keyboard.press("Enter")
        await write(page, "Is it DE89 3704 0044 0532 0130 00?")
        await expect(page.locator("#not-sent strong")).to_contain_text("lets no IBANs in.")
        await expect(page.locator("#conversations .name")).to_have_count(0)
        await write(page, "😀 4111 1111 1111 1111 or\n[CARD_1]?")
        shown = list[str]()
        for _ in range(2):
            await expect(page.locator(".facts")).to_be_visible()
            await expect(page.locator(".bubble .chip")).to_have_text(["card 1"])
            await expect(page.locator(".bubble")).to_have_text("😀 card 1 or\n[CARD_1]?")
            await expect(page.locator("#conversations .name")).to_have_text(["😀 [CARD_1] or [CARD_1]?"])
            shown.append(await page.locator(".bubble").inner_html())
            assert "4111" not in await page.content()
            await page.reload()
        assert shown[0] == shown[1]
        await page.locator(".bubble .chip").click()
        await expect(page.locator("#removed")).to_contain_text(
            "Your organization’s safety policy lets none in."
        )
        assert watched.errors == []


async def test_a_drain_is_a_handover(make: Make, sqlite: Database, redis: Redis, settings: Settings):
    """SIGTERM to the gateway in mid-answer: the other one carries on, no connection is lost."""
    engine = LetterEngine(step_seconds=0.02)
    options = {"max_tokens": 200, "min_tokens": 200}
    async with (
        running_gateways(settings, sqlite, redis, PARLEY_DRAIN_SECONDS_MAX="6") as fleet,
        fleet.site.crew.worker(engine),
        running_balancer(fleet.gateways) as balancer,
    ):
        await wait_until(lambda: len(balancer.ready) == len(fleet.gateways))
        subject = await make(balancer.url, fleet.site.key)
        id = await ask(subject, options=options)
        await seen(subject, id, status="running")
        [carrying] = [each for each in fleet.gateways if await each.holds_a_connection()]
        carrying.signal(signal.SIGTERM)
        answer = await seen(subject, id, status="ended")
        counters = await subject.counters()
        assert (answer["verified"], answer["reason"], len(answer["text"])) == (True, "length", 200)
        assert (counters["handovers"], counters["reconnects"], counters["resumed"]) == (1, 0, 1)
