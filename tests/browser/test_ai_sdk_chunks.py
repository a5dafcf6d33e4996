"""What a chat of Vercel's AI SDK shows, knows and sends, against a peer that is played by hand."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from core.clock import now_ms
from core.ids import uuid7
from tests.browser.ai_sdk_shop import ShopPage, open_shop
from tests.support.other_site import other_site
from tests.support.patience import wait_until
from tests.support.scripted_peer import Frame, Peer, Socket, accepted_fields, scripted_peer

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

START = """([options]) => {
  globalThis.told = [];
  globalThis.chat = new sdk.Chat({
    id: "other", ...options, transport: sdk.transport, onData: ({ data }) => told.push(data.status),
  });
}"""
ASK = "([text, options]) => void (globalThis.asked = chat.sendMessage({ text }, options))"
REFUSED = {"code": "too_large", "message": "too long", "retry": False, "tokens": {"has": 9000, "fit": 8000}}


class DrivenSdk:
    """A chat of the page, and the peer that it talks to."""

    def __init__(self, shop: ShopPage, peer: Peer) -> None:
        self.shop = shop
        self.peer = peer

    async def start(self, **options: Any) -> None:
        """A new chat; see `ChatInit`."""
        await self.shop.get(START, options)

    async def ask(self, text: str = "Hello", **options: Any) -> None:
        """Send a turn; `options`: see `ChatRequestOptions`."""
        await self.shop.get(ASK, text, options)

    async def welcomed(self, **fields: Any) -> Socket:
        """The next connection."""
        socket = await self.peer.socket()
        await socket.welcome(**fields)
        return socket

    async def answer(self) -> Frame:
        """The last message, of the model."""
        message = await self.shop.get("() => chat.lastMessage")
        assert message["role"] == "assistant"
        return message

    async def until(self, expression: str) -> None:
        """Wait until the page says so."""
        await wait_until(lambda: self.shop.get(f"() => Boolean({expression})"))

    async def until_text(self, *texts: str) -> None:
        """Wait until the answer's text parts are these."""
        parts = "chat.lastMessage.parts.filter((part) => part.type === 'text').map((part) => part.text)"
        await wait_until(lambda: self._says(f"() => {parts}", list(texts)))

    async def _says(self, script: str, wanted: list[str]) -> bool:
        return await self.shop.get(script) == wanted

    async def failure(self) -> Any:
        """The chat's error, once the turn is over."""
        await self.shop.get("() => asked")
        return await self.shop.get("() => chat.error && { ...chat.error, message: chat.error.message }")


@pytest_asyncio.fixture(loop_scope="session")
async def driven(chromium: Browser, shop_page: Path) -> AsyncGenerator[DrivenSdk]:
    """A chat that the page keeps."""

    async def tickets() -> str:
        return "ticket"

    async with (
        scripted_peer() as peer,
        other_site(shop_page) as site,
        open_shop(chromium, site, peer.url, tickets) as shop,
    ):
        driven = DrivenSdk(shop, peer)
        await driven.start()
        yield driven


async def test_a_turn_has_the_pages_messages_and_its_options(driven: DrivenSdk):
    """All of them, without an answer that said nothing; a regenerated one is not among them. An answer's
    message has the request's id and what is known of it."""
    say = {"role": "user", "id": "1", "parts": [{"type": "text", "text": "Hi"}]}
    mute = {"role": "assistant", "id": "2", "parts": [{"type": "step-start"}]}
    await driven.start(messages=[say, mute])
    body = {"model": "large", "system": "Be kind.", "temperature": 0.2}
    await driven.ask("Name a river.", body=body, metadata={"project": "web"})
    socket = await driven.welcomed()
    id = await socket.accept()
    [sent] = [frame for frame in socket.log if frame["t"] == "send"]
    turns = [("system", "Be kind."), ("user", "Hi"), ("user", "Name a river.")]
    assert sent["messages"] == [{"role": role, "content": content} for role, content in turns]
    assert (sent["model"], sent["options"], sent["metadata"]) == (
        "large",
        {"temperature": 0.2},
        {"project": "web"},
    )
    await socket.tell("event", g=1, o=1, k="running")
    await socket.delta("Rhine", 2)
    await socket.end("Rhine", 3)
    assert await driven.failure() is None
    answer = await driven.answer()
    assert (answer["id"], answer["metadata"]["requestId"], answer["metadata"]["model"]) == (id, id, "large")
    assert (answer["metadata"]["usage"]["total"], answer["metadata"]["cost"]["nano"]) == (49, 6100)
    assert "running" in await driven.shop.get("() => told")
    await driven.shop.get("() => void (globalThis.asked = chat.regenerate())")
    again = await socket.hear("send")
    assert again["messages"] == [{"role": role, "content": content} for role, content in turns[1:]]
    await socket.tell("accepted", id=again["id"], g=2, **accepted_fields())
    await socket.delta("Nile", 1, g=2)
    await socket.end("Nile", 2, g=2)
    assert await driven.failure() is None
    assert len(await driven.shop.get("() => chat.messages")) == 4
    await driven.until_text("Nile")


async def test_text_that_became_another_one_is_taken_back(driven: DrivenSdk):
    """With the flags of its places; text that only grew is not. A cut between costs nothing."""
    await driven.ask()
    socket = await driven.welcomed()
    id = await socket.accept()
    await socket.delta("Mail [EMAIL_1]", 1)
    await socket.tell("event", g=1, o=2, k="flagged", v=flag("email", p=5, n=9))
    await driven.until("chat.lastMessage.metadata?.flags?.length")
    await socket.tell("snap", g=1, epoch=2, o=3, x="Call")
    await driven.until_text("Call")
    assert (await driven.answer())["metadata"]["flags"] == []
    driven.peer.cut()
    listed = {"id": id, "g": 1, "epoch": 2, "from": 4, "head": 4, "state": "running"}
    socket = await driven.welcomed(requests=[listed], resumed="full")
    await socket.tell("snap", g=1, epoch=2, o=4, x="Call me")
    await driven.until_text("Call me")
    await socket.end("Call me", 5)
    assert await driven.failure() is None
    assert (await driven.answer())["metadata"]["verified"]


async def test_a_refusal_has_its_code_and_the_text_stays(driven: DrivenSdk):
    """And the next turn is an ordinary one."""
    await driven.ask("So long.")
    socket = await driven.welcomed()
    await socket.tell("error", re="send", id=(await socket.hear("send"))["id"], **REFUSED)
    failure = await driven.failure()
    assert (failure["code"], failure["message"], failure["tokens"]) == (
        "too_large",
        "too long",
        REFUSED["tokens"],
    )
    [said] = await driven.shop.get("() => chat.messages")
    assert said["parts"][0]["text"] == "So long."
    await driven.ask("Short.")
    await socket.accept()
    await socket.end("", 1)
    assert await driven.failure() is None


async def test_an_answer_that_was_blocked_is_an_error_that_keeps_its_text(driven: DrivenSdk):
    """A page that knows no finish reasons shows it all the same."""
    await driven.ask()
    socket = await driven.welcomed()
    await socket.accept()
    await socket.delta("It is", 1)
    safety = {"category": "weapons", "scope": "tenant"}
    await socket.end("It is", 2, reason="blocked", code="safety_blocked", safety=safety)
    failure = await driven.failure()
    assert (failure["code"], failure["message"]) == (
        "safety_blocked",
        "a safety policy ended the answer (weapons)",
    )
    await driven.until_text("It is")
    assert (await driven.answer())["metadata"]["safety"] == safety


async def test_who_is_signed_out_is_told_and_may_go_on_later(driven: DrivenSdk):
    """In mid-answer what came stays; the next turn connects anew."""
    await driven.ask()
    socket = await driven.welcomed()
    await socket.accept()
    await socket.delta("It is", 1)
    await driven.until_text("It is")
    await socket.tell("error", code="unauthorized", message="your key was revoked", retry=False)
    await socket.close(4501)
    failure = await driven.failure()
    assert (failure["code"], failure["message"]) == ("unauthorized", "your key was revoked")
    await driven.until_text("It is")
    await driven.ask("Again.")
    socket = await driven.welcomed()
    await socket.accept()
    await socket.delta("Yes.", 1)
    await socket.end("Yes.", 2)
    assert await driven.failure() is None


async def test_a_stopped_answer_is_cancelled_once(driven: DrivenSdk):
    """Before the server accepted it, too. A reader that only another one replaced stops nothing. The next
    turn waits until what was stopped has ended: a stored conversation would be busy."""
    await driven.ask()
    socket = await driven.welcomed()
    early = (await socket.hear("send"))["id"]
    await driven.shop.get("() => chat.stop()")
    assert (await socket.hear("cancel"))["id"] == early
    await socket.tell("error", re="send", id=early, code="internal", message="gone", retry=True)
    await driven.ask()
    late = await socket.accept(g=2)
    await socket.delta("One", 1, g=2)
    await driven.until_text("One")
    await driven.shop.get("() => { void chat.stop(); globalThis.asked = chat.resumeStream(); }")
    await driven.until_text("One")
    await socket.delta(" two", 2, p=3, g=2)
    await driven.until_text("One two")
    assert [frame["id"] for frame in socket.log if frame["t"] == "cancel"] == [early]
    await driven.shop.get("() => chat.stop()")
    assert (await socket.hear("cancel"))["id"] == late
    assert await driven.shop.get("() => sdk.transport.reconnectToStream({ chatId: 'other' })") is None
    await driven.ask("Next.")
    await socket.tell("ping", ts=1)
    await socket.hear("pong")
    assert not [frame for frame in socket.heard if frame["t"] == "send"]
    await socket.end("One two", 3, g=2, reason="cancelled")
    await socket.accept(g=3)


async def test_an_answer_that_nobody_knows_any_more_is_nothing_to_go_on_with(driven: DrivenSdk):
    """Nor is one of somebody else's."""
    socket: Socket | None = None
    for code in ("not_resumable", "forbidden"):
        id = uuid7(now_ms())
        await driven.shop.get("([id]) => sessionStorage.setItem('parley-answer:other', id)", id)
        found = "() => void (globalThis.found = sdk.transport.reconnectToStream({ chatId: 'other' }))"
        await driven.shop.get(found)
        socket = socket or await driven.welcomed()
        await socket.hear("attach")
        await socket.tell("error", re="attach", id=id, code=code, message="none", retry=False)
        assert await driven.shop.get("() => found") is None
        assert await driven.shop.get("() => sessionStorage.getItem('parley-answer:other')") is None


async def test_what_a_page_kept_of_an_answer_is_replaced_by_all_of_it(driven: DrivenSdk):
    """Its message has the request's id, so none is there twice."""
    id = uuid7(now_ms())
    kept = {"role": "assistant", "id": id, "parts": [{"type": "text", "text": "One"}]}
    await driven.start(messages=[kept])
    await driven.shop.get("([id]) => sessionStorage.setItem('parley-answer:other', id)", id)
    await driven.shop.get("() => void (globalThis.asked = chat.resumeStream())")
    socket = await driven.welcomed()
    await socket.hear("attach")
    await socket.tell("attached", g=1, id=id, epoch=1, head=2, state="running", **{"from": 1})
    await socket.delta("One two", 1)
    await socket.end("One two", 2)
    assert await driven.failure() is None
    await driven.until_text("One two")
    assert len(await driven.shop.get("() => chat.messages")) == 1


async def test_what_is_not_read_is_not_acknowledged(driven: DrivenSdk):
    """So that the server waits for a page that is slow; what came meanwhile is then one piece."""
    ask = """() => {
      const trigger = "submit-message", parts = [{ type: "text", text: "Hi" }];
      const messages = [{ id: "1", role: "user", parts }];
      globalThis.stream = sdk.transport.sendMessages({ trigger, chatId: "other", messages });
    }"""
    await driven.shop.get(ask)
    socket = await driven.welcomed()
    await socket.accept()
    reading = "async () => void (globalThis.reader ??= (await stream).getReader())"
    await driven.shop.get(reading)
    await socket.delta("One", 1)
    await socket.delta(" two", 2, p=3)
    await socket.tell("ping", ts=1)
    assert (await socket.hear("pong"))["a"] == []
    read = """async () => {
      for (;;) { const { value } = await reader.read(); if (value.type === "text-delta") return value.delta; }
    }"""
    assert await driven.shop.get(read) == "One two"
    assert (await socket.hear("ack"))["a"] == [[1, 2]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"parts": [{"type": "file", "mediaType": "image/png", "url": "data:,"}]}, "Parley takes text only"),
        ({"text": "Hi", "id": "own", "role": "assistant"}, "the last message must be the user's"),
        ({"parts": [{"type": "text", "text": " \n"}]}, "the message is empty"),
    ],
)
async def test_what_parley_cannot_take_is_refused_by_name(driven: DrivenSdk, given: Frame, said: str):
    """Before anything is sent."""
    if "text" in given:
        given = {"id": "own", "role": "assistant", "parts": [{"type": "text", "text": given["text"]}]}
    await driven.shop.get("([given]) => void (globalThis.asked = chat.sendMessage(given))", given)
    failure = await driven.failure()
    assert failure["code"] == "bad_request"
    assert said in failure["message"]
    assert driven.peer.sockets.empty()


def flag(category: str, p: int, n: int) -> Frame:
    """A placeholder's place."""
    return {"category": category, "action": "redact", "scope": "tenant", "p": p, "n": n}


async def test_each_turn_of_whoever_is_signed_out_says_so(driven: DrivenSdk):
    """The first and the next: none waits for a connection that will not come. Signed in, one goes."""
    await driven.shop.page.route("**/my/ticket", lambda route: route.fulfill(status=401))
    for _ in range(2):
        await driven.ask()
        assert (await driven.failure())["code"] == "unauthorized"
    await driven.shop.page.unroute("**/my/ticket")
    await driven.ask()
    await (await driven.welcomed()).accept()
