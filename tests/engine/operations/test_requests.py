"""Operations on requests: whose they are, who may, and what is recorded."""

from dataclasses import replace
from typing import Any

import pytest

from billing.api import PLATFORM, OperationActor, Stores, Terms, create_tenant, local_actor
from billing.audit.log import list_rows, record
from billing.pools import PoolRow
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.progress import BegunRun, ProgressEvent
from billing.unit_of_work.recent_reads import AGAIN_SECONDS
from billing.unit_of_work.run_rows import write_run
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused, see
from core.operations import Role, operation_of
from core.redis.pools import announce_pool
from core.sql.database import Database
from engine.operations import migrating, pool_shares, requests, workers
from engine.operations.migrating import MigratePool, MigrateRequest
from engine.operations.pool_questions import NameRequest, PoolQuestion
from engine.operations.pool_shares import AskShares
from engine.operations.requests import CancelState, ExplainRequest, ListRequests
from engine.operations.workers import NameWorker
from tests.engine.builders import Pool, request
from tests.support.redis import Redis
from tests.support.watch import watch_in_hand

FAR_MS = 4_000_000_000_000
DRY = Terms(dry_run=True)
ASKS = (
    (requests.show_request, NameRequest),
    (requests.explain_request, ExplainRequest),
    (requests.cancel_request, NameRequest),
)


class TwoOwners:
    """A pool in which acme and another tenant have a request each; acme's is running."""

    def __init__(self, redis: Redis, settings: Settings, database: Database) -> None:
        self.stores = Stores(settings, database, lambda: redis)
        self.pool = Pool(redis, settings, clock=None)  # pyright: ignore[reportArgumentType]
        self.acme = self.other = self.running = self.waiting = ""

    async def prepare(self) -> None:
        """Make them."""
        self.acme = (await create_tenant(self.stores.db, "acme")).tenant_id
        self.other = (await create_tenant(self.stores.db, "other")).tenant_id
        await announce_pool(self.pool.redis, self.pool.settings, "b")
        self.running = (await self.pool.running(tenant=self.acme, deadline_ms=FAR_MS)).id
        waiting = request(tenant=self.other, deadline_ms=FAR_MS)
        await self.pool.queue.enqueue(waiting)
        self.waiting = waiting.id

    def member(self, role: Role = Role.DEVELOPER) -> OperationActor:
        """Somebody of acme."""
        return OperationActor(Author("Mia", "api"), role, tenant=self.acme)

    async def actions(self, chain: str) -> list[str]:
        """What is recorded there since, newest first."""
        rows = await list_rows(self.stores.db, chain)
        return [row.action for row in rows if row.source != "migration" and row.action != "tenant.create"]


def staff(role: Role) -> OperationActor:
    """Somebody of the platform."""
    return OperationActor(Author("Sam", "api"), role, remote=True)


@pytest.fixture
async def two(redis: Redis, settings: Settings, sqlite: Database) -> TwoOwners:
    """Both, on a real Valkey."""
    made = TwoOwners(redis, settings, sqlite)
    await made.prepare()
    return made


async def test_to_a_member_no_request_of_another_tenant_exists(two: TwoOwners) -> None:
    """Neither listed nor by its id, with or without the other's name: as one that nobody has."""
    line = await answer_of(requests.list_requests, two.stores, two.member(), ListRequests())
    assert [(row.id, row.tenant_name, row.worker) for row in line.items] == [(two.running, "acme", "")]
    for run, ask in ASKS:
        told: list[str] = []
        for id in (two.waiting, "nobodys"):
            with pytest.raises(Refused) as refused:
                await answer_of(run, two.stores, two.member(), ask(request=id))
            assert refused.value.refusal.unknown
            told.append(refused.value.refusal.message.replace(id, "ID"))
        assert told[0] == told[1]
        with pytest.raises(Refused, match="there is no tenant"):
            await answer_of(run, two.stores, two.member(), ask(request=two.waiting, tenant="other"))
    assert await two.actions(two.other) == []
    view = await two.pool.queue.view(two.other, two.waiting)
    assert view is not None
    assert not view.ended


async def test_a_member_sees_its_request_and_no_machine(two: TwoOwners) -> None:
    """How far it is, not where; staff sees the worker, and that staff explained it is recorded."""
    ask = NameRequest(request=two.running)
    shown = await answer_of(requests.show_request, two.stores, two.member(Role.VIEWER), ask)
    assert (shown.at, shown.request.row.worker, shown.request.readers) == (None, "", {})
    seen = await answer_of(requests.show_request, two.stores, staff(Role.SUPPORT), ask)
    assert seen.at is not None
    assert seen.request.row.worker == seen.at.worker == "w1"
    why = ExplainRequest(request=two.running, tenant="acme")
    explained = await answer_of(requests.explain_request, two.stores, two.member(), why)
    assert explained.in_pool is not None
    assert explained.in_pool.row.worker == ""
    assert await two.actions(two.acme) == ["request.show"]
    await answer_of(requests.explain_request, two.stores, staff(Role.FINANCE), why)
    assert await two.actions(two.acme) == ["request.explain", "request.show"]


async def test_what_staff_reads_again_and_again_is_one_row(two: TwoOwners) -> None:
    """A page that polls fills no audit log; another thing, another reader and a later time are new rows."""
    every, of_acme = ListRequests(), ListRequests(tenant="acme")
    with watch_in_hand() as watch:
        for ask in (every, every, of_acme, of_acme):
            await answer_of(requests.list_requests, two.stores, staff(Role.SUPPORT), ask)
        await answer_of(requests.list_requests, two.stores, local_actor(), of_acme)
        await answer_of(requests.list_requests, two.stores, two.member(), every)
        assert await two.actions(two.acme) == ["request.list"]
        assert await two.actions(PLATFORM) == ["request.list"]
        await answer_of(requests.list_requests, two.stores, replace(staff(Role.SUPPORT), id="bob"), of_acme)
        watch.ms += int(AGAIN_SECONDS * 1000) + 1
        await answer_of(requests.list_requests, two.stores, staff(Role.SUPPORT), of_acme)
    assert await two.actions(two.acme) == ["request.list"] * 3


async def test_a_parked_request_says_since_when(two: TwoOwners) -> None:
    """One that waits for a worker does not."""
    ask = NameRequest(request=two.waiting)
    before = await answer_of(requests.show_request, two.stores, local_actor(), ask)
    now = await two.pool.queue.now_ms()
    await two.pool.queue.park(two.other, two.waiting)
    after = await answer_of(requests.show_request, two.stores, local_actor(), ask)
    assert (before.request.parked_ms, after.request.row.status) == (0, "parked")
    assert now <= after.request.parked_ms <= after.request.now_ms


async def test_a_page_that_explains_a_live_request_is_one_row(two: TwoOwners) -> None:
    """However often it asks; a command on this machine is a row each time."""
    ask = ExplainRequest(request=two.running, tenant="acme")
    for _ in range(3):
        await answer_of(requests.explain_request, two.stores, staff(Role.SUPPORT), ask)
    assert await two.actions(two.acme) == ["request.explain"]
    for _ in range(2):
        await answer_of(requests.explain_request, two.stores, local_actor(), ask)
    assert await two.actions(two.acme) == ["request.explain"] * 3


async def test_a_dry_run_leaves_a_request_as_it_is(two: TwoOwners) -> None:
    """It says what would be, records nothing, and tells nobody."""
    owner, running = local_actor(), NameRequest(request=two.running)
    would = await answer_of(requests.cancel_request, two.stores, owner, running, DRY)
    assert (would.was, would.state) == ("running", CancelState.WOULD_END)
    move = MigrateRequest(request=two.waiting, to="b")
    assert not (await answer_of(migrating.migrate_request, two.stores, owner, move, DRY)).moved
    await answer_of(migrating.migrate_pool, two.stores, owner, MigratePool(to="b"), DRY)
    await answer_of(workers.drain_worker, two.stores, owner, NameWorker(worker="w1"), DRY)
    for tenant, id in ((two.acme, two.running), (two.other, two.waiting)):
        view = await two.pool.queue.view(tenant, id)
        assert view is not None
        assert view.control == 0
        assert await two.actions(tenant) == []
    assert await two.actions(PLATFORM) == []


async def test_a_move_of_all_tells_its_steps_and_stops_between_two(two: TwoOwners) -> None:
    """Each request is a step; once it is asked to stop the rest stays as it is."""
    told: list[ProgressEvent] = []
    move, declared = MigratePool(to="b"), operation_of(migrating.migrate_pool)
    done = (await perform(two.stores, local_actor(), declared, move, told=told.append)).answer
    assert {each.id for each in done.stay} == {two.running, two.waiting}
    assert [(event.done, event.of) for event in told] == [(1, 2), (2, 2)]
    assert all("stays: " in event.what for event in told)
    run = BegunRun.of(local_actor(), declared, write_run)
    run.progress.stop()
    stopped = (await perform(two.stores, local_actor(), declared, move, run=run)).answer
    assert (stopped.moved, stopped.stay, run.progress.heeded) == (0, [], True)


async def test_support_cancels_and_finance_does_not(two: TwoOwners) -> None:
    """On a tenant's word, with a reason that stands in the audit log."""
    ask, terms = NameRequest(request=two.waiting), Terms(reason="ticket 7")
    for role in (Role.FINANCE, Role.VIEWER):
        who = staff(role) if role is Role.FINANCE else two.member(role)
        with pytest.raises(Refused, match="may not do this"):
            await answer_of(requests.cancel_request, two.stores, who, ask, terms)
    with pytest.raises(Refused, match="say why"):
        await answer_of(requests.cancel_request, two.stores, staff(Role.SUPPORT), ask)
    done = await answer_of(requests.cancel_request, two.stores, staff(Role.SUPPORT), ask, terms)
    assert (done.was, done.state) == ("queued", CancelState.ENDED)
    again = await answer_of(requests.cancel_request, two.stores, staff(Role.SUPPORT), ask, terms)
    assert again.state is CancelState.HAD_ENDED
    (row,) = await list_rows(two.stores.db, two.other, limit=1)
    assert (row.action, row.target, row.author) == ("request.cancel", two.waiting, "Sam")
    assert '"reason":"ticket 7"' in row.after


@pytest.mark.parametrize("name", ["a}b", "{", "a\nb"])
async def test_what_is_no_pools_name_is_told_so(two: TwoOwners, name: str) -> None:
    """Keys hold it in braces."""
    with pytest.raises(Refused, match="is no name of a pool"):
        await answer_of(workers.list_workers, two.stores, local_actor(), PoolQuestion(pool=name))


UNKNOWN_POOL = [
    (requests.list_requests, ListRequests(pool="typo"), "pool"),
    (workers.list_workers, PoolQuestion(pool="typo"), "pool"),
    (workers.drain_worker, NameWorker(worker="w", pool="typo"), "pool"),
    (workers.kill_worker, NameWorker(worker="w", pool="typo"), "pool"),
    (pool_shares.show_shares, AskShares(pool="typo"), "pool"),
    (migrating.migrate_pool, MigratePool(to="typo"), "to"),
    (migrating.migrate_pool, MigratePool(pool="typo", to="default"), "pool"),
]


@pytest.mark.parametrize(("run", "ask", "field"), UNKNOWN_POOL)
async def test_a_pool_that_nobody_has_is_unknown(two: TwoOwners, run: Any, ask: Any, field: str) -> None:
    """To staff, again too: nothing is made by asking. Members are not told which there are."""
    owner = local_actor()
    if run is requests.list_requests:
        assert (await answer_of(run, two.stores, two.member(), ask)).items == []
    for _ in "ab":
        with pytest.raises(Refused, match="there is no pool 'typo'") as refused:
            await answer_of(run, two.stores, owner, ask, Terms(reason="r"))
        refusal = refused.value.refusal
        assert (refusal.unknown, refusal.field, refusal.see) == (True, field, see("pools.list"))


async def test_a_pool_is_known_that_was_announced_ran_or_has_a_row(two: TwoOwners) -> None:
    """And PARLEY_POOL always."""
    stores, owner = two.stores, local_actor()

    async def lists(pool: str) -> bool:
        try:
            await answer_of(requests.list_requests, stores, owner, ListRequests(pool=pool))
        except Refused:
            return False
        return True

    assert [await lists(name) for name in ("announced", "ran", "made")] == [False] * 3
    await announce_pool(two.pool.redis, stores.settings, "announced")
    await Pool(two.pool.redis, stores.settings, name="ran").queue.enqueue(request(deadline_ms=FAR_MS))
    async with stores.db.transaction() as session:
        session.add(PoolRow(pool="made", model="m", version="v", workers=0, labels={}, made_ms=0))
        await record(session, PLATFORM, "pool.create", "made", None, {})
    assert [await lists(name) for name in ("announced", "ran", "made", stores.settings.pool)] == [True] * 4
