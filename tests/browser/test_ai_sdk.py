"""A customer's page with Vercel's `useChat`, as clients/js/README.md tells to write it, at real gateways."""

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect

from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from engine.policies.store import PolicyStore
from engine.safety.documents import PolicyDetector, PolicyDocument
from tests.browser.ai_sdk_shop import ShopPage, open_shop, ticket_of
from tests.server.site import Site, running_site
from tests.support.balancer import running_balancer
from tests.support.gateways import LetterEngine, running_gateways
from tests.support.other_site import other_site
from tests.support.patience import wait_until
from tests.support.redis import Redis

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

TEXT = "Nile, Rhine and Zambezi: 川 🌊. " * 12
SHOWN = TEXT.strip()


@asynccontextmanager
async def at_gateway(
    chromium: Browser, shop: str, url: str, key: str, stored: bool
) -> AsyncGenerator[ShopPage]:
    """The shop's page of Ann."""

    async def tickets() -> str:
        return (await ticket_of(url, key))["ticket"]

    given: dict[str, Any] = {}
    if stored:
        passed = (await ticket_of(url, key, history=True))["history"]
        given = {"stored": True, "id": uuid7(now_ms()), "pass": passed}
    async with open_shop(chromium, shop, url, tickets, **given) as page:
        yield page


@asynccontextmanager
async def slow_site(settings: Settings, sqlite: Database, redis: Redis, shop: str) -> AsyncGenerator[Site]:
    """A gateway that lists the shop and takes four seconds for an answer."""
    async with running_site(settings, sqlite, redis, public_origins=shop) as site, site.answering(TEXT, 0.01):
        yield site


@pytest.mark.parametrize("stored", [False, True])
async def test_a_page_that_is_reloaded_in_mid_answer_goes_on(
    chromium: Browser, shop_page: Path, sqlite: Database, redis: Redis, settings: Settings, stored: bool
):
    """Whether it keeps its chat or Parley does; React's second mounting stops nothing. Later there is nothing
    to go on with."""
    async with (
        other_site(shop_page) as shop,
        slow_site(settings, sqlite, redis, shop) as site,
        at_gateway(chromium, shop, site.url, site.key, stored) as chat,
    ):
        await chat.write("Name three rivers.")
        await expect(chat.answers).to_contain_text("Nile")
        await chat.page.reload()
        await expect(chat.answers).to_contain_text("Nile")
        await expect(chat.questions).to_have_count(1)
        assert len(await chat.answers.inner_text()) < len(SHOWN)
        await expect(chat.answers).to_have_text([SHOWN])
        await expect(chat.page.get_by_role("button", name="Send")).to_be_visible()
        await chat.page.reload()
        await expect(chat.questions).to_have_count(1)
        await expect(chat.answers).to_have_text([SHOWN])
        assert await chat.get("() => sdk.transport.reconnectToStream({ chatId: given.id })") is None


async def test_stop_cancels_the_answer_and_the_next_turn_begins_at_once(
    chromium: Browser, shop_page: Path, sqlite: Database, redis: Redis, settings: Settings
):
    """In a stored chat, which runs one at a time. What had come stays."""
    async with (
        other_site(shop_page) as shop,
        slow_site(settings, sqlite, redis, shop) as site,
        at_gateway(chromium, shop, site.url, site.key, stored=True) as chat,
    ):
        await chat.write("Name three rivers.")
        await expect(chat.answers).to_contain_text("Nile")
        await chat.page.get_by_role("button", name="Stop").click()
        await expect(chat.page.get_by_role("button", name="Send")).to_be_visible()
        await expect(chat.questions).to_have_text(["Name three rivers."])
        await chat.page.get_by_role("button", name="Send").click()  # without a text
        await chat.write("Once more.")
        await expect(chat.answers.nth(1)).to_have_text(SHOWN)
        assert len(await chat.answers.nth(0).inner_text()) < len(SHOWN)
        kept = await chat.get("() => sdk.transport.load(given.id)")
        await expect(chat.questions).to_have_text(["Name three rivers.", "Once more."])
        assert [each["role"] for each in kept] == ["user", "assistant"] * 2
        assert [each["metadata"]["reason"] for each in kept[1::2]] == ["cancelled", "stop"]
        await expect(chat.page.get_by_role("alert")).to_have_count(0)


async def test_a_refusal_is_the_chats_error_and_the_next_turn_is_not(
    chromium: Browser, shop_page: Path, sqlite: Database, redis: Redis, settings: Settings
):
    """With its code. The user's text stays, no empty answer comes; asking again is refused again."""
    rules = PolicyDocument((PolicyDetector("iban", prompt="block"),))
    async with other_site(shop_page) as shop, slow_site(settings, sqlite, redis, shop) as site:
        await PolicyStore(site.database).set(site.redis, site.tenant, "", rules, "a test")
        async with at_gateway(chromium, shop, site.url, site.key, stored=True) as chat:
            await chat.write("Is it DE89 3704 0044 0532 0130 00?")
            alert = chat.page.get_by_role("alert")
            await expect(alert).to_contain_text("safety_blocked: ")
            await expect(chat.questions).to_have_text(["Is it DE89 3704 0044 0532 0130 00?"])
            await expect(chat.answers).to_have_count(0)
            await chat.page.get_by_role("button", name="Again").click()
            await expect(alert).to_contain_text("safety_blocked: ")
            await chat.write("Name three rivers.")
            await expect(chat.answers).to_have_text([SHOWN])
            await expect(alert).to_have_count(0)


async def test_a_refused_turn_kills_no_chat_that_the_page_keeps(
    chromium: Browser, shop_page: Path, sqlite: Database, redis: Redis, settings: Settings
):
    """All of its messages are sent each time: the next turn goes without the refused one, whose text can be
    had back."""
    refused = "Is it DE89 3704 0044 0532 0130 00?"
    rules = PolicyDocument((PolicyDetector("iban", prompt="block"),))
    async with other_site(shop_page) as shop, slow_site(settings, sqlite, redis, shop) as site:
        await PolicyStore(site.database).set(site.redis, site.tenant, "", rules, "a test")
        async with at_gateway(chromium, shop, site.url, site.key, stored=False) as chat:
            await chat.write(refused)
            await chat.page.get_by_role("button", name="Edit").click()
            await expect(chat.page.get_by_label("Message")).to_have_value(refused)
            await expect(chat.questions).to_have_count(0)
            await expect(chat.page.get_by_role("button", name="Again")).to_have_count(0)
            await chat.page.get_by_role("button", name="Send").click()
            await expect(chat.page.get_by_role("button", name="Edit")).to_be_visible()
            await chat.write("Name three rivers.")
            await expect(chat.answers).to_have_text([SHOWN])
            await expect(chat.questions).to_have_text(["Name three rivers."])
            await expect(chat.page.get_by_role("alert")).to_have_count(0)


async def test_a_page_without_a_ticket_says_why_it_waits(chromium: Browser, shop_page: Path):
    """Until there is one, or the user stops."""

    async def tickets() -> str:
        raise httpx.ConnectError("the shop's server reaches no gateway")

    async with (
        other_site(shop_page) as shop,
        open_shop(chromium, shop, "http://127.0.0.1:9", tickets) as chat,
    ):
        await chat.write("Name three rivers.")
        await expect(chat.page.get_by_role("status")).to_contain_text("/my/ticket answered 502")
        await chat.page.get_by_role("button", name="Stop").click()
        await expect(chat.questions).to_have_text(["Name three rivers."])


async def test_a_gateway_that_is_killed_costs_no_character(
    chromium: Browser, shop_page: Path, sqlite: Database, redis: Redis, settings: Settings
):
    """The other one carries on; the page sees nothing of it."""
    async with (
        other_site(shop_page) as shop,
        running_gateways(settings, sqlite, redis, PARLEY_PUBLIC_ORIGINS=shop) as fleet,
        fleet.site.crew.worker(LetterEngine(step_seconds=0.02)),
        running_balancer(fleet.gateways) as balancer,
    ):
        await wait_until(lambda: len(balancer.ready) == len(fleet.gateways))
        async with at_gateway(chromium, shop, balancer.url, fleet.site.key, stored=False) as chat:
            asked = """async () => {
              globalThis.chat = new sdk.Chat({ id: "letters", transport: sdk.transport });
              const body = { max_tokens: 200, min_tokens: 200 };
              globalThis.asked = chat.sendMessage({ text: "Say letters." }, { body });
            }"""
            await chat.get(asked)
            await wait_until(
                lambda: chat.get("() => chat.messages[1]?.parts.some(({ text }) => text?.length > 9)")
            )
            [carrying] = [each for each in fleet.gateways if await each.holds_a_connection()]
            carrying.signal(signal.SIGKILL)
            await chat.get("() => asked")
            [_, answer] = await chat.get("() => chat.messages")
            assert (answer["metadata"]["reason"], answer["metadata"]["verified"]) == ("length", True)
            assert len(answer["parts"][-1]["text"]) == 200
            assert await chat.get("() => [chat.status, chat.error ?? null]") == ["ready", None]
