"""What takes long goes on as a run: seen and stopped at any console, interrupted where its process dies."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
from sqlmodel import col, update

from billing.audit.log import list_rows
from billing.operations import runs
from billing.operations.runs import ListRuns, NameRun, RunFacts
from billing.operations.tenants import CreateTenant, create_tenant
from billing.tables.runs import OperationRun
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.progress import EVENTS_MAX, BegunRun, StartedRun
from billing.unit_of_work.run_rows import (
    AT_ONCE_MAX,
    KEPT_MS,
    LAPSED_MS,
    RunState,
    write_run,
)
from billing.unit_of_work.runs import LongRuns
from billing.unit_of_work.units import Order, Stores, Terms
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused, bad_request
from core.operations import OPERATORS, Role, Uses, operation, operation_of
from core.sql.database import Database
from tests.support.patience import forever, wait_until
from tests.support.redis import Redis

ANN = OperationActor(Author("Ann", "api"), Role.OWNER, id="ann")
BOB = OperationActor(Author("Bob", "api"), Role.OPERATOR, id="bob")
ENDED = set(RunState) - {RunState.RUNNING}


class CountQuestion(msgspec.Struct, frozen=True):
    """How far to count; then to be refused, to break or to wait until it is stopped. `tells`: what it counted
    until now."""

    to: int = 3
    then: str = ""
    first: str = ""
    tells: bool = False


class CountedSlowly(msgspec.Struct, frozen=True):
    """How far it came."""

    number: int


@operation(  # by a name that is registered: who may do it may stop it
    "workers.drain",
    "POST /tests/{first}/drain",
    may=OPERATORS,
    audit="worker.drain",
    long=True,
    uses=Uses(),
)
async def count_slowly(order: Order, ask: CountQuestion) -> CountedSlowly:
    """Count."""
    if ask.first == "refuse":
        raise bad_request("not today", field="first")
    await order.given(PLATFORM, "thing", CountedSlowly(0))
    if ask.tells:
        order.progress.so_far = lambda: CountedSlowly(order.progress.steps)
    for number in range(ask.to):
        order.progress.tell(number + 1, ask.to, f"step {number + 1}")
    match ask.then:
        case "refuse":
            raise bad_request("the third is taken", field="to")
        case "break":
            raise KeyError("secret words")
        case "wait":
            await wait_until(lambda: order.progress.stopping)
        case "hold out":
            await forever()
        case _:
            pass
    return CountedSlowly(ask.to)


COUNT = operation_of(count_slowly)


@pytest.fixture
def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """SQLite and Postgres, and a real Valkey."""
    return Stores(settings, database, lambda: redis)


@pytest.fixture
async def here(stores: Stores) -> AsyncIterator[LongRuns]:
    """The runs of a console, which breaks them off at once where it ends."""
    console = LongRuns(stores, patience_seconds=0)
    yield console
    await console.drain()


async def begin(
    console: LongRuns, ask: CountQuestion, who: OperationActor = ANN, terms: Terms | None = None
) -> str:
    """Begin a run, and return its id."""
    done = await console.perform(who, COUNT, ask, terms or Terms())
    if done.kept is not None:
        return msgspec.json.decode(done.kept, type=StartedRun).run
    assert done.run is not None
    return done.run


async def shown(stores: Stores, run: str, who: OperationActor = BOB) -> RunFacts:
    """A run as another console shows it."""
    return await answer_of(runs.show_run, stores, who, NameRun(run=run))


async def ended(stores: Stores, run: str) -> RunFacts:
    """A run once it has ended."""

    async def seen() -> RunFacts | None:
        facts = await shown(stores, run)
        return facts if facts.state in ENDED else None

    found = await wait_until(seen)
    assert found is not None
    return found


async def left_behind(stores: Stores) -> str:
    """A run of a process that dies as soon as it is begun."""
    run = BegunRun.of(ANN, COUNT, write_run)
    async with stores.db.transaction() as session:
        await write_run(session, run)
    return run.id


async def lapse(stores: Stores, passed_ms: int) -> None:
    """As if no process had said for so long that its runs live."""
    async with stores.db.transaction() as session:
        old = update(OperationRun).where(col(OperationRun.tenant_id) == PLATFORM)
        await session.exec(old.values(beat_ms=now_ms() - passed_ms))


async def test_a_run_goes_to_its_end(stores: Stores, here: LongRuns) -> None:
    """Its caller has its id at once; its last steps and its answer are there for others; it is recorded."""
    facts = await ended(stores, await begin(here, CountQuestion(to=EVENTS_MAX + 5)))
    assert (facts.state, facts.answer, facts.by) == (RunState.DONE, {"number": EVENTS_MAX + 5}, "Ann")
    assert [event.done for event in facts.events] == list(range(6, EVENTS_MAX + 6))
    assert [row.action for row in await list_rows(stores.db, PLATFORM, limit=1)] == ["worker.drain"]
    (listed,) = (await answer_of(runs.list_runs, stores, BOB, ListRuns())).items
    assert (listed.run, listed.state) == (facts.run, RunState.DONE)


async def test_a_key_is_one_run(stores: Stores, here: LongRuns) -> None:
    """Also of calls at once at two consoles, while it runs and once it has ended."""
    there, keyed, ask = LongRuns(stores, patience_seconds=0), Terms(key="k1"), CountQuestion(then="wait")
    begun = await asyncio.gather(*(begin(console, ask, ANN, keyed) for console in (here, there) * 2))
    assert len(set(begun)) == 1
    await answer_of(runs.stop_run, stores, BOB, NameRun(run=begun[0]))
    await ended(stores, begun[0])
    assert await begin(there, ask, ANN, keyed) == begun[0]
    await there.drain()


async def test_a_run_is_stopped_at_another_console(stores: Stores, here: LongRuns) -> None:
    """It ends between two steps, and says what it did. Who stopped it is recorded once."""
    run = await begin(here, CountQuestion(then="wait"))
    assert (await shown(stores, run)).state is RunState.RUNNING
    with pytest.raises(Refused, match="may not do this"):
        await answer_of(runs.stop_run, stores, replace(BOB, role=Role.SUPPORT), NameRun(run=run))
    await answer_of(runs.stop_run, stores, BOB, NameRun(run=run), Terms(dry_run=True))
    assert not (await shown(stores, run)).stop_asked
    for _ in range(2):
        assert (await answer_of(runs.stop_run, stores, BOB, NameRun(run=run))).stop_asked
    facts = await ended(stores, run)
    assert (facts.state, facts.answer) == (RunState.STOPPED, {"number": 3})
    actions = [(row.action, row.author) for row in await list_rows(stores.db, PLATFORM, limit=2)]
    assert actions == [("run.stop", "Bob"), ("worker.drain", "Ann")]


async def test_what_ends_a_run_early_is_told(stores: Stores, here: LongRuns) -> None:
    """A refusal with its field, a fault without its words; before it is begun a refusal is the call's own."""
    with pytest.raises(Refused, match="not today"):
        await begin(here, CountQuestion(first="refuse"))
    assert (await answer_of(runs.list_runs, stores, BOB, ListRuns())).items == []
    refused = await ended(stores, await begin(here, CountQuestion(then="refuse")))
    assert refused.problem is not None
    assert (refused.state, refused.problem.field) == (RunState.REFUSED, "to")
    assert [event.what for event in refused.events] == ["step 1", "step 2", "step 3"]
    broken = await ended(stores, await begin(here, CountQuestion(then="break")))
    assert broken.problem is not None
    assert (broken.state, broken.problem.detail) == (RunState.FAILED, "this is our fault (KeyError)")


async def test_a_run_that_tells_what_it_did_answers_so_before_its_end(stores: Stores, here: LongRuns) -> None:
    """While it runs, also without a step, and where an error or the end of its process breaks it off."""
    broken = await ended(stores, await begin(here, CountQuestion(then="break", tells=True)))
    assert (broken.state, broken.answer) == (RunState.FAILED, {"number": 3})
    run = await begin(here, CountQuestion(then="hold out", tells=True))

    async def told() -> bool:
        return (await shown(stores, run)).answer == {"number": 3}

    await wait_until(told)
    await here.drain()
    facts = await shown(stores, run)
    assert (facts.state, facts.answer) == (RunState.INTERRUPTED, {"number": 3})


async def test_a_run_whose_process_died_reads_as_interrupted(stores: Stores, here: LongRuns) -> None:
    """At every console, and it is not in the way of its caller's next ones; a day later it is forgotten."""
    begun = [await left_behind(stores) for _ in range(AT_ONCE_MAX)]
    assert (await shown(stores, begun[0])).state is RunState.RUNNING
    with pytest.raises(Refused, match="runs under way"):
        await begin(here, CountQuestion())
    await begin(here, CountQuestion(), BOB)
    await lapse(stores, LAPSED_MS + 1000)
    assert (await shown(stores, begun[0])).state is RunState.INTERRUPTED
    assert (await answer_of(runs.stop_run, stores, BOB, NameRun(run=begun[0]))).stop_asked is False
    await ended(stores, await begin(here, CountQuestion()))
    await lapse(stores, KEPT_MS + 1000)
    await begin(here, CountQuestion(), BOB)
    with pytest.raises(Refused, match="there is no run"):
        await shown(stores, begun[0])


async def test_a_console_that_ends_begins_none_and_breaks_off_what_is_left(
    stores: Stores, here: LongRuns
) -> None:
    """What heeds a stop ends by it and says what it did; the rest reads as interrupted at once."""
    heeds = await begin(here, CountQuestion(then="wait"))
    holds_out = await begin(here, CountQuestion(then="hold out"))
    await here.drain()
    states = [(await shown(stores, run)).state for run in (heeds, holds_out)]
    assert states[1] is RunState.INTERRUPTED
    assert states[0] in (RunState.STOPPED, RunState.INTERRUPTED)
    with pytest.raises(Refused, match="is stopping"):
        await begin(here, CountQuestion())


async def test_a_run_is_its_tenants(stores: Stores, here: LongRuns) -> None:
    """Members see none of staff's nor of another tenant's."""
    run = await begin(here, CountQuestion())
    made = await answer_of(create_tenant, stores, ANN, CreateTenant(name="acme"))
    member = OperationActor(Author("Mia", "api"), Role.ADMIN, made.tenant, "mia")
    assert (await answer_of(runs.list_runs, stores, member, ListRuns())).items == []
    for ask in (NameRun(run=run), NameRun(run=run, tenant="other")):
        with pytest.raises(Refused) as refused:
            await answer_of(runs.show_run, stores, member, ask)
        assert refused.value.refusal.unknown
