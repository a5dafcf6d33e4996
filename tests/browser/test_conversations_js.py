"""Stored conversations in the JavaScript client and the AI SDK: one user's, with an end, and typed."""

import json
from itertools import count
from typing import Any

import pytest
from playwright.async_api import Route

from tests.browser.conftest import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CHAT = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d01"
SAID = {"id": "m", "role": "user", "content": "Hi", "status": "ended", "request_id": "r", "created_ms": 1}
TOLD = """const told = async (work) => {
  try { return await work(); } catch ({ name, code }) { return { name, code }; }
};"""
USERS = f"""async () => {{
  {TOLD}
  const {{ Conversations }} = await import("/web/client/client.js");
  let who = "ann";
  const chats = new Conversations({{ token: async () => `ph_${{who}}`, user: () => who }});
  const begun = chats.all();
  const found = [(await begun.next()).value.title];
  who = "bob";
  found.push(await told(() => begun.next()), (await chats.list()).conversations[0].title);
  const late = told(() => chats.list());
  who = "ann";
  return [...found, await late, (await chats.list()).conversations[0].title];
}}"""
LOAD = f"""async (id) => {{
  {TOLD}
  const {{ ParleyTransport }} = await import("/web/client/ai_sdk.js");
  const given = {{ token: async () => "ticket", pass: async () => "ph_ann" }};
  const transport = new ParleyTransport({{ ...given, stored: true }});
  return told(() => transport.load(id));
}}"""
SEND = f"""async ([chatId, messages]) => {{
  {TOLD}
  const {{ ParleyTransport }} = await import("/web/client/ai_sdk.js");
  const transport = new ParleyTransport({{ token: async () => "ticket" }});
  return told(() => transport.sendMessages({{ trigger: "submit-message", chatId, messages }}));
}}"""


async def test_a_pass_is_one_users(blank: WatchedPage):
    """Where another user comes, theirs is asked for; a list that was begun for the one before is not
    continued, and a reply that comes too late is nobody's."""

    async def answer(route: Route) -> None:
        whose = route.request.headers["authorization"].removeprefix("Bearer ph_")
        row = {"id": CHAT, "title": f"{whose}'s", "updated_ms": 1, "running": False}
        await route.fulfill(json={"conversations": [row], "cursor": "more"})

    await blank.page.route("**/v1/conversations*", answer)
    changed = {"name": "ProtocolError", "code": "user_changed"}
    assert await blank.page.evaluate(USERS) == ["ann's", changed, "bob's", changed, "ann's"]


async def loaded(blank: WatchedPage, body: Any, cursors: Any = None) -> tuple[Any, int]:
    """What `load` gives where each page is this one, and how many were read."""
    read = list[str]()

    async def answer(route: Route) -> None:
        read.append(route.request.url)
        more = {"cursor": next(cursors)} if cursors else {}
        await route.fulfill(body=json.dumps(body | more if more else body), content_type="application/json")

    await blank.page.route("**/v1/conversations/**", answer)
    return await blank.page.evaluate(LOAD, CHAT), len(read)


@pytest.mark.parametrize(("cursors", "pages"), [(iter("aa"), 2), (map(str, count()), 1001)])
async def test_a_chat_without_end_is_refused(blank: WatchedPage, cursors: Any, pages: int):
    """Where a cursor comes again, or always another one: no load goes on for ever."""
    bad_reply = {"name": "ProtocolError", "code": "bad_reply"}
    assert await loaded(blank, {"messages": []}, cursors) == (bad_reply, pages)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"messages": None},
        {"messages": [None]},
        {"messages": [SAID], "cursor": 7},
        *(
            {"messages": [SAID | odd]}
            for odd in (
                {"id": None},
                {"content": {"x": 1}},
                {"role": "system"},
                {"status": "paused"},
                {"request_id": 7},
                {"model": []},
                {"flags": {}},
                {"usage": "much"},
            )
        ),
    ],
)
async def test_what_is_no_page_reaches_no_chat(blank: WatchedPage, body: Any):
    """It is one typed error, whatever is odd."""
    assert (await loaded(blank, body))[0] == {"name": "ProtocolError", "code": "bad_reply"}


async def test_what_a_newer_gateway_adds_is_let_through(blank: WatchedPage):
    """Fields that are not known, and those that are null or absent."""
    body = {"messages": [SAID | {"usage": None, "mood": "good"}], "pages": 1}
    shown = {
        "id": "m",
        "role": "user",
        "metadata": {},
        "parts": [{"type": "text", "text": "Hi", "state": "done"}],
    }
    assert (await loaded(blank, body))[0] == [shown]


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [None],
        [{"role": "user"}],
        [{"role": "user", "parts": [None]}],
        [{"role": "user", "parts": [{"type": "text"}]}],
    ],
)
async def test_what_is_no_message_is_refused(blank: WatchedPage, messages: Any):
    """Before anything is connected."""
    assert await blank.page.evaluate(SEND, [CHAT, messages]) == {
        "name": "ProtocolError",
        "code": "bad_request",
    }
