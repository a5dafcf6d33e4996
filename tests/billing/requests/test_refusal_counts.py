"""What gateways refuse is counted in a bounded number of rows, and every refusal is in one of them."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from billing.requests import refusal_stream
from billing.requests.refusal_counter import RefusalCounter
from billing.requests.refusal_counts import (
    CODES_MAX,
    IDS_KEPT,
    MINUTE_MS,
    NAMED_MAX,
    OTHER_CODE,
    OTHERS,
    Counts,
    RefusalCount,
    RefusalKey,
    add,
    bounded,
    summed,
    summed_to_fit,
    total,
)
from billing.requests.refusal_stream import (
    ENTRIES_MAX,
    ROWS_MAX,
    RefusalRow,
    RefusalTally,
    entries_after,
    rows_of,
    storable_counts,
    stream_key,
)
from billing.requests.refusal_views import RefusalSearch, find_refusals, refusal_cursor_of, refusals_of
from billing.tables.refusals import RefusalMinute
from billing.tables.tenants import TenantUser
from billing.tenants.erasure import erase_user
from billing.tenants.tenancy import create_tenant
from billing.tenants.users import close_user, create_user
from core.cli import parley as cli
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.unreadable import Unreadable
from core.sql.database import Database
from tests.billing.cli.commands import rows as json_lines
from tests.support.redis import Redis

NOW = 1_790_812_800_000
ALWAYS: dict[str, Any] = {"since_ms": 0, "until_ms": 4_000_000_000_000}
ID = uuid7(NOW)

texts = st.sampled_from([f"n{number}" for number in range(60)])
keys = st.builds(
    RefusalKey,
    tenant=st.sampled_from(["a", "b", "c"]),
    minute_ms=st.integers(0, 3).map(lambda number: number * MINUTE_MS),
    key=texts,
    user=texts,
    code=st.sampled_from([f"code_{number}" for number in range(CODES_MAX + 5)]),
)
counts = st.dictionaries(keys, st.integers(1, 1_000).map(RefusalCount), max_size=120)


def by(counts: Counts, *names: str) -> Counter[tuple[object, ...]]:
    """Sums by some of the words."""
    found = Counter[tuple[object, ...]]()
    for of, count in counts.items():
        found[tuple(getattr(of, name) for name in names)] += count.number
    return found


@given(st.lists(counts, max_size=4))
def test_however_they_are_folded_each_minutes_sum_stays_and_rows_are_bounded(each: list[Counts]) -> None:
    """Step by step as a counter does, or at once; what has a row of its own never has less than one of the
    others' would."""
    stored: Counts = {}
    for one in each:
        stored = bounded(summed(stored, one))
    whole = summed(*each)
    assert by(stored, "tenant", "minute_ms") == by(whole, "tenant", "minute_ms")
    kept = by(stored, "tenant", "minute_ms", "code")
    for name, number in by(whole, "tenant", "minute_ms", "code").items():
        assert kept[name] <= number  # what is missing is under OTHER_CODE
    for tenant, minute in {(of.tenant, of.minute_ms) for of in stored}:
        rows = [of for of in stored if (of.tenant, of.minute_ms) == (tenant, minute)]
        assert sum(of.named for of in rows) <= NAMED_MAX
        assert sum(not of.named for of in rows) <= CODES_MAX + 1


@given(counts, st.integers(1, 60))
def test_memory_is_bounded_and_loses_nothing(found: Counts, rows_max: int) -> None:
    """However few rows there may be."""
    after = summed_to_fit(found, rows_max)
    assert len(after) <= max(1, rows_max)
    assert total(after) == total(found)


def test_who_is_refused_most_has_a_row() -> None:
    """And the last ids are kept, of everyone."""
    flood = {
        RefusalKey("a", 0, "k", f"u{number}", "rate_limited"): RefusalCount(1, "", (f"i{number}",))
        for number in range(10_000)
    }
    flood[RefusalKey("a", 0, "k", "loud", "rate_limited")] = RefusalCount(
        500, "user requests_per_minute", ("x", "y")
    )
    after = bounded(flood)
    assert after[RefusalKey("a", 0, "k", "loud", "rate_limited")].number == 500
    assert len(after) == NAMED_MAX + 1
    others = after[RefusalKey("a", 0, OTHERS, OTHERS, "rate_limited")]
    assert (others.number, len(others.ids)) == (10_000 - (NAMED_MAX - 1), IDS_KEPT)
    assert set(by({of._replace(code=OTHER_CODE): count for of, count in after.items()}, "code")) == {
        ("other",)
    }


def test_codes_beyond_the_last_that_has_a_row_are_one() -> None:
    """Each of them counts, the first of them too."""
    counts = {
        RefusalKey("t", 0, OTHERS, OTHERS, f"code_{n}"): RefusalCount(n + 1) for n in range(CODES_MAX + 3)
    }
    found = bounded(counts)
    assert (len(found), total(found)) == (CODES_MAX + 1, total(counts))
    assert found[RefusalKey("t", 0, OTHERS, OTHERS, OTHER_CODE)].number == 1 + 2 + 3


def test_a_count_keeps_the_last_ids_and_the_last_reason() -> None:
    """The newest last."""
    found: Counts = {}
    of = RefusalKey("a", 0, "k", "u", "c")
    for number in range(5):
        add(found, of, RefusalCount(1, f"why {number}" if number < 4 else "", (str(number),)))
    assert found == {of: RefusalCount(5, "why 3", ("2", "3", "4"))}


def test_what_is_read_is_of_tenants_and_users_that_there_are() -> None:
    """Of others it is nobody's; a minute that cannot be is now; ids are those that a request can have."""
    rows = [
        RefusalRow("a", NOW, "k", "u_" + "0" * 32, "rate_limited", 1, "", [ID, "what I said"]),
        RefusalRow("a", NOW, "k", "ann", "rate_limited", 2),
        RefusalRow("a", NOW, "k", "Ada Lovelace", "rate_limited", 4),
        RefusalRow("b", NOW, "k", "u", "rate_limited", 8, "", [ID]),
        RefusalRow("a", 0, "k", "ann", "overloaded", 16),
        RefusalRow("a", NOW + 9 * MINUTE_MS, "*", "ann", "overloaded", 32),
    ]
    found = storable_counts(rows, {"a"}, {("a", "ann")}, NOW)
    assert found == {
        RefusalKey("a", NOW, "k", "u_" + "0" * 32, "rate_limited"): RefusalCount(1, "", (ID,)),
        RefusalKey("a", NOW, "k", "ann", "rate_limited"): RefusalCount(2),
        RefusalKey("a", NOW, "k", "", "rate_limited"): RefusalCount(4),
        RefusalKey("", NOW, OTHERS, OTHERS, "rate_limited"): RefusalCount(8),
        RefusalKey("a", NOW, "k", "ann", "overloaded"): RefusalCount(16),
        RefusalKey("a", NOW, OTHERS, OTHERS, "overloaded"): RefusalCount(32),
    }


@pytest.mark.parametrize(
    "row",
    [
        ["a", NOW, "k", "u", "Not A Code", 1],
        ["a", NOW, "k", "u", "c", 0],
        ["a", NOW, "k", "u", "c", -5],
        ["a", NOW, "k", "u", "c", 1 << 62],
        ["a", -1, "k", "u", "c", 1],
        ["a\x00", NOW, "k", "u", "c", 1],
        ["a" * 201, NOW, "k", "u", "c", 1],
        ["a", NOW, "k", "u", "c", 1, "what I said: 'x'"],
        ["a", NOW, "k", "u", "c", 1, "", ["x" * 37]],
        ["a", NOW, "k", "u", "c", 1, "", ["x"] * 11],
        ["a", 1.5, "k", "u", "c", 1],
        ["a"],
        7,
    ],
)
def test_what_no_gateway_writes_is_not_read(row: object) -> None:
    """Nor is an entry of too many, or too long."""
    pack = msgspec.msgpack.encode
    assert not isinstance(rows_of(pack([row])), list)
    good = ["a", NOW, "k", "u", "c", 1]
    assert isinstance(rows_of(pack([good])), list)
    assert not isinstance(rows_of(pack([good] * (ROWS_MAX + 1))), list)
    assert not isinstance(rows_of(b"\x00" * (2 << 20)), list)


async def rows(database: Database) -> list[RefusalMinute]:
    """All that is stored."""
    async with database.session() as session:
        return list((await session.exec(select(RefusalMinute))).all())


async def test_every_refusal_is_counted_once(database: Database, redis: Redis, settings: Settings):
    """By two counters, again after one that died before it cut the stream, and beside an entry that is none;
    a flood of ten thousand users is a few rows."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    tally = RefusalTally(redis, settings.installation)
    now = now_ms()
    for number in range(10_000):
        tally.add(
            (tenant, "k1", f"u_{number:032x}"), "rate_limited", "user requests_per_minute", uuid7(now), now
        )
    assert tally.rows <= 2 * ROWS_MAX
    await tally.tell()
    assert tally.rows == 0
    tally.add((tenant, "k1", ""), "unknown_model", "", "", now)
    await tally.tell()
    await redis.xadd(stream_key(settings.installation), {"c": b"none"})
    await redis.xadd(stream_key(settings.installation), {"x": b"none"})
    copies: Any = await redis.xrange(stream_key(settings.installation))
    counters = [RefusalCounter(database, redis, settings) for _ in range(2)]
    assert sum(await asyncio.gather(*(each.step(now) for each in counters))) == 10_001
    assert await redis.xlen(stream_key(settings.installation)) == 0
    for id, fields in copies:  # as before it was cut
        with pytest.raises(Exception, match="equal or smaller"):
            await redis.xadd(stream_key(settings.installation), fields, id=id)
    assert await counters[0].step(now) == 0
    stored = await rows(database)
    assert sum(row.number for row in stored) == 10_001
    assert len(stored) <= 2 * (NAMED_MAX + CODES_MAX)  # it may have been two minutes
    (named, *_) = [row for row in stored if row.code == "unknown_model"]
    assert (named.key_id, named.user_id, named.number) == ("k1", "", 1)


async def test_counting_goes_on_where_it_ended(database: Database, redis: Redis, settings: Settings):
    """A counter that died between the books and the stream; and a Redis that was emptied, whose clock is
    behind."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    counter, tally = RefusalCounter(database, redis, settings), RefusalTally(redis, settings.installation)
    now = now_ms()

    async def refuse() -> None:
        tally.add((tenant, "k1", ""), "overloaded", "", "", now)
        await tally.tell()

    await refuse()
    kept: Any = await redis.dump(stream_key(settings.installation))
    assert await counter.step(now) == 1
    await redis.restore(stream_key(settings.installation), 0, kept, replace=True)
    assert await counter.step(now) == 0
    await refuse()
    assert await counter.step(now) == 1
    await redis.delete(stream_key(settings.installation))
    old = refusal_stream.encode({RefusalKey(tenant, now, "k1", "", "overloaded"): RefusalCount(1)})
    await redis.xadd(stream_key(settings.installation), {"c": old}, id="5-1")
    assert await counter.step(now) == 1
    assert sum(row.number for row in await rows(database)) == 3


async def test_a_users_long_name_hides_nobodys_refusals(redis: Redis, settings: Settings):
    """An id of old may be a name of any length: an entry with one is read, and so is what else is in it."""
    tally = RefusalTally(redis, settings.installation)
    tally.add(("acme", "k1", "n" * 201), "overloaded", "", "", NOW)
    tally.add(("other", "k2", "u1"), "overloaded", "", "", NOW)
    await tally.tell()
    [(_, data)] = await entries_after(redis, settings.installation, (0, 0))
    told = rows_of(data)
    assert not isinstance(told, Unreadable), told
    assert [(row.tenant, row.user) for row in told] == [("acme", ""), ("other", "u1")]


async def test_a_full_stream_takes_no_more_and_nothing_is_lost(redis: Redis, settings: Settings):
    """Where no biller runs: gateways keep counting."""
    tally = RefusalTally(redis, settings.installation)
    for _ in range(ENTRIES_MAX + 3):
        tally.add(("a", "k", "u"), "overloaded", "", "", NOW)
        await tally.tell()
    assert await redis.xlen(stream_key(settings.installation)) == ENTRIES_MAX
    assert tally.rows == 1
    told: Any = await redis.xrange(stream_key(settings.installation))
    rows = [row for _, fields in told for row in rows_of(fields[b"c"])]  # type: ignore[union-attr]
    in_stream = sum(row.number for row in rows if isinstance(row, RefusalRow))
    assert in_stream == ENTRIES_MAX
    await redis.delete(stream_key(settings.installation))
    await tally.tell()
    client: Any = redis
    (entry,) = await client.xrange(stream_key(settings.installation))
    assert [row.number for row in rows_of(entry[1][b"c"])] == [3]  # type: ignore[union-attr]


async def filled(database: Database, redis: Redis, settings: Settings, tenant: str, user: str) -> str:
    """Four refusals of two minutes; the id of the last."""
    now, id = now_ms(), uuid7(now_ms())
    tally = RefusalTally(redis, settings.installation)
    tally.add((tenant, "k1", user), "rate_limited", "user requests_per_minute", uuid7(now), now - MINUTE_MS)
    tally.add((tenant, "k1", user), "rate_limited", "user requests_per_minute", id, now)
    tally.add((tenant, "k1", ""), "unknown_model", "", uuid7(now), now)
    tally.add(("nobodys", "k1", ""), "overloaded", "", uuid7(now), now)
    await tally.tell()
    assert await RefusalCounter(database, redis, settings).step(now) == 4
    return id


async def test_they_are_found_by_whose_they_are_and_a_request_by_its_id(
    database: Database, redis: Redis, settings: Settings
):
    """The last minute first, in pages; users by name."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    ann = await create_user(database, tenant, "ann")
    id = await filled(database, redis, settings, tenant, ann.id)
    page = await find_refusals(database, RefusalSearch(**ALWAYS))
    assert (len(page.found), page.next) == (4, None)
    mine = await find_refusals(database, RefusalSearch(**ALWAYS, tenant=tenant, user=ann.id, limit=1))
    (newest,) = mine.found
    assert (newest.user, newest.number, newest.why) == ("ann", 1, "user requests_per_minute")
    assert newest.last_ids == [id]
    assert mine.next is not None
    after = refusal_cursor_of(mine.next.text())
    older = await find_refusals(database, RefusalSearch(**ALWAYS, tenant=tenant, user=ann.id, after=after))
    assert [each.minute_ms for each in older.found] == [newest.minute_ms - MINUTE_MS]
    assert [
        each.code
        for each in (await find_refusals(database, RefusalSearch(**ALWAYS, code="overloaded"))).found
    ] == ["overloaded"]
    (nobodys,) = [each for each in page.found if each.others]
    assert (nobodys.tenant, nobodys.last_ids) == ("", [])
    for whose in (None, tenant):
        (found,) = await refusals_of(database, id, whose)
        assert found.user_id == ann.id
    assert await refusals_of(database, id, "another") == []
    assert await refusals_of(database, "no id", None) == []


async def test_they_go_after_a_while_and_the_name_goes_with_who_had_it(
    database: Database, redis: Redis, settings: Settings
):
    """One who is older than opaque ids is known here by the id that stays."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    async with database.transaction() as session:
        session.add(TenantUser(tenant_id=tenant, id="Ada", name="Ada", created_ms=1))
    await filled(database, redis, settings, tenant, "Ada")
    assert {row.user_id for row in await rows(database)} == {"Ada", "", OTHERS}
    await close_user(database, redis, tenant, "Ada")
    id = await erase_user(database, tenant, "Ada")
    assert {row.user_id for row in await rows(database)} == {id, "", OTHERS}
    counter = RefusalCounter(database, redis, settings)
    day = 86_400_000
    await counter.clear(now_ms() + (settings.refusals_kept_days - 1) * day)
    assert len(await rows(database)) == 4
    await counter.clear(now_ms() + (settings.refusals_kept_days + 1) * day)
    assert await rows(database) == []


async def test_the_commands_show_them(
    sqlite: Database, redis: Redis, settings: Settings, home: Path, redis_url: str
):
    """As a table and as JSON; one request by its id; and by what they are not counted is said."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    ann = await create_user(sqlite, tenant, "ann")
    id = await filled(sqlite, redis, settings, tenant, ann.id)

    async def parley(*arguments: str) -> Result:
        environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
        return await asyncio.to_thread(CliRunner().invoke, cli, ["requests", *arguments], env=environment)

    found = json_lines(await parley("find", "--refused", "--tenant", "acme", "--user", "ann", "--json"))
    assert [(each["user"], each["number"]) for each in found] == [("ann", 1), ("ann", 1)]
    first, more = json_lines(await parley("find", "--refused", "--limit", "1", "--json"))
    rest = json_lines(await parley("find", "--refused", "--after", more["next"], "--json"))
    assert len([first, *rest]) == 4
    shown = (await parley("find", "--refused")).stdout
    assert "user requests_per_minute" in shown
    assert "(others)" in shown
    assert id in shown
    refused = await parley("find", "--refused", "--model", "tiny")
    assert "not counted by --model" in str(refused.exception)
    for whose in ((), ("--tenant", "acme")):
        (told,) = json_lines(await parley("explain", id, *whose, "--json"))
        assert (told["state"], told["refused"][0]["code"]) == ("refused", "rate_limited")
        assert "user ann, key k1" in (await parley("explain", id, *whose)).stdout
