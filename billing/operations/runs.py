"""Operations on runs: what takes long and was begun over the API. A member sees those of their tenant, staff
those of staff, or of a tenant that they name."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlmodel import col, select, update

from billing.audit.log import record
from billing.operations.shared_fields import AUDIT
from billing.tables.runs import OperationRun
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.progress import ProgressEvent
from billing.unit_of_work.run_rows import RunProblem, RunState, state_of
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import forbidden, see, unknown
from core.operations import DEVELOPERS, MEMBERS, OPERATORS, STAFF, ListedPage, Uses, operation, registered
from core.sql.selects import untyped

RunTenant = Annotated[str | None, Meta(description="Runs of this tenant's members (name or id).")]
READS = "tenant operation_run"
MOVE = "pools.move"


class ListRuns(ListQuestion, frozen=True, kw_only=True):
    """Whose runs, and of what."""

    tenant: RunTenant = None
    operation: Annotated[str | None, Meta(description="Only those of this operation, like pools.move.")] = (
        None
    )


class NameRun(msgspec.Struct, frozen=True, kw_only=True):
    """Which run."""

    run: Annotated[str, Meta(description="The run's id.")]
    tenant: RunTenant = None


class TenantMove(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant that moves from a pool to another, and how far that is."""

    tenant: str
    pool: str
    to: str
    streams_moved: int = 0
    streams_to_move: int = 0


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list. `by`: who began it; `stop_asked`: somebody asked it to stop; `move`: of `pools.move`,
    what moves."""

    run: str
    operation: str
    state: RunState
    by: str
    begun: str | None
    ended: str | None
    stop_asked: bool
    move: TenantMove | None


class RunFacts(RunSummary, frozen=True, kw_only=True):
    """A run. `events`: its last 100 steps; `answer`: its operation's, once it has one, or of some what they
    did until now; `problem`: why it ended early."""

    events: list[ProgressEvent]
    answer: Any
    problem: RunProblem | None


@operation("runs.list", "GET /runs", may=STAFF | MEMBERS, uses=Uses(reads=READS))
async def list_runs(look: Look, ask: ListRuns) -> ListedPage[RunSummary]:
    """List what takes long and was begun lately, newest first."""
    owner, now = await _owner(look, ask.tenant), look.now_ms()
    statement = select(OperationRun).where(col(OperationRun.tenant_id) == owner)
    if ask.operation is not None:
        statement = statement.where(col(OperationRun.operation) == ask.operation)
    return await listed_page(
        look,
        ask,
        statement,
        col(OperationRun.id),
        lambda row: RunSummary(**_summary(row, now)),
        newest_first=True,
    )


@operation("runs.show", "GET /runs/{run}", may=STAFF | MEMBERS, uses=Uses(reads=READS))
async def show_run(look: Look, ask: NameRun) -> RunFacts:
    """Show a run: how far it is, or what it answered. It is kept for a day."""
    return _facts(await _run(look, ask), look.now_ms())


@operation(
    "runs.stop",
    "POST /runs/{run}/stop",
    may=OPERATORS | DEVELOPERS,
    audit="run.stop",
    uses=Uses(reads="tenant", writes=f"operation_run {AUDIT}"),
)
async def stop_run(change: Change, ask: NameRun) -> RunFacts:
    """Ask a run to stop, between two steps: what is done stays done, and its answer says what. Repeating it
    changes nothing."""
    row, now = await _run(change, ask), change.now_ms()
    declared = registered().get(row.operation)
    if declared is None or change.who.role not in declared.may:
        raise forbidden(f"your role, {change.who.role}, may not do this ({row.operation}), nor stop it")
    if state_of(row, now) is not RunState.RUNNING or row.stop_ms is not None:
        return _facts(row, now)
    async with change.db.transaction() as session:
        this = (col(OperationRun.tenant_id) == row.tenant_id, col(OperationRun.id) == row.id)
        await untyped(session).exec(update(OperationRun).where(*this).values(stop_ms=now))
        await record(session, row.tenant_id, "run.stop", row.id, None, {"operation": row.operation})
    return msgspec.structs.replace(_facts(row, now), stop_asked=True)


async def _owner(unit: Look | Change, named: str | None) -> str:
    """Whose runs are meant: the caller's tenant's, or the one that staff names."""
    if named is not None:
        return (await unit.tenant(named)).tenant_id
    return unit.who.tenant or PLATFORM


async def _run(unit: Look | Change, ask: NameRun) -> OperationRun:
    owner = await _owner(unit, ask.tenant)
    async with unit.db.session() as session:
        row = await session.get(OperationRun, (owner, ask.run))
    if row is None:
        raise unknown(f"there is no run {ask.run!r}", field="run", see=see("runs.list"))
    return row


def _summary(row: OperationRun, now: int) -> dict[str, Any]:
    return {
        "run": row.id,
        "operation": row.operation,
        "state": state_of(row, now),
        "by": row.author,
        "begun": iso_time(row.begun_ms),
        "ended": iso_time(row.ended_ms),
        "stop_asked": row.stop_ms is not None,
        "move": msgspec.json.decode(row.answer, type=TenantMove | None) if row.operation == MOVE else None,
    }


def _facts(row: OperationRun, now: int) -> RunFacts:
    return RunFacts(
        **_summary(row, now),
        events=msgspec.json.decode(row.events, type=list[ProgressEvent]),
        answer=msgspec.json.decode(row.answer),
        problem=msgspec.json.decode(row.problem, type=RunProblem | None),
    )


OPERATIONS = (list_runs, show_run, stop_run)
