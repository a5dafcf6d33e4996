"""Every event counts once, whatever is delivered again, in which order and batches, by how many billers:
usage, ledger, rollups and what Redis has posted come out the same."""

import asyncio
import random
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, seed
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from billing.booking.assess import Quarantined
from billing.ledger.verify import verify_ledger
from billing.posting.biller import Biller, post, post_in_parts
from billing.posting.quarantine import held_events
from billing.posting.usage_stream import EndedStream
from billing.quota.client import Quota
from billing.quota.redis_keys import posted_key
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.run import Reconciliation
from billing.usage import ENDED_FIELD, ENDED_GROUP_BILLER, UsageEvent, encode, ended_stream
from chaos.installation import postgres
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.posting.billers import a_biller, end, until_acknowledged, until_posted
from tests.support.redis import Redis

STREAM = ended_stream("default")
TOTALS = {
    "events": "SELECT COUNT(*), SUM(cost_nano), SUM(output_text) FROM usage_event",
    "lines": "SELECT COUNT(*), SUM(quantity), SUM(amount_nano) FROM usage_line",
    "entries": "SELECT account, project_id, SUM(amount_nano) FROM ledger_entry GROUP BY 1, 2 ORDER BY 1, 2",
    "rollups": "SELECT hour_ms, project_id, model, SUM(requests), SUM(output_text), SUM(amount_nano)"
    " FROM rollup_hour GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    "held": "SELECT COUNT(*) FROM usage_quarantine",
}
CORPUS = [
    an_event(f"r{number}", f"t{number % 2}", output_text=number, ended_ms=number * 1_000_000)
    for number in range(8)
]


async def totals(database: Database, redis: Redis | None = None) -> dict[str, object]:
    """Everything that is counted, by name."""
    async with database.engine.connect() as connection:
        found: dict[str, object] = {
            name: [tuple(map(_plain, row)) for row in await connection.execute(text(statement))]
            for name, statement in TOTALS.items()
        }
    for tenant in ("t0", "t1") if redis else ():
        found[tenant] = await redis.hgetall(posted_key(tenant)) if redis else {}
    return found


def _plain(value: object) -> object:
    return value if isinstance(value, str) else int(str(value or 0))


@st.composite
def deliveries(draw: st.DrawFn) -> list[list[UsageEvent]]:
    """All of CORPUS in any order, some of it twice or more, cut into batches anywhere."""
    again = draw(st.lists(st.sampled_from(CORPUS), max_size=8))
    order = draw(st.permutations([*CORPUS, *again]))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), max_size=4)))
    return [order[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True)]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_order_repeats_and_batches_change_no_total(
    kind: str, home: Path, request: pytest.FixtureRequest
) -> None:
    """A second delivery is never a second charge, and no order
    loses one."""
    source = request.getfixturevalue("sqlite_template" if kind == "sqlite" else "postgres_folder")
    expected: list[dict[str, object]] = []

    @seed(20261123)
    @hypothesis_settings(max_examples=8)
    @given(deliveries())
    def check(batches: list[list[UsageEvent]]) -> None:
        found = asyncio.run(_posted(_fresh(kind, home, source), batches))
        expected.append(expected[0] if expected else found)
        assert found == expected[0]

    check()
    (events,) = expected[0]["events"]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
    assert events == (8, sum(e.cost_nano for e in CORPUS), sum(e.output_text for e in CORPUS))


async def _posted(
    fresh: AbstractAsyncContextManager[Database], batches: Sequence[Sequence[UsageEvent]]
) -> dict[str, object]:
    """What a fresh database counts after these batches."""
    async with fresh as database:
        for batch in batches:
            await post(database, "default", [encode(event) for event in batch])
        for tenant in ("t0", "t1"):
            assert (await verify_ledger(database, tenant)).faults == []
        return await totals(database)


@asynccontextmanager
async def _fresh(kind: str, home: Path, source: Path) -> AsyncGenerator[Database]:
    """An empty, migrated database. `source`: SQLite's template, or the folder of Postgres' socket."""
    if kind == "sqlite":
        path = home / f"{uuid4().hex}.db"
        shutil.copy(source, path)
        database = Database(f"sqlite+aiosqlite:///{path}")
        yield database
        await database.close()
        return
    name = f"once_{uuid4().hex}"
    await postgres.execute(source, f"CREATE DATABASE {name} TEMPLATE template_parley")
    database = Database(postgres.url(source, name))
    yield database
    await database.close()
    await postgres.execute(source, f"DROP DATABASE {name} WITH (FORCE)")


async def test_the_whole_stream_again_changes_nothing(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """INV-10: The consumer group's place is deleted, so that all is read from
    the first entry on. Usage, ledger, rollups, what Redis has posted, and the quarantine stay as they were.
    """
    events = [*CORPUS, an_event("r1", "t1", output_text=99)]  # and a second truth, held back
    await end(redis, CORPUS, settings)
    await redis.xadd(STREAM, {ENDED_FIELD: encode(events[-1])})
    async with a_biller(database, redis, settings):
        await until_acknowledged(redis)
    before = await totals(database, redis)
    assert before["held"] == [(1,)]
    await redis.xgroup_destroy(STREAM, ENDED_GROUP_BILLER)
    async with a_biller(database, redis, settings):
        await until_acknowledged(redis)
    assert await totals(database, redis) == before
    reconciliation = Reconciliation(database, redis, settings)
    for tenant in ("t0", "t1"):
        assert {each.state for each in await reconciliation.run(tenant_id=tenant)} == {ComparisonState.EQUAL}


async def test_two_billers_on_one_stream_count_what_one_does(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """They take each other's batches all the time, in batches cut anywhere."""
    rng = random.Random(20261124)
    streams = [EndedStream(redis, "default", f"c{number}", claim_idle_ms=0) for number in range(2)]
    await streams[0].ensure_groups()
    await end(redis, CORPUS, settings)

    async def work(stream: EndedStream) -> None:
        got = await stream.read() or await stream.claim()
        while got:
            part = got[: rng.randint(1, len(got))]
            batch, _ = await post(database, "default", [each.data for each in part])
            for event in batch.settlements:
                await Quota(redis, settings, database).settle(
                    event, batch.line_seqs[event.tenant, event.request]
                )
            if rng.random() < 0.7:
                await stream.acknowledge(part)
            got = got[len(part) :] or await stream.claim()

    await asyncio.gather(*(work(stream) for stream in streams))
    reconciliation = Reconciliation(database, redis, settings)
    for tenant in ("t0", "t1"):
        assert {each.state for each in await reconciliation.run(tenant_id=tenant)} == {ComparisonState.EQUAL}
    found = await totals(database)
    assert found["events"] == [(8, sum(e.cost_nano for e in CORPUS), sum(e.output_text for e in CORPUS))]


async def test_a_late_event_counts_in_its_own_hour(database: Database) -> None:
    """Usage that comes days late is charged, where it belongs."""
    await post(database, "default", [encode(an_event("new", ended_ms=90 * 3_600_000))])
    await post(database, "default", [encode(an_event("late", ended_ms=5 * 3_600_000))])
    rollups = (await totals(database))["rollups"]
    assert [row[0] for row in rollups] == [5 * 3_600_000, 90 * 3_600_000]  # pyright: ignore


async def test_one_event_that_the_database_refuses_holds_up_no_other(database: Database) -> None:
    """INV-40: It is found by halves and held; what came with it is booked once."""
    async with database.transaction() as session:
        await (await session.connection()).execute(
            text(
                "INSERT INTO usage_line VALUES ('t1', 9999, 'bad', 1, 'usage', 'input', 0, 0, 0, 'b', 1, '',"
                " NULL, 0, 0, '')"
            )
        )
    events = [an_event(f"r{number}") for number in range(3)] + [an_event("bad")]
    batches = await post_in_parts(database, "default", [encode(event) for event in events])
    assert sorted(each.row.request_id for _, posted in batches for each in posted) == ["r0", "r1", "r2"]
    (held,) = await held_events(database)
    assert (held.request_id, held.reason) == ("bad", Quarantined.UNSTORABLE)


async def test_a_slot_with_broken_keys_holds_up_no_biller(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """Its usage is booked, the next tenant's too; reconciliation shows what Redis lacks."""
    await end(redis, [an_event("r1"), an_event("r2", "t2")], settings)
    await redis.set(posted_key("t1"), "not a hash")
    async with a_biller(database, redis, settings):
        await until_posted(database, 1, "t2")
        await until_acknowledged(redis)
    assert len(await until_posted(database, 1)) == 1


async def test_a_batch_that_failed_is_read_again_at_once(
    database: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a deadlock: the same biller does not wait until the batch counts as a dead one's."""
    failures = iter([DBAPIError("UPDATE", {}, Exception("deadlock detected"))])
    posting = post_in_parts

    async def failing(*arguments: Any) -> Any:
        for failure in failures:
            raise failure
        return await posting(*arguments)

    monkeypatch.setattr("billing.posting.biller.post_in_parts", failing)
    stop = asyncio.Event()
    await end(redis, [an_event("r1")], settings)
    biller = Biller(database, redis, settings, ["default"], claim_idle_ms=3_600_000)
    running = asyncio.create_task(biller.run(stop))
    await until_posted(database, 1)
    stop.set()
    await running
