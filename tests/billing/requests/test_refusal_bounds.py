"""What bounds the counts of refusals, each just on either side: rows, entries, minutes, pages."""

from typing import Any

import msgspec
import pytest

from billing.requests import refusal_views
from billing.requests.find import RequestCursor, cursor_of
from billing.requests.held_requests import CountedIn, counted_in
from billing.requests.refusal_counter import RefusalCounter
from billing.requests.refusal_counts import (
    EVERYBODY,
    OTHERS,
    RefusalCount,
    RefusalKey,
    bounded,
    summed_to_fit,
)
from billing.requests.refusal_stream import (
    RefusalRow,
    RefusalTally,
    encode,
    entries_after,
    forget,
    rows_of,
    storable_counts,
    stream_key,
    unchecked_users,
)
from billing.requests.refusal_views import (
    RefusalCursor,
    RefusalMatch,
    RefusalSearch,
    find_refusals,
    refusals_of,
)
from billing.tables.refusals import RefusalMinute
from billing.tenants.tenancy import create_tenant
from core.configuration.settings import Settings
from core.errors import Refused as RefusedError
from core.ids import uuid7
from core.redis.unreadable import Unreadable
from core.sql.database import Database
from tests.support.redis import Redis

MINUTE_MS = 60_000
NOW = 1_790_812_800_000
GOOD = ["a", NOW, "k", "u", "c", 1]


def test_a_minute_names_twenty_and_thirty_codes() -> None:
    """Those of most refusals; what is left is the others', and then the other codes'."""
    flood = {RefusalKey("a", 0, "k", f"u{n:02}", "c"): RefusalCount(n) for n in range(1, 22)}
    assert {of.user: each.number for of, each in bounded(flood).items()} == {
        **{f"u{n:02}": n for n in range(2, 22)},
        OTHERS: 1,
    }
    codes = {RefusalKey("a", 0, OTHERS, OTHERS, f"c{n:02}"): RefusalCount(n) for n in range(1, 32)}
    assert {of.code: each.number for of, each in bounded(codes).items()} == {
        **{f"c{n:02}": n for n in range(2, 32)},
        "other": 1,
    }


def test_rows_are_squeezed_step_by_step() -> None:
    """As far as it has to be: who, which tenant, which minute, which code."""
    fine = {
        RefusalKey(tenant, minute, "k", f"u{n}", code): RefusalCount(1)
        for tenant in "ab"
        for minute in (0, MINUTE_MS)
        for n in range(5)
        for code in "cd"
    }
    assert summed_to_fit(fine, 40) == fine
    assert len(summed_to_fit(fine, 39)) == 2 * 2 * (3 + 2), (
        "three of each minute, and the others of two codes"
    )
    assert len(summed_to_fit(fine, 19)) == 2 * 2 * 2
    no_tenants = summed_to_fit(fine, 7)
    assert {(of.tenant, of.minute_ms, of.code) for of in no_tenants} == {
        (EVERYBODY, minute, code) for minute in (0, MINUTE_MS) for code in "cd"
    }
    assert {(of.minute_ms, of.code) for of in summed_to_fit(fine, 3)} == {(MINUTE_MS, "c"), (MINUTE_MS, "d")}
    assert summed_to_fit(fine, 1) == {
        RefusalKey(EVERYBODY, MINUTE_MS, OTHERS, OTHERS, "other"): RefusalCount(40)
    }


@pytest.mark.parametrize(
    ("row", "is_read"),
    [
        (["a", 0, "", "", "c", 1], True),
        (["a" * 200, 1 << 52, "k" * 200, "u" * 200, "c" * 40, 1_000_000_000], True),
        ([*GOOD, "w" * 100, ["x" * 36] * 10], True),
        (["a", (1 << 52) + 1, "k", "u", "c", 1], False),
        (["a", NOW, "k", "u", "c", 1_000_000_001], False),
        (["a", NOW, "k", "u", "c" * 41, 1], False),
        ([*GOOD, "w" * 101], False),
    ],
)
def test_a_row_is_read_as_far_as_gateways_write_them(row: list[object], is_read: bool) -> None:
    """At each of its bounds."""
    assert isinstance(rows_of(msgspec.msgpack.encode([row])), list) is is_read


def test_an_entry_is_of_a_thousand_rows_and_a_mebibyte() -> None:
    """What is longer is not even looked at; a row that says little more is what it does not say."""
    assert (
        rows_of(msgspec.msgpack.encode([GOOD] * 1_000))
        == [RefusalRow("a", NOW, "k", "u", "c", 1, "", [])] * 1_000
    )
    assert isinstance(rows_of(msgspec.msgpack.encode([GOOD] * 1_001)), Unreadable)
    for size, too_long in ((1 << 20, False), ((1 << 20) + 1, True)):
        assert ("too long" in str(rows_of(b"\xc1" * size))) is too_long


def test_a_minute_is_believed_about_now() -> None:
    """Three hours late, two minutes early; else it is now."""
    minutes = [
        NOW - 181 * MINUTE_MS,
        NOW - 180 * MINUTE_MS,
        NOW + 2 * MINUTE_MS + 59_999,
        NOW + 3 * MINUTE_MS,
    ]
    found = [
        next(iter(storable_counts([RefusalRow("a", minute, "k", "", "c", 1)], {"a"}, set(), NOW + 1)))
        for minute in minutes
    ]
    assert [of.minute_ms for of in found] == [NOW, NOW, NOW + 2 * MINUTE_MS, NOW]
    late = storable_counts([RefusalRow("a", NOW - 180 * MINUTE_MS, "k", "", "c", 1)], {"a"}, set(), NOW)
    assert [of.minute_ms for of in late] == [NOW - 180 * MINUTE_MS]


def test_users_whose_ids_may_be_names_are_looked_up() -> None:
    """Not those that say nothing, nor nobody."""
    rows = [
        RefusalRow("a", NOW, "k", user, "c", 1)
        for user in ("", OTHERS, "u_" + "0" * 32, "ann", "u_" + "0" * 33)
    ]
    assert unchecked_users(rows) == {"a": {"ann", "u_" + "0" * 33}}


async def test_what_is_not_told_yet_is_bounded(redis: Redis, settings: Settings) -> None:
    """Two thousand rows; each of the minute when it was, with an id where it has one."""
    tally = RefusalTally(redis, settings.installation)
    for n in range(1_999):
        tally.add((f"t{n}", "k", "u" * 200), "overloaded", "", "", NOW + 59_999)
    assert tally.rows == 1_999
    tally.add(("t", "k", ""), "overloaded", "", "", NOW)
    assert tally.rows <= 1_000
    other = RefusalTally(redis, settings.installation)
    other.add(("a", "k", "u" * 200), "overloaded", "", "", NOW + 59_999)
    await other.tell()
    [(_, data)] = await entries_after(redis, settings.installation, (0, 0))
    assert rows_of(data) == [RefusalRow("a", NOW, "k", "u" * 200, "overloaded", 1, "", [])]


async def test_entries_are_read_once_and_so_many_at_once(redis: Redis, settings: Settings) -> None:
    """Those behind the last one that was counted, where nobody dropped that, too; only those are dropped."""
    client: Any = redis
    key = stream_key(settings.installation)
    assert await entries_after(redis, settings.installation, (0, 0)) == []
    for n in range(17):
        await client.xadd(
            key, {"c": encode({RefusalKey("a", NOW, "k", "", "c"): RefusalCount(1)})}, id=f"5-{n}"
        )
    first = [id for id, _ in await entries_after(redis, settings.installation, (0, 0))]
    assert first == [(5, n) for n in range(16)]
    assert [id for id, _ in await entries_after(redis, settings.installation, (5, 14))] == [(5, 15), (5, 16)]
    assert await entries_after(redis, settings.installation, (5, 16)) == []
    assert len(await entries_after(redis, settings.installation, (5, 17))) == 16, "a new stream"
    await forget(redis, settings.installation, (5, 15))
    assert [id for id, _ in await client.xrange(key)] == [b"5-16"]


async def store(database: Database, *rows: RefusalMinute) -> None:
    """As they are."""
    async with database.transaction() as session:
        session.add_all(rows)


def minute(at: int, tenant: str = "a", ids: list[str] | None = None, **facts: Any) -> RefusalMinute:
    """A row of a minute."""
    of: dict[str, Any] = {
        "key_id": "k",
        "user_id": "u",
        "code": "c",
        "number": 1,
        "why": "",
        "last_ids": ids or [],
    } | facts
    return RefusalMinute(tenant_id=tenant, minute_ms=at, **of)


async def test_minutes_go_when_they_are_older_than_they_are_kept(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """To the minute; and where nothing was refused, nothing is counted."""
    counter = RefusalCounter(sqlite, redis, settings)
    assert await counter.step(NOW) == 0
    kept_ms = settings.refusals_kept_days * 86_400_000
    await store(sqlite, minute(NOW - kept_ms - MINUTE_MS), minute(NOW - kept_ms), minute(NOW))
    await counter.clear(NOW)
    found = (await find_refusals(sqlite, RefusalSearch(since_ms=0, until_ms=NOW + 1))).found
    assert [each.minute_ms for each in found] == [NOW, NOW - kept_ms]


async def test_who_has_no_row_any_more_is_counted_with_the_others(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """Of that minute alone: all other rows stay."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    named = [minute(NOW, tenant, key_id=f"k{n:02}", user_id="", number=n) for n in range(1, 21)]
    before = minute(NOW - MINUTE_MS, tenant, key_id="other", user_id="u2", code="d")
    nobodys = minute(NOW - MINUTE_MS, "t2", key_id="other", user_id="u2", code="d")
    await store(sqlite, *named, before, nobodys)
    client: Any = redis
    entry = encode({RefusalKey(tenant, NOW, "new", "", "c"): RefusalCount(9)})
    await client.xadd(stream_key(settings.installation), {"c": entry})
    assert await RefusalCounter(sqlite, redis, settings).step(NOW) == 9
    found = (await find_refusals(sqlite, RefusalSearch(since_ms=0, until_ms=NOW + 1))).found
    assert {(each.tenant, each.key, each.number) for each in found} == {
        *((tenant, f"k{n:02}", n) for n in range(2, 21)),
        *((tenant, "new", 9), (tenant, "", 1), (tenant, "other", 1), ("t2", "other", 1)),
    }


async def test_pages_of_refusals_end_where_nothing_is_left(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is full, or a statement looked at all that it may: there is a next one. Else there is none."""
    assert (refusal_views.LOOKED_MAX, refusal_views.FOUND_MAX) == (20_000, 1_000)
    await store(sqlite, *(minute(NOW + n * MINUTE_MS, code="d" if n % 2 else "c") for n in range(4)))

    async def page(looked_max: int, limit: int, after: RefusalCursor | None = None, **of: Any) -> list[Any]:
        monkeypatch.setattr(refusal_views, "LOOKED_MAX", looked_max)
        sought = RefusalSearch(since_ms=NOW, until_ms=NOW + 3 * MINUTE_MS, limit=limit, after=after, **of)
        found = await find_refusals(sqlite, sought)
        last = found.next and (found.next.minute_ms - NOW) // MINUTE_MS
        return [*((each.minute_ms - NOW) // MINUTE_MS for each in found.found), f"next {last}"]

    assert await page(9, 3) == [2, 1, 0, "next None"]
    assert await page(9, 2) == [2, 1, "next 1"]
    assert await page(9, 2, RefusalCursor(NOW + MINUTE_MS, "a", "k", "u", "d")) == [0, "next None"]
    assert await page(3, 3) == [2, 1, 0, "next 0"]
    assert await page(4, 3) == [2, 1, 0, "next None"]
    assert await page(2, 3, code="c") == [2, "next 1"]
    assert await page(9, 1, code="d") == [1, "next None"]


async def test_a_request_is_looked_for_around_the_time_of_its_id(sqlite: Database) -> None:
    """Ten minutes before it was made, by a clock that is off, and an hour after it."""
    id = uuid7(NOW)
    at = (-11, -10, 59, 60)
    await store(sqlite, *(minute(NOW + n * MINUTE_MS, ids=[id]) for n in at), minute(NOW, ids=[uuid7(NOW)]))
    found = [(each.minute_ms - NOW) // MINUTE_MS for each in await refusals_of(sqlite, id, "a")]
    assert found == [59, -10]
    assert await refusals_of(sqlite, id, "b") == await refusals_of(sqlite, "what I said", None) == []
    early = uuid7(5 * MINUTE_MS)
    await store(sqlite, minute(0, ids=[early]))
    assert [each.minute_ms for each in await refusals_of(sqlite, early, None)] == [0]


async def test_what_is_of_others_says_so(sqlite: Database) -> None:
    """Nobody's key, nobody's user; and no tenant where not even that is told apart."""
    others: dict[str, Any] = {"key_id": OTHERS, "user_id": OTHERS}
    await store(sqlite, minute(0, "a"), minute(1, "a", **others), minute(2, EVERYBODY, why="w", **others))
    found = (await find_refusals(sqlite, RefusalSearch(since_ms=0, until_ms=9))).found
    assert found == [
        RefusalMatch(2, "", "", "", "", "", "c", 1, "w", [], True),
        RefusalMatch(1, "a", "a", "", "", "", "c", 1, "", [], True),
        RefusalMatch(0, "a", "a", "u", "u", "k", "c", 1, "", [], False),
    ]


def test_a_place_to_go_on_from_is_no_other_pages() -> None:
    """Its times are some that there are; and it has no fact more."""
    for cursor in (RequestCursor(0, "a", "r"), RequestCursor(253_370_764_800_000, "a", "r")):
        assert cursor_of(cursor.text()) == cursor
    whole = RefusalCursor(7, "a", "k", "u", "c")
    assert refusal_views.refusal_cursor_of(whole.text()) == whole
    for wrong in ([7, "a", "k", "u", "c", "more"], [-1, "a", "k", "u", "c"], [7, "a", "k", "u", "c\x00"]):
        with pytest.raises(RefusedError, match="no place to go on from"):
            refusal_views.refusal_cursor_of(refusal_views.packed(wrong))  # pyright: ignore[reportArgumentType]


def test_what_a_request_counts_in_is_read_of_its_record() -> None:
    """Money first; names as they were before they were escaped, `~` where nothing is refused."""
    rates = [["rate:user:u%3A1:m%20x:requests_per_minute", 1], ["rate~:key:k:*:tokens_per_minute", 1]]
    packed = msgspec.msgpack.encode(
        [rates, [["conc:tenant::*:requests"]], [["money~:project:p:month", 5]], 1]
    )
    assert counted_in(packed) == [
        CountedIn("money", "project", "p", "month", True),
        CountedIn("rate", "user", "u:1", "m x requests_per_minute", False),
        CountedIn("rate", "key", "k", "tokens_per_minute", True),
        CountedIn("conc", "tenant", "", "requests", False),
    ]
