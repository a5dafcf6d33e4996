"""A user's stored conversations, over HTTP beside the socket (docs/protocol.md, "HTTP beside the socket").

chats = Conversations("https://chat.example.com", key)
async for chat in chats.all():
    print(chat.title)
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from http.client import HTTPException
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from parley_client.answer import ProtocolError
from parley_client.causes import first_words, is_loopback, no_token
from parley_client.link import TOKEN_SECONDS_MAX, Key, fresh_token

REPLY_SECONDS_MAX = 30.0
PAGES_MAX = 1_000  # of one list; a gateway's pages hold 50
ENDLESS = "the list has no end: who answers is no gateway"
USER_CHANGED = "another user came while this was asked for"
Found = TypeVar("Found")
Page = TypeVar("Page", "ConversationPage", "MessagePage")


class StoredConversation(msgspec.Struct, frozen=True):
    """One conversation. `updated_ms`: when it was last used, Unix ms."""

    id: str
    title: str
    updated_ms: int
    running: bool


class StoredMessage(msgspec.Struct, frozen=True):
    """One message. Of a running answer `Client.attach(request_id)` reads the text. The fields from `reason`
    on are an answer's; docs/protocol.md has those of `flags`, `safety`, `usage` and `cost`."""

    id: str
    role: Literal["user", "assistant"]
    content: str
    status: Literal["running", "ended"]
    request_id: str
    created_ms: int
    reason: str = ""
    code: str = ""
    model: str = ""
    flags: list[dict[str, Any]] = []
    safety: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    cost: dict[str, Any] | None = None


class ConversationPage(msgspec.Struct, frozen=True):
    """Conversations, the last used first, and where the next page begins; None: there is none."""

    conversations: list[StoredConversation]
    cursor: str | None = None


class MessagePage(msgspec.Struct, frozen=True):
    """Messages of a conversation, oldest first, where the next page begins, and its system prompt."""

    messages: list[StoredMessage]
    cursor: str | None = None
    system: str = ""


class Conversations:
    """The conversations of a key, or of a user by a history pass. `key`: one of them, or a function that gets
    one; what it gave is kept until the gateway refuses it. `user`: a function that says who is asked for now,
    where that changes: the pass of another one is dropped. Calls raise ProtocolError."""

    def __init__(self, url: str, key: Key, user: Callable[[], str] = lambda: "") -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._user = user
        self._kept: tuple[str, str] | None = None
        proxies = {} if is_loopback(url) else None
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies), _NoRedirects)

    async def list(self, cursor: str | None = None) -> ConversationPage:
        """A page of them; `cursor`: of the page before."""
        return await self._read(ConversationPage, _query("/v1/conversations", cursor))

    async def all(self) -> AsyncIterator[StoredConversation]:
        """All of them, page by page."""
        async for page in self._pages(self.list):
            for conversation in page.conversations:
                yield conversation

    async def messages(self, id: str, cursor: str | None = None) -> MessagePage:
        """A page of one's messages; `cursor`: of the page before."""
        return await self._read(MessagePage, _query(f"{_path(id)}/messages", cursor))

    async def all_messages(self, id: str) -> AsyncIterator[StoredMessage]:
        """All messages of one, page by page."""
        async for page in self._pages(lambda cursor: self.messages(id, cursor)):
            for message in page.messages:
                yield message

    async def rename(self, id: str, title: str) -> None:
        """Give one another title, of 1 to 80 characters."""
        await self._call(dict[str, Any], "PATCH", _path(id), {"title": title})

    async def delete(self, id: str) -> None:
        """Delete one: from then on nobody can read it, and soon its texts are erased."""
        await self._call(dict[str, Any], "DELETE", _path(id))

    async def _pages(self, read: Callable[[str | None], Awaitable[Page]]) -> AsyncIterator[Page]:
        """Each page of one list, for one user."""
        user, asked = self._user(), set[str]()
        page = await read(None)
        while True:
            yield page
            if page.cursor is None:
                return
            if page.cursor in asked or len(asked) == PAGES_MAX:
                raise ProtocolError({"code": "bad_reply", "message": ENDLESS})
            asked.add(page.cursor)
            self._expect(user)
            page = await read(page.cursor)

    async def _read(self, kind: type[Found], path: str) -> Found:
        user = self._user()
        found = await self._call(kind, "GET", path)
        self._expect(user)
        return found

    def _expect(self, user: str) -> None:
        """Raises ProtocolError where another user came: what was asked for is not theirs."""
        if self._user() != user:
            raise ProtocolError({"code": "user_changed", "message": USER_CHANGED})

    async def _call(
        self, kind: type[Found], method: str, path: str, body: dict[str, Any] | None = None
    ) -> Found:
        user = self._user()
        kept = self._kept is not None and self._kept[0] == user
        try:
            return await self._once(user, kind, method, path, body)
        except ProtocolError as error:
            if not kept or error.code != "unauthorized" or isinstance(self._key, str):
                raise
        self._kept = None  # the pass is over: once more with a fresh one
        return await self._once(user, kind, method, path, body)

    async def _token(self, user: str) -> str:
        if self._kept is not None and self._kept[0] == user:
            return self._kept[1]
        token = await self._fresh_token()
        self._expect(user)
        self._kept = (user, token)
        return token

    async def _once(
        self, user: str, kind: type[Found], method: str, path: str, body: dict[str, Any] | None
    ) -> Found:
        headers = {"authorization": f"Bearer {await self._token(user)}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        status, said = await asyncio.to_thread(self._open, request)
        return _read(kind, status, said)

    async def _fresh_token(self) -> str:
        if isinstance(self._key, str):
            return self._key
        try:
            async with asyncio.timeout(TOKEN_SECONDS_MAX):
                return await fresh_token(self._key)
        except Exception as error:
            raise ProtocolError(
                {"code": "no_token", "message": no_token(error, TOKEN_SECONDS_MAX), "retry": True}
            ) from error

    def _open(self, request: urllib.request.Request) -> tuple[int, bytes]:
        """Status and body of the reply. In a thread."""
        try:
            with self._opener.open(request, timeout=REPLY_SECONDS_MAX) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read()
        except (OSError, HTTPException) as error:
            problem = f"no answer from {request.full_url}: {error}"
            raise ProtocolError({"code": "unreachable", "message": problem, "retry": True}) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The gateway sends none; whoever does is not it, and gets no token."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        """See HTTPRedirectHandler: what is returned is asked next."""
        return None


def _read(kind: type[Found], status: int, said: bytes) -> Found:
    try:
        if status < 300:
            return msgspec.json.decode(said, type=kind)
        error: dict[str, Any] = msgspec.json.decode(said, type=dict[str, Any])["error"]
        raise ProtocolError({"code": str(error["code"]), "message": str(error["message"])} | error)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError):
        problem = f"HTTP {status}, and no reply of Parley: {first_words(said)}"
        raise ProtocolError({"code": "bad_reply", "message": problem, "retry": status >= 500}) from None


def _path(id: str) -> str:
    return f"/v1/conversations/{quote(id, safe='')}"


def _query(path: str, cursor: str | None) -> str:
    return path if cursor is None else f"{path}?cursor={quote(cursor, safe='')}"
