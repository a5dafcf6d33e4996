"""The Python client's calls for stored conversations, at a gateway and at what is none."""

import asyncio
from collections.abc import Iterable
from itertools import count

import pytest

from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from parley_client import Conversations, ProtocolError, StoredConversation
from parley_client.causes import PAGE
from parley_client.conversations import PAGES_MAX, ConversationPage
from server.access.authorization import ConversationOwner
from server.conversations.store import PAGE_ROWS, ConversationStore, RecordedAnswer, Turn
from tests.server.site import Site, running_site
from tests.support.other_site import other_site
from tests.support.ports import free_ports
from tests.support.redis import Redis


async def stored(site: Site, number: int, turns: int = 1) -> list[str]:
    """The key's conversations, the newest first."""
    store, owner = ConversationStore(site.database), ConversationOwner(site.project, site.key_id, "")
    made = list[str]()
    for at in range(number):
        made.append(uuid7(now_ms()))
        for turn in range(turns):
            request = uuid7(now_ms())
            what = Turn(made[-1], request, f"question {turn}", "tiny", 1_000 + at, system="be kind")
            await store.open_turn(site.tenant, owner, what)
            end = RecordedAnswer("hi", "stop", "", {"total": 2}, {}, 7, 1, 3, 1_500)
            await store.record(site.tenant, request, end)
    return made[::-1]


async def refused(chats: Conversations) -> ProtocolError:
    """How a list is refused."""
    with pytest.raises(ProtocolError) as found:
        await chats.list()
    return found.value


async def test_they_are_listed_renamed_and_deleted(sqlite: Database, redis: Redis, settings: Settings):
    """Page by page; what is deleted is unknown."""
    async with running_site(settings, sqlite, redis) as site:
        ids = await stored(site, PAGE_ROWS + 2)
        chats = Conversations(site.url + "/", site.key)
        first = await chats.list()
        assert ([each.id for each in first.conversations], first.cursor is None) == (ids[:PAGE_ROWS], False)
        assert [each.id async for each in chats.all()] == ids
        await chats.rename(ids[0], "of rivers")
        await chats.delete(ids[1])
        [newest, *_] = (await chats.list()).conversations
        assert newest == StoredConversation(ids[0], "of rivers", newest.updated_ms, False)
        for unknown in (ids[1], "no id"):
            with pytest.raises(ProtocolError) as gone:
                await chats.rename(unknown, "x")
            assert gone.value.code == "unknown_conversation"
        for title in ("", "\u200b"):
            with pytest.raises(ProtocolError) as wrong:
                await chats.rename(ids[0], title)
            assert wrong.value.code == "bad_request"


async def test_messages_come_oldest_first(sqlite: Database, redis: Redis, settings: Settings):
    """Page by page, with the conversation's system prompt."""
    async with running_site(settings, sqlite, redis) as site:
        [id] = await stored(site, 1, turns=PAGE_ROWS // 2 + 1)
        chats = Conversations(site.url, site.key)
        page = await chats.messages(id)
        assert (len(page.messages), page.system, page.cursor is None) == (PAGE_ROWS, "be kind", False)
        every = [each async for each in chats.all_messages(id)]
        assert [(each.role, each.content) for each in every[-2:]] == [
            ("user", f"question {PAGE_ROWS // 2}"),
            ("assistant", "hi"),
        ]
        assert (every[1].reason, every[1].cost) == ("stop", {"nano": 7, "currency": "usd"})


async def test_a_pass_that_is_over_is_replaced_once(sqlite: Database, redis: Redis, settings: Settings):
    """The function is asked again where the gateway refuses what it gave before; a key is not."""
    async with running_site(settings, sqlite, redis) as site:
        given, asked = [site.key, "pk_wrong", site.key], list[str]()

        async def token() -> str:
            asked.append(given[len(asked)])
            return asked[-1]

        chats = Conversations(site.url, token)
        for _ in range(2):
            await chats.list()
        chats._kept = ("", "pk_over")
        assert (await refused(chats)).code == "unauthorized"
        await chats.list()
        assert len(asked) == 3
        assert (await refused(Conversations(site.url, "pk_wrong"))).code == "unauthorized"


async def test_what_is_no_gateway_is_named():
    """A proxy that fails, one that leads elsewhere, nobody, and a function that gives a web page."""
    [dead] = free_ports(1)

    async def page() -> str:
        return "<html>"

    async with other_site() as url:
        broken = await refused(Conversations(f"{url}/broken", "key"))
        moved = await refused(Conversations(f"{url}/moved", "key"))
        away = await refused(Conversations(f"http://127.0.0.1:{dead}", "key"))
        no_token = await refused(Conversations(url, page))
    assert (broken.code, broken.retry, PAGE in broken.message) == ("bad_reply", True, True)
    assert (moved.code, moved.retry) == ("bad_reply", False)
    assert (away.code, away.retry) == ("unreachable", True)
    assert (no_token.code, "a web page" in no_token.message) == ("no_token", True)


async def test_a_pass_is_one_users(sqlite: Database, redis: Redis, settings: Settings):
    """Where another user comes, theirs is asked for; a list that was begun for the one before is not
    continued, and a reply that comes too late is nobody's."""
    async with running_site(settings, sqlite, redis) as site:
        await stored(site, PAGE_ROWS + 1)
        now, asked, third = ["ann"], list[str](), asyncio.Event()

        async def token() -> str:
            asked.append(now[0])
            if len(asked) == 3:
                third.set()
            return site.key

        chats = Conversations(site.url, token, lambda: now[0])
        await chats.list()
        now[0] = "bob"
        await chats.list()
        await chats.list()
        assert asked == ["ann", "bob"]
        begun = chats.all()
        seen = [await anext(begun) for _ in range(PAGE_ROWS)]
        now[0] = "ann"
        with pytest.raises(ProtocolError) as changed:
            seen.append(await anext(begun))
        assert changed.value.code == "user_changed"
        late = asyncio.create_task(chats.list())
        await third.wait()
        now[0] = "bob"
        with pytest.raises(ProtocolError) as changed:
            await late
        assert changed.value.code == "user_changed"


@pytest.mark.parametrize(("cursors", "pages"), [(["1", "1"], 2), (map(str, count()), PAGES_MAX + 1)])
async def test_a_list_without_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, cursors: Iterable[str], pages: int
):
    """Where a cursor comes again, or always another one."""
    given, read = iter(cursors), list[str | None]()
    chats = Conversations("http://127.0.0.1:1", "key")

    async def page(cursor: str | None = None) -> ConversationPage:
        read.append(cursor)
        return ConversationPage([], next(given))

    monkeypatch.setattr(chats, "list", page)
    with pytest.raises(ProtocolError) as endless:
        _ = [each async for each in chats.all()]
    assert (endless.value.code, len(read)) == ("bad_reply", pages)
