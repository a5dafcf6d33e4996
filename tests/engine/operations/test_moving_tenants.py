"""A tenant moves to another pool: new requests first, then its live answers; nothing is lost on the way."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import msgspec
import pytest

from billing.api import PLATFORM, Stores, Terms, create_tenant, local_actor
from billing.audit.compare import compare_states
from billing.audit.log import list_rows
from billing.operations.runs import ListRuns, RunSummary, TenantMove, list_runs
from billing.pools import PoolRow, create_pool, edit_pool, read_routes
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.progress import BegunRun
from billing.unit_of_work.run_rows import write_run
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import operation_of
from core.sql.database import Database
from engine.api import Enqueued, MigratedTo, Migrator
from engine.operations.inspection import Inspection
from engine.operations.migrating import MigratePool, migrate_pool
from engine.operations.migration_preview import MigrationOutcome
from engine.operations.moved_streams import MovedStreams, MovedStreamState
from engine.operations.moving_tenants import MovedTenant, MoveTenant, move_tenant
from engine.queue.redis_keys import record
from tests.engine.workers import PoolWorkers, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis

TEXT = "Elbe, Oder and Neiße: 川 🌊. " * 40
SMALL = 1_000  # KV tokens of the second pool's worker


class TwoPools:
    """`a` is shared, `b` is initech's; each has a worker that says TEXT. The tenant acme asks in `a`."""

    def __init__(self, redis: Redis, settings: Settings, database: Database) -> None:
        self.stores = Stores(settings, database, lambda: redis)
        self.crews = {pool: PoolWorkers(redis, settings, pool) for pool in "ab"}
        self.acme = ""

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Make them."""
        db = self.stores.db
        self.acme = (await create_tenant(db, "acme")).tenant_id
        owner = (await create_tenant(db, "initech")).tenant_id
        for pool, payer in (("a", ""), ("b", owner)):
            row = PoolRow(pool=pool, model="m", version="1", workers=1, labels={}, tenant_id=payer, made_ms=1)
            await create_pool(db, row)
        for pool, kv_tokens in (("a", 1 << 20), ("b", SMALL)):
            engine = ScriptedEngine(saying(TEXT), step_seconds=0.02, kv_tokens=kv_tokens)
            await stack.enter_async_context(self.crews[pool].worker(engine))

    async def ask(self, max_tokens: int = 700) -> str:
        """A request of acme in `a`; its id."""
        crew = self.crews["a"]
        asked = msgspec.structs.replace(crew.request_of(max_tokens=max_tokens), tenant=self.acme)
        assert isinstance(await crew.queue.enqueue(asked), Enqueued)
        return asked.id

    async def live(self, number: int, max_tokens: int = 700) -> list[str]:
        """So many answers of acme that have begun."""
        ids = [await self.ask(max_tokens) for _ in range(number)]
        for id in ids:
            await wait_until(lambda id=id: self.begun(id))
        return ids

    async def begun(self, id: str, pool: str = "a") -> bool:
        """Whether it has said something there."""
        return bool(await self.crews[pool].queue.tokens(self.acme, id))

    async def move(self, terms: Terms | None = None) -> MovedTenant:
        """Move acme to `b`."""
        return await answer_of(move_tenant, self.stores, local_actor(), ASK, terms or Terms(reason="full"))

    async def pool_of_new(self) -> str | None:
        """Where acme's new requests go."""
        route = (await read_routes(self.stores.db)).of(self.acme, "m")
        return route and route.pool

    async def left(self) -> int:
        """Open requests in `a`."""
        redis = self.stores.redis
        return await redis.zcard("{p:a}deadlines") + await redis.zcard("{p:a}moving")

    async def recorded(self) -> list[str]:
        """Actions on pools, newest first."""
        rows = await list_rows(self.stores.db, PLATFORM)
        return [row.action for row in rows if row.action.startswith(("pool.", "request."))]


ASK = MoveTenant(pool="a", tenant="acme", to="b")
MADE = ["pool.create", "pool.create"]


@pytest.fixture
async def two(redis: Redis, settings: Settings, database: Database) -> AsyncGenerator[TwoPools]:
    """Both, on a real Valkey, on SQLite and Postgres."""
    made = TwoPools(redis, settings.model_copy(update={"worker_slots": 8}), database)
    async with AsyncExitStack() as stack:
        await made.prepare(stack)
        yield made
    assert (await compare_states(database, PLATFORM)).faults == []


async def test_live_answers_follow_their_tenant(two: TwoPools) -> None:
    """Also one that still comes by the old route. Each is told with its pause; why stands in one audit row;
    done again, nothing is left to do."""
    ids = await two.live(3)
    moving = asyncio.create_task(two.move())

    async def routed() -> bool:
        return await two.pool_of_new() == "b"

    await wait_until(routed)
    late = await two.ask()
    done = await moving
    assert (done.moved, done.stay, done.newcomers, done.enters, done.leaves) == (4, [], False, True, [])
    assert (done.streams_moved, done.lost, done.doubled) == (done.streams_to_move, 0, 0)
    shown = {row.id: row for row in done.streams}
    moved = [shown[id] for id in ids if shown[id].state is MovedStreamState.MOVED]
    assert {shown[id].state for id in ids} <= {MovedStreamState.MOVED, MovedStreamState.WAITS}
    assert all(0 < (each.pause_ms or 0) <= (done.longest_pause_ms or 0) for each in moved)
    assert await two.left() == 0
    for id in (*ids, late):
        await wait_until(lambda id=id: two.begun(id, "b"))
    (row,) = await list_rows(two.stores.db, PLATFORM, limit=1)
    assert (row.action, row.target) == ("pool.move", "a")
    assert '"reason":"full"' in row.after
    assert two.acme in row.after
    again = await two.move()
    assert (again.moved, again.enters) == (0, False)
    assert await two.recorded() == ["pool.move", "pool.move", *MADE]


async def test_what_does_not_fit_stays_and_goes_on(two: TwoPools) -> None:
    """It is told with the reason, by the dry run and by the move; the tenant's new requests go elsewhere."""
    (large,) = await two.live(1, max_tokens=SMALL)
    (fits,) = await two.live(1)
    would = await two.move(Terms(dry_run=True))
    assert would.preview is not None
    assert (would.moved, would.preview.streams, would.preview.streams_of) == (1, 1, 2)
    assert [(each.id, each.reason) for each in would.stay] == [(large, "too_large")]
    done = await two.move()
    assert [(each.id, each.reason) for each in done.stay] == [(large, "too_large")]
    assert {row.id: row.state for row in done.streams} == {large: "stays", fits: "moved"}
    assert (await two.left(), await two.pool_of_new()) == (1, "b")


async def test_a_dry_run_changes_nothing(two: TwoPools) -> None:
    """Neither where new requests go nor where any is; of the pool it tells the room. A stranger to the other
    pool is let in by the move, and stays where only its requests are to go."""
    ids = await two.live(2)
    would = await two.move(Terms(dry_run=True))
    assert (would.moved, would.enters, would.streams) == (2, True, [])
    preview = would.preview
    assert preview is not None
    assert (preview.slots, preview.free, preview.without_slot) == (8, 8, 0)
    assert preview.recomputed_tokens > 2
    assert "own price book" in preview.price
    ask = MigratePool(pool="a", to="b", tenant="acme")
    only = await answer_of(migrate_pool, two.stores, local_actor(), ask, Terms(dry_run=True))
    assert {each.id: each.reason for each in only.stay} == dict.fromkeys(ids, "stranger")
    assert (only.moved, await two.left(), await two.pool_of_new()) == (0, 2, "a")
    assert await two.recorded() == MADE


async def test_a_stale_move_and_one_that_cannot_be_change_nothing(two: TwoPools) -> None:
    """Also one that becomes stale between the look and the order."""
    await two.live(1)
    seen = Terms(reason="full", version=1)
    for terms in (seen, Terms(dry_run=True, version=1)):
        with pytest.raises(Refused, match="changed since you read it"):
            await two.move(terms)
    await edit_pool(two.stores.db, "b", {"version": "2"})
    with pytest.raises(Refused, match="runs m 2, not m 1") as refused:
        await two.move()
    assert refused.value.refusal.field == "to"
    assert (await two.left(), await two.pool_of_new()) == (1, "a")
    assert await two.recorded() == ["pool.edit", *MADE]


async def test_a_move_that_is_broken_off_is_finished_by_the_same_again(
    two: TwoPools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a store fails in the middle it says what moved and what stayed. The routing stands."""
    ids, moved, true = await two.live(3), list[str](), Migrator.migrate

    async def migrate(mover: Migrator, pool: str, tenant: str, id: str, dest: str) -> MigratedTo:
        if moved:
            raise ConnectionError
        moved.append(id)
        return await true(mover, pool, tenant, id, dest)

    with monkeypatch.context() as patch:
        patch.setattr(Migrator, "migrate", migrate)
        with pytest.raises(Refused, match=r"1 are moved, 2 are still in pool a: .* Do it again"):
            await two.move()
    assert (await two.pool_of_new(), await two.left()) == ("b", 2)
    done = await two.move()
    assert (done.moved, done.enters, await two.left()) == (2, False, 0)
    for id in ids:
        await wait_until(lambda id=id: two.begun(id, "b"))


async def test_a_move_is_stopped_between_two_and_tells_how_far_it_is(two: TwoPools) -> None:
    """What is moved stays moved; a run has the answer so far while it goes on."""
    await two.live(2)
    run = BegunRun.of(local_actor(), operation_of(move_tenant), write_run)
    run.on_begun = run.progress.stop
    done = (await perform(two.stores, local_actor(), run.operation, ASK, Terms(reason="full"), run)).answer
    assert (done.moved, run.progress.heeded, await two.pool_of_new()) == (0, True, "b")
    assert isinstance(run.progress.partial_answer, MovedTenant)
    assert await two.left() == 2


async def test_a_run_says_from_its_beginning_what_moves_where(two: TwoPools) -> None:
    """A page that did not begin it finds it in the list, though its process ended at once."""
    run = BegunRun.of(local_actor(), operation_of(move_tenant), write_run)
    await perform(two.stores, local_actor(), run.operation, ASK, Terms(reason="full"), run)
    (listed,) = await runs_of(two, "pools.move")
    assert (listed.run, listed.move) == (run.id, TenantMove(tenant="acme", pool="a", to="b"))
    assert await runs_of(two, "workers.drain") == []


async def runs_of(two: TwoPools, operation: str) -> list[RunSummary]:
    """The runs that a page is told."""
    return (await answer_of(list_runs, two.stores, local_actor(), ListRuns(operation=operation))).items


async def test_a_count_that_a_worker_made_up_ends_no_move(two: TwoPools) -> None:
    """It is none, however many digits it has."""
    (id,) = await two.live(1)
    source = two.crews["a"].queue
    streams = MovedStreams(source, source, lambda: None)
    (row,) = await Inspection(source).requests(two.acme, None, 1)
    streams.listed([row])
    streams.begins(row)
    streams.ends(row, MigrationOutcome(id, two.acme, "a", "b", True))
    await two.crews["a"].queue.redis.hset(record(source.pool, two.acme, id), mapping={"n": "9" * 5_000})
    await streams.look()
    assert streams.count(*MovedStreamState) == 1
