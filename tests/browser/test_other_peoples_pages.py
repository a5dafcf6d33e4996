"""Our client in a page of another site, at a real gateway: what a listed Origin may do, and what one is told
that is not listed."""

from typing import Any

import httpx
import pytest
from playwright.async_api import Browser

from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from tests.server.site import Site, running_site
from tests.support.other_site import other_site
from tests.support.redis import Redis

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

PAGE = """async ([gateway, ticket, pass, broken, conversation]) => {
  const { Client, Conversations } = await import("/client/client.js");
  const told = async (work) => {
    try { return await work(); }
    catch ({ name, code, message, retry }) { return { name, code, message, retry }; }
  };
  const url = gateway.replace("http", "ws") + "/v1/ws";
  const client = new Client({ url, token: async () => ticket });
  client.connect();
  const said = await told(async () => {
    const answer = await client.send({ content: "hello", conversation, system: "be kind" });
    await answer.done;
    return answer.text;
  });
  const { state } = client;
  client.close();
  const chats = new Conversations({ url: gateway, token: async () => pass });
  const listed = await told(async () => {
    const names = async () => (await chats.list()).conversations.map(({ title }) => title);
    const found = [await names()];
    await chats.rename(conversation, "of rivers");
    found.push(await names());
    const { messages, system } = await chats.messages(conversation);
    found.push(messages.map(({ role }) => role), system);
    await chats.delete(conversation);
    for await (const each of chats.all()) found.push(each);
    return found;
  });
  const proxied = await told(() => new Conversations({ url: broken, token: async () => pass }).list());
  const page = await told(() => new Conversations({ url: gateway, token: async () => "<html>" }).list());
  const gone = await told(() => chats.messages(conversation));
  return { said, state, listed, proxied, page, gone };
}"""


async def tried(chromium: Browser, site: Site, shop: str) -> dict[str, Any]:
    """What a page of the shop gets with Ann's ticket and pass."""
    async with httpx.AsyncClient() as http:
        headers, body = {"authorization": f"Bearer {site.key}"}, {"user": "ann", "history": "write"}
        made = (await http.post(f"{site.url}/v1/tickets", headers=headers, json=body)).json()
    page = await chromium.new_page()
    try:
        await page.goto(shop)
        shown = [site.url, made["ticket"], made["history"], f"{shop}/broken", uuid7(now_ms())]
        return await page.evaluate(PAGE, shown)
    finally:
        await page.close()


async def test_a_listed_site_chats_and_keeps_its_users_history(
    chromium: Browser, sqlite: Database, redis: Redis, settings: Settings
):
    """With a ticket and a pass that writes. Who answers in the gateway's place is named."""
    async with (
        other_site() as shop,
        running_site(settings, sqlite, redis, public_origins=shop) as site,
        site.answering("Hi."),
    ):
        found = await tried(chromium, site, shop)
    assert found["said"] == "Hi."
    assert found["listed"] == [["hello"], ["of rivers"], ["user", "assistant"], "be kind"]
    assert (found["proxied"]["code"], found["proxied"]["retry"]) == ("bad_reply", True)
    assert (found["page"]["code"], found["gone"]["code"]) == ("no_token", "unknown_conversation")


async def test_a_site_that_is_not_listed_is_told_so(
    chromium: Browser, sqlite: Database, redis: Redis, settings: Settings
):
    """By the state and by the send that waits; over HTTP browsers hide everything, and the words say that."""
    async with other_site() as shop, running_site(settings, sqlite, redis) as site, site.answering("Hi."):
        found = await tried(chromium, site, shop)
    for said in (found["said"], found["state"]):
        assert said["code"] == "forbidden"
        assert "PARLEY_PUBLIC_ORIGINS" in said["message"]
    assert (found["said"]["name"], found["state"]["state"]) == ("ProtocolError", "stopped")
    assert found["listed"]["code"] == "unreachable"
    assert "PARLEY_PUBLIC_ORIGINS" in found["listed"]["message"]
