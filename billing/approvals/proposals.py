"""Changes that move more money than one person may alone: one proposes, another approves.

The audit log has a row for each step, with different authors. What is approved is performed again, as its
proposer: it is committed only where it moves the proposed amount, to the nano, and once.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import msgspec
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from billing.approvals.approver_mail import tell_approvers
from billing.approvals.proposed_operations import ProposedOperation, proposed_by
from billing.audit.log import record, recorded_rows
from billing.tables.approvals import Proposal
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.moves import NeedsSecondPerson
from billing.unit_of_work.perform import Performed, call_of, perform, replied, stream_recorded
from billing.unit_of_work.replies import CallKey, RepliedBefore, claim, keep
from billing.unit_of_work.units import Stores, Terms
from core.actor import acting_as
from core.clock import iso_time, now_ms
from core.errors import bad_request, see, unknown
from core.ids import uuid7
from core.names import checked_name
from core.operations import MoneyAmount, Operation
from core.sql.database import Database

KEPT_MS = 30 * 60_000
WAITING_MAX = 100
WAITING: Literal["waiting"] = "waiting"
NAMED_ONCE = ("key", "request", "grant")  # of an operation's struct: the same is booked once
BOOKED, REJECTED, FAILED = "booked", "rejected", "failed"


class ListOfWaiting(msgspec.Struct, frozen=True):
    """Where what waits is listed: as problems name an operation to see."""

    operation: str = "approvals.list"
    method: str = "GET"
    path: str = "/api/approvals"


class WaitingMove(msgspec.Struct, frozen=True):
    """What the caller of a move is told that waits for a second person. `amount`: how much it moves; `why` it
    takes two."""

    proposal: str
    amount: MoneyAmount
    expires: str | None
    state: Literal["waiting"] = WAITING
    see: ListOfWaiting = ListOfWaiting()
    why: str = ""

    @classmethod
    def of(cls, row: Proposal, why: str) -> "WaitingMove":
        """The answer for a proposal that was just made."""
        return cls(row.id, MoneyAmount.of(row.amount_nano), iso_time(row.expires_ms), why=why)


async def perform_or_propose(
    stores: Stores, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
) -> Performed:
    """Perform an operation, or propose it where it needs a second person: then the answer is a WaitingMove,
    and the call's key is the proposal's. Raises Refused as both do."""
    try:
        return await perform(stores, who, operation, ask, terms)
    except NeedsSecondPerson as needs:
        try:
            row, new = await propose(stores, who, operation, ask, terms, needs)
        except RepliedBefore as before:
            return replied(before.kept)
        afterwards = partial(tell_approvers, stores, row) if new else None
        return Performed(WaitingMove.of(row, needs.why), waits=True, afterwards=afterwards)


async def propose(
    stores: Stores,
    who: OperationActor,
    operation: Operation,
    ask: msgspec.Struct,
    terms: Terms,
    needs: NeedsSecondPerson,
) -> tuple[Proposal, bool]:
    """Store a proposal of what needs a second person, and True; or False with the one that waits already of
    the same grant, request or key. Raises Refused where they may not propose it any more; RepliedBefore where
    the call's key was used."""
    call = call_of(stores.settings, who, operation, ask, terms)
    with acting_as(replace(who.author, reason=terms.reason)):
        what = proposed_by(operation, ask, needs.tenant_id, terms.reason)
        row = _made(what, who, needs)
        once = any(getattr(ask, name, "") for name in NAMED_ONCE)
        waiting = await _store(stores, who, row, call, needs.why, once)
    return waiting, waiting is row


def _made(what: ProposedOperation, who: OperationActor, needs: NeedsSecondPerson) -> Proposal:
    now = now_ms()
    return Proposal(
        tenant_id=needs.tenant_id,
        id=uuid7(now),
        kind=what.kind,
        move=msgspec.json.encode(what, order="sorted").decode(),
        amount_nano=needs.nano,
        author=who.author.name,
        by=who.proposes_as,
        created_ms=now,
        expires_ms=now + KEPT_MS,
    )


async def _store(
    stores: Stores, who: OperationActor, row: Proposal, call: CallKey | None, why: str, once: bool
) -> Proposal:
    async with stores.db.transaction() as session:
        if call is not None and (kept := await claim(session, call)) is not None:
            raise RepliedBefore(kept)
        if once and (earlier := await _same(session, row)) is not None:
            if call is not None:
                await keep(session, call, WaitingMove.of(earlier, why), None, earlier.id)
            return earlier
        if await _waiting(session, row.created_ms) >= WAITING_MAX:
            raise bad_request(f"{WAITING_MAX} proposals wait already: approve or reject some first")
        session.add(row)
        await record(session, row.tenant_id, "proposal.make", row.id, None, facts_of(row))
        if call is not None:
            await keep(session, call, WaitingMove.of(row, why), None, row.id)
        if who.still is not None:
            await who.still(session)
    await stream_recorded(stores, recorded_rows(session))
    return row


async def _same(session: AsyncSession, row: Proposal) -> Proposal | None:
    """What waits already of the same move by the same proposer."""
    statement = select(Proposal).where(
        col(Proposal.tenant_id) == row.tenant_id,
        col(Proposal.by) == row.by,
        col(Proposal.state) == WAITING,
        col(Proposal.expires_ms) > row.created_ms,
        col(Proposal.move) == row.move,
    )
    return (await session.exec(statement)).first()


def facts_of(row: Proposal) -> dict[str, object]:
    """The proposal's facts for the audit log."""
    return {
        "kind": row.kind,
        "move": msgspec.json.decode(row.move),
        "amount_nano": row.amount_nano,
        "expires_ms": row.expires_ms,
        "proposed_by": row.by,
    }


async def reject(db: Database, id: str, reason: str) -> Proposal:
    """End a waiting proposal: anybody may, its proposer too. Raises Refused."""
    checked_name("reason", reason)
    async with db.transaction() as session:
        row = await _locked(session, id)
        _check_open(row, now_ms())
        row.state, row.why, row.ended_ms = REJECTED, reason, now_ms()
        await record(session, row.tenant_id, "proposal.reject", row.id, None, {"reason": reason})
    return row


def waiting_at(now: int) -> SelectOfScalar[Proposal]:
    """The statement of the proposals that wait at a time; their ids are in the order in which they were made.
    Pure."""
    return select(Proposal).where(col(Proposal.state) == WAITING, col(Proposal.expires_ms) > now)


def state_of(row: Proposal, now: int) -> str:
    """Present state, in one word. Pure."""
    return "expired" if row.state == WAITING and now >= row.expires_ms else row.state


def _check_open(row: Proposal, now: int) -> None:
    if (state := state_of(row, now)) != WAITING:
        raise bad_request(f"the proposal does not wait any more: it is {state}")


async def waiting_proposal(session: AsyncSession, id: str) -> Proposal:
    """A proposal that waits, which nobody else ends before this transaction does. Raises Refused."""
    row = await _locked(session, id)
    _check_open(row, now_ms())
    return row


async def fail_proposal(db: Database, id: str, why: str) -> None:
    """End a proposal that could not be booked as it was approved, where it still waits."""
    async with db.transaction() as session:
        row = await _locked(session, id)
        if row.state == WAITING:
            row.state, row.why, row.ended_ms = FAILED, why[:500], now_ms()
            await record(session, row.tenant_id, "proposal.fail", row.id, None, {"why": row.why})


async def _locked(session: AsyncSession, id: str) -> Proposal:
    row = (await session.exec(select(Proposal).where(col(Proposal.id) == id).with_for_update())).first()
    if row is None:
        raise unknown(f"there is no proposal {id!r}", field="proposal", see=see("approvals.list"))
    return row


async def _waiting(session: AsyncSession, now: int) -> int:
    statement = select(func.count()).where(col(Proposal.state) == WAITING, col(Proposal.expires_ms) > now)
    return (await session.exec(statement)).one()
