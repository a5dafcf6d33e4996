"""Browsers' sessions and the keys behind them, to the millisecond."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import SQLModel

from billing.tables.sessions import BrowserSession
from billing.tables.tenants import ApiKey, Tenant
from billing.tenants import keys, session_ends, sessions
from billing.tenants.keys import KeyState, Principal, authenticate_key, create_key, key_state, rotate_key
from billing.tenants.session_ends import clear_sessions, touch_session
from billing.tenants.sessions import (
    is_own_session,
    is_suspended_token,
    list_sessions,
    open_session,
    principal_of_session,
    principal_of_session_id,
    sessions_of,
)
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from tests.billing.tenants.a_key import a_key

T = 1_800_000_000_000


class SteppedClock:
    """What time it is for keys and sessions."""

    def __init__(self) -> None:
        self.now = T

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    """It stands still unless it is set."""
    made = SteppedClock()
    for module in (keys, sessions, session_ends):
        monkeypatch.setattr(module, "now_ms", made)
    return made


async def who(db: Database, secret: str) -> Principal:
    """Whose key it is."""
    found = await authenticate_key(db, secret)
    assert found is not None
    return found


async def change(db: Database, table: type[SQLModel], **values: Any) -> None:
    """Behind the code's back."""
    async with db.transaction() as session:
        await session.exec(update(table).values(**values))


async def test_sign_ins_at_once_leave_as_many_sessions_as_there_may_be(
    database: Database, settings: Settings
) -> None:
    """Of a user and of a key: each makes room for itself."""
    few = settings.model_copy(update={"sessions_per_user_max": 2, "sessions_per_key_max": 2})
    for user in ("ann", ""):
        key, secret = await a_key(database, f"of {user or 'services'}", user=user)
        principal = await who(database, secret)
        done = await asyncio.gather(*(open_session(database, principal, few, "", "") for _ in range(8)))
        assert len(await list_sessions(database, key.tenant_id)) == 2
        assert sum(len(ended) for _, _, ended in done) == 6


async def test_a_session_lasts_to_its_last_millisecond(
    sqlite: Database, settings: Settings, clock: SteppedClock
) -> None:
    """For whoever comes with it, lists it, uses it or clears it away."""
    key, secret = await a_key(sqlite, user="ann")
    short = settings.model_copy(update={"cookie_seconds": 5})
    row, token, ended = await open_session(
        sqlite, await who(sqlite, secret), short, "1.2.3.4", "a\n" + "b" * 300
    )
    assert (row.ends_ms, row.agent, ended) == (T + 5_000, "a" + "b" * 199, [])
    for late_ms, is_open in ((4_999, True), (5_000, False)):
        clock.now = T + late_ms
        caller = await who(sqlite, secret)
        by_id = await principal_of_session_id(sqlite, key.tenant_id, row.id)
        assert [found is not None for found in (await principal_of_session(sqlite, token), by_id)] == [
            is_open
        ] * 2
        assert by_id is None or by_id.access_ends_ms == T + 5_000
        assert len(await list_sessions(sqlite, key.tenant_id)) == is_open
        assert len(await sessions_of(sqlite, caller)) == is_open
        assert await is_own_session(sqlite, caller, row.id) is is_open
        assert await touch_session(sqlite, key.tenant_id, row.id) is is_open
        assert await clear_sessions(sqlite, clock.now) == (not is_open)
    assert await clear_sessions(sqlite, clock.now) == 0


async def test_a_session_ends_with_its_key(sqlite: Database, settings: Settings, clock: SteppedClock) -> None:
    """Where that is sooner: by what the key said then, and by what it says now."""
    _, secret = await a_key(sqlite, user="ann", expires_ms=T + 3_000)
    row, token, _ = await open_session(sqlite, await who(sqlite, secret), settings, "", "")
    assert row.ends_ms == T + 3_000
    for expires_ms, ends_ms in ((None, T + 3_000), (T + 9_000, T + 3_000), (T + 2_000, T + 2_000)):
        await change(sqlite, ApiKey, expires_ms=expires_ms)
        found = await principal_of_session(sqlite, token)
        assert found is not None
        assert found.access_ends_ms == ends_ms
    clock.now = T + 2_000
    assert await principal_of_session(sqlite, token) is None


async def test_a_browser_is_noted_once_a_minute(
    sqlite: Database, settings: Settings, clock: SteppedClock
) -> None:
    """From when it was noted last."""
    key, secret = await a_key(sqlite, user="ann")
    _, token, _ = await open_session(sqlite, await who(sqlite, secret), settings, "", "")
    for late_ms, seen_ms in ((59_999, 0), (60_000, 60_000), (119_999, 60_000), (120_000, 120_000)):
        clock.now = T + late_ms
        assert await principal_of_session(sqlite, token) is not None
        (row,) = await list_sessions(sqlite, key.tenant_id)
        assert row.seen_ms == T + seen_ms


@pytest.mark.parametrize(("characters", "fits"), [(100, True), (101, False)])
async def test_a_token_of_any_length_is_not_looked_up(
    sqlite: Database, settings: Settings, clock: SteppedClock, characters: int, fits: bool
) -> None:
    """Neither a browser's nor an operator's, nor that of a tenant that is closed."""
    token = "x" * characters
    _, secret = await a_key(sqlite, user="ann")
    await open_session(sqlite, await who(sqlite, secret), settings, "", "")
    await change(sqlite, BrowserSession, token_sha256=sessions._digest(token))
    assert (await principal_of_session(sqlite, token) is not None) is fits
    assert await is_suspended_token(sqlite, token) is False
    await change(sqlite, Tenant, closed_ms=T)
    assert await is_suspended_token(sqlite, token) is fits
    clock.now += settings.cookie_seconds * 1000
    assert await is_suspended_token(sqlite, token) is False
    clock.now = T


async def test_a_key_ends_at_its_millisecond(sqlite: Database, clock: SteppedClock) -> None:
    """For who shows it, counts it, lists it or rotates it; no overlap makes it last longer."""
    with pytest.raises(Refused, match="expired already"):
        await a_key(sqlite, "globex", expires_ms=T)
    key, secret = await a_key(sqlite, expires_ms=T + 5_000, keys_max=1)
    tenant = key.tenant_id
    clock.now = T + 4_999
    assert (await who(sqlite, secret)).access_ends_ms == T + 5_000
    assert key_state(key, {}, clock.now) is KeyState.ACTIVE
    with pytest.raises(Refused, match="has 1 keys"):
        await create_key(sqlite, tenant, key.project_id, keys_max=1)
    clock.now = T + 5_000
    assert await authenticate_key(sqlite, secret) is None
    assert key_state(key, {}, clock.now) is KeyState.EXPIRED
    with pytest.raises(Refused, match="has expired"):
        await rotate_key(sqlite, tenant, key.id, 1)
    first, _ = await create_key(sqlite, tenant, key.project_id, keys_max=1)
    other = first
    for expires_ms, overlap_seconds, until_ms in ((None, 2, 2_000), (3_000, 2, 2_000), (1_000, 2, 1_000)):
        await change(sqlite, ApiKey, expires_ms=None if expires_ms is None else clock.now + expires_ms)
        new, _ = await rotate_key(sqlite, tenant, other.id, overlap_seconds)
        (old,) = [each for each in await keys.list_keys(sqlite, tenant) if each.id == other.id]
        assert old.expires_ms == clock.now + until_ms
        assert (new.owner_key, new.rotated_from) == (first.id, other.id)
        other = new
