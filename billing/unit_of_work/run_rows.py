"""Runs in SQL: operations that take long and were begun over the API, for a day and for every console.

A run's process says every few seconds that it lives. Where it no longer does, the run reads as interrupted:
nobody has to notice, and none stays under way for ever.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from sqlalchemy import func, tuple_
from sqlmodel import col, delete, select, update
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.runs import OperationRun
from billing.tables.tenants import PLATFORM
from billing.tenants.edits import lock_settings
from billing.unit_of_work.progress import BegunRun
from core.clock import now_ms
from core.errors import Refusal, Refused, see
from core.operations import no_secrets
from core.sql.batches import batch
from core.sql.database import Database
from core.sql.selects import untyped

KEPT_MS = 24 * 3_600_000
CLEARED_AT_ONCE = 100
ENDED_MAX = 500  # of a tenant; the oldest go first
AT_ONCE_MAX = 4  # of a caller
BEAT_SECONDS = 3.0
LAPSED_MS = 15_000


class RunState(StrEnum):
    """Where a run is. Stopped: somebody asked, and it ended early; interrupted: its process ended before."""

    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


class RunProblem(msgspec.Struct, frozen=True):
    """Why a run ended early."""

    code: str
    detail: str
    field: str | None = None


async def write_run(session: AsyncSession, run: BegunRun) -> None:
    """Write a new run, and forget old ones. Raises Refused where the caller has too many under way."""
    await lock_settings(session, run.tenant)  # of calls at once each counts those before
    now = now_ms()
    of_tenant = col(OperationRun.tenant_id) == run.tenant
    living = (col(OperationRun.state) == RunState.RUNNING, col(OperationRun.beat_ms) >= now - LAPSED_MS)
    mine = select(func.count()).where(of_tenant, col(OperationRun.caller) == run.caller, *living)
    if (await session.exec(mine)).one() >= AT_ONCE_MAX:
        text = f"you have {AT_ONCE_MAX} runs under way: wait for one, or stop it"
        raise Refused(Refusal("rate_limited", text, retry=True, after_ms=5000, see=see("runs.list")))
    await _forget(session, run.tenant, now)
    row = OperationRun(
        tenant_id=run.tenant,
        id=run.id,
        caller=run.caller,
        author=run.author,
        operation=run.operation.name,
        state=RunState.RUNNING,
        events="[]",
        answer=_encoded(run.progress.partial_answer),
        problem="null",
        begun_ms=now,
        beat_ms=now,
    )
    session.add(row)
    await session.flush()


async def _forget(session: AsyncSession, tenant: str, now: int) -> None:
    """Delete runs of before yesterday, and the oldest ended ones beyond ENDED_MAX."""
    of_tenant = col(OperationRun.tenant_id) == tenant
    await session.exec(delete(OperationRun).where(of_tenant, col(OperationRun.beat_ms) < now - KEPT_MS))
    ended = (of_tenant, col(OperationRun.ended_ms).is_not(None))
    newest = select(OperationRun.id).where(*ended).order_by(col(OperationRun.id).desc())
    last = (await session.exec(newest.offset(ENDED_MAX).limit(1))).first()
    if last is not None:
        await session.exec(delete(OperationRun).where(*ended, col(OperationRun.id) <= last))


async def clear_runs(db: Database, now: int, most: int = CLEARED_AT_ONCE, staff: bool = True) -> int:
    """Delete some runs of before yesterday, of tenants that begin no more; return how many. `staff` False:
    none of the platform's."""
    key = (col(OperationRun.tenant_id), col(OperationRun.id))
    old = select(*key).where(col(OperationRun.beat_ms) < now - KEPT_MS).limit(most)
    if not staff:
        old = old.where(col(OperationRun.tenant_id) != PLATFORM)
    async with db.transaction() as session:
        some = delete(OperationRun).where(tuple_(*key).in_(batch(old)))
        return (await session.exec(some)).rowcount


async def beat(session: AsyncSession, run: BegunRun) -> None:
    """Say that a run lives, how far it is, and what it would answer now where it tells that."""
    facts: dict[str, object] = {"events": msgspec.json.encode(list(run.progress.events)).decode()}
    if (answer := run.progress.partial_answer) is not None:
        facts["answer"] = _encoded(answer)
    await _set(session, run, {**facts, "beat_ms": now_ms()})


async def is_to_stop(session: AsyncSession, run: BegunRun) -> bool:
    """True once somebody asked for it, at whatever console."""
    row = (col(OperationRun.tenant_id) == run.tenant, col(OperationRun.id) == run.id)
    return (await session.exec(select(OperationRun.stop_ms).where(*row))).first() is not None


async def end_run(
    session: AsyncSession, run: BegunRun, state: RunState, answer: object, why: RunProblem | None
) -> None:
    """Write how a run ended. One that an error ended answers what it did until then, where it tells that."""
    await beat(session, run)
    facts = {"state": state, "ended_ms": now_ms(), "problem": msgspec.json.encode(why).decode()}
    if answer is not None or run.progress.so_far is None:
        facts["answer"] = _encoded(answer)
    await _set(session, run, facts)


def _encoded(answer: object) -> str:
    return msgspec.json.encode(answer, enc_hook=no_secrets).decode()


async def _set(session: AsyncSession, run: BegunRun, facts: Mapping[str, object]) -> None:
    row = (col(OperationRun.tenant_id) == run.tenant, col(OperationRun.id) == run.id)
    await untyped(session).exec(update(OperationRun).where(*row).values(**facts))


def state_of(row: OperationRun, now: int) -> RunState:
    """The state of a run: interrupted where its process said nothing for long. Pure."""
    lapsed = row.state == RunState.RUNNING and row.beat_ms < now - LAPSED_MS
    return RunState.INTERRUPTED if lapsed else RunState(row.state)
