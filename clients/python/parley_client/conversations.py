"""A user's stored conversations, over HTTP beside the socket (docs/protocol.md, "HTTP beside the socket").

chats = Conversations("https://chat.example.com", key)
async for chat in chats.all():
    print(chat.title)
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from http.client import HTTPException
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from parley_client.answer import ProtocolError
from parley_client.causes import first_words, is_loopback, no_token
from parley_client.link import TOKEN_SECONDS_MAX, Key, fresh_token

REPLY_SECONDS_MAX = 30.0
Found = TypeVar("Found")


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
    one; what it gave is kept until the gateway refuses it. Calls raise ProtocolError."""

    def __init__(self, url: str, key: Key) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._token: str | None = None
        proxies = {} if is_loopback(url) else None
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies), _NoRedirects)

    async def list(self, cursor: str | None = None) -> ConversationPage:
        """A page of them; `cursor`: of the page before."""
        return await self._call(ConversationPage, "GET", _query("/v1/conversations", cursor))

    async def all(self) -> AsyncIterator[StoredConversation]:
        """All of them, page by page."""
        page = await self.list()
        while True:
            for conversation in page.conversations:
                yield conversation
            if page.cursor is None:
                return
            page = await self.list(page.cursor)

    async def messages(self, id: str, cursor: str | None = None) -> MessagePage:
        """A page of one's messages; `cursor`: of the page before."""
        return await self._call(MessagePage, "GET", _query(f"{_path(id)}/messages", cursor))

    async def all_messages(self, id: str) -> AsyncIterator[StoredMessage]:
        """All messages of one, page by page."""
        page = await self.messages(id)
        while True:
            for message in page.messages:
                yield message
            if page.cursor is None:
                return
            page = await self.messages(id, page.cursor)

    async def rename(self, id: str, title: str) -> None:
        """Give one another title, of 1 to 80 characters."""
        await self._call(dict[str, Any], "PATCH", _path(id), {"title": title})

    async def delete(self, id: str) -> None:
        """Delete one: from then on nobody can read it, and soon its texts are erased."""
        await self._call(dict[str, Any], "DELETE", _path(id))

    async def _call(
        self, kind: type[Found], method: str, path: str, body: dict[str, Any] | None = None
    ) -> Found:
        kept = self._token
        try:
            return await self._once(kind, method, path, body)
        except ProtocolError as error:
            if kept is None or error.code != "unauthorized" or isinstance(self._key, str):
                raise
        self._token = None  # the pass is over: once more with a fresh one
        return await self._once(kind, method, path, body)

    async def _once(self, kind: type[Found], method: str, path: str, body: dict[str, Any] | None) -> Found:
        if self._token is None:
            self._token = await self._fresh_token()
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
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
