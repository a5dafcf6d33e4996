"""Conversations, and what is left of them."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations.store import RecordedAnswer, Turn
from tests.server.http_site import HttpSite, http_site
from tests.support.redis import Redis

SECRET_WORDS = "the-words-nobody-may-read-again"


@pytest.fixture
async def site(database: Database, redis: Redis, settings: Settings) -> AsyncIterator[HttpSite]:
    """A gateway's routes."""
    async with http_site(database, redis, settings) as found:
        yield found


async def conversation(site: HttpSite, request: str | None = None, ended: bool = True) -> str:
    """One with a turn in it, answered if it has ended."""
    now = now_ms()
    turn = Turn(uuid7(now), request or uuid7(now), f"say {SECRET_WORDS}", "tiny", now)
    await site.edge.conversations.open_turn(
        site.tenant, ConversationOwner(site.project, site.key_id, ""), turn
    )
    answer = RecordedAnswer(SECRET_WORDS, "stop", "", {}, {}, 1, 1, 3, now)
    if ended:
        await site.edge.conversations.record(site.tenant, turn.request, answer)
    return turn.conversation


async def rows(database: Database) -> tuple[int, int]:
    """Conversations and messages that the tables hold."""
    async with database.session() as session:
        counts = [
            (await session.connection()).execute(text(f"SELECT count(*) FROM {table}"))
            for table in ("conversation", "message")
        ]
        return tuple([(await count).scalar_one() for count in counts])  # pyright: ignore[reportReturnType]
