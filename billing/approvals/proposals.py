"""Changes that move more money than one person may alone: one proposes, another approves.

The audit log has a row for each step, with different authors. What is approved is performed again, as its
proposer: it is committed only where it moves the proposed amount, to the nano, and once.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import msgspec
from sqlmodel import and_, col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.approvals.approver_mail import tell_approvers
from billing.approvals.approvers import approved_by, approver_for
from billing.approvals.codes import code_hash, new_code
from billing.approvals.proposed_operations import ProposedOperation, about, proposed_by, proposed_in
from billing.approvals.proposers import proposer_of
from billing.approvals.second_person import NotDelivered, ProposalSummary, send_code, shown_second
from billing.audit.log import record, recorded_rows
from billing.tables.approvals import Proposal
from billing.tables.tenants import Tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.moves import NeedsSecondPerson
from billing.unit_of_work.perform import Performed, call_of, perform, replied, stream_recorded
from billing.unit_of_work.replies import CallKey, RepliedBefore, claim, keep
from billing.unit_of_work.units import Stores, Terms
from core.actor import acting_as
from core.clock import iso_time, now_ms
from core.errors import Refused, bad_request, see, unknown
from core.ids import uuid7
from core.names import checked_name
from core.operations import Operation
from core.runtime.failed_rounds import store_errors
from core.signing.signed_text import Keyring
from core.sql.database import Database
from core.sql.locks import one_at_a_time

KEPT_MS = 30 * 60_000
TRIES_MAX = 5
WAITING_MAX = 100
LISTED_MAX = 1_000
APPROVALS = "approvals"  # name of the lock: approvals with one code run one after another
WAITING: Literal["waiting"] = "waiting"
APPROVED, BOOKED, REJECTED, FAILED = "approved", "booked", "rejected", "failed"
UNKNOWN = "a store went away, maybe after it was booked: propose it again, nothing is booked twice"
NO_CODE = "the code is not the one that was sent for this proposal"


class WaitingMove(msgspec.Struct, frozen=True):
    """What the caller of a move is told that waits for a second person. `nano`: how much it moves."""

    proposal: str
    nano: str
    expires: str | None
    state: Literal["waiting"] = WAITING
    see: str = "approvals.list"

    @classmethod
    def of(cls, row: Proposal) -> "WaitingMove":
        """The answer for a proposal that was just made."""
        return cls(row.id, str(row.amount_nano), iso_time(row.expires_ms))


async def perform_or_propose(
    stores: Stores, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
) -> Performed:
    """Perform an operation, or propose it where it needs a second person: then the answer is a WaitingMove,
    and the call's key is the proposal's. Raises Refused as both do."""
    try:
        return await perform(stores, who, operation, ask, terms)
    except NeedsSecondPerson as needs:
        try:
            row = await propose(stores, who, operation, ask, terms, needs)
        except RepliedBefore as before:
            return replied(before.kept)
    return Performed(WaitingMove.of(row), waits=True, afterwards=partial(tell_approvers, stores, row))


async def propose(
    stores: Stores,
    who: OperationActor,
    operation: Operation,
    ask: msgspec.Struct,
    terms: Terms,
    needs: NeedsSecondPerson,
) -> Proposal:
    """Store a proposal of what needs a second person. Raises Refused where they may not propose it any more,
    StartupError where nothing can be sent to a second person; RepliedBefore where the call's key was used."""
    call = call_of(stores.settings, who, operation, ask, terms)
    with acting_as(replace(who.author, reason=terms.reason)):
        what = proposed_by(operation, ask, needs.tenant_id, terms.reason)
        coded = not who.id  # of what people and tokens propose, whoever approves signs in
        second, code = approver_for(stores.settings, who.author.name) if coded else "", new_code()
        row = _made(what, who, second, needs)
        row.code_sha256 = code_hash(code, row, stores.settings.keyring) if second else ""
        tenant = await _store(stores, who, row, call)
        if second:
            await _send(stores, row, ProposalSummary(tenant.name, about(row), code))
    return row


def _made(what: ProposedOperation, who: OperationActor, second: str, needs: NeedsSecondPerson) -> Proposal:
    now = now_ms()
    return Proposal(
        tenant_id=needs.tenant_id,
        id=uuid7(now),
        kind=what.kind,
        move=msgspec.json.encode(what, order="sorted").decode(),
        amount_nano=needs.nano,
        author=who.author.name,
        by=who.proposes_as,
        second=second,
        code_sha256="",
        created_ms=now,
        expires_ms=now + KEPT_MS,
    )


async def _store(stores: Stores, who: OperationActor, row: Proposal, call: CallKey | None) -> Tenant:
    async with stores.db.transaction() as session:
        if call is not None and (kept := await claim(session, call)) is not None:
            raise RepliedBefore(kept)
        if await _waiting(session, row.created_ms) >= WAITING_MAX:
            raise bad_request(f"{WAITING_MAX} proposals wait already: approve or reject some first")
        tenant = await session.get_one(Tenant, row.tenant_id)
        session.add(row)
        await record(session, row.tenant_id, "proposal.make", row.id, None, facts_of(row))
        if call is not None:
            await keep(session, call, WaitingMove.of(row), None, row.id)
        if who.still is not None:
            await who.still(session)
    await stream_recorded(stores, recorded_rows(session))
    return tenant


async def _send(stores: Stores, row: Proposal, told: ProposalSummary) -> None:
    try:
        await send_code(stores.settings, row, told)
    except NotDelivered as error:
        await _end(stores.db, row, FAILED, f"its code was not delivered: {error}")
        raise bad_request(f"nothing is proposed, as its code could not be sent: {error}") from error


def facts_of(row: Proposal) -> dict[str, object]:
    """The proposal's facts for the audit log, without the hash of its code."""
    return {
        "kind": row.kind,
        "move": msgspec.json.decode(row.move),
        "amount_nano": row.amount_nano,
        "second": shown_second(row.second),
        "expires_ms": row.expires_ms,
        "proposed_by": row.by,
    }


async def approve(stores: Stores, id: str, code: str) -> tuple[Proposal, Performed]:
    """Perform a proposal in its proposer's name. Raises Refused where the code is wrong, or it would no
    longer do what was proposed; the code is used up then all the same.

    The same code performs it again where that was cut off after approval: money moved under an operation's
    own key is not moved twice. Approvals run one after another, so that none takes another that is at work
    for one that was cut off."""
    async with one_at_a_time(stores.db, APPROVALS):
        row, again = await _use_code(stores.db, stores.settings.keyring, id, code)
        return row, await _perform(stores, row, again)


async def _perform(stores: Stores, row: Proposal, again: bool) -> Performed:
    try:
        what = proposed_in(row)
        operation, ask = what.declared()
        terms = Terms(reason=what.reason, approved_nano=row.amount_nano)
        async with stores.db.session() as session:
            proposer = await proposer_of(session, row)
        done = await perform(stores, proposer, operation, ask, terms)
        if not done.moved_nano and not again:
            raise bad_request("what was proposed was done before")
    except Refused as refused:
        await _end(stores.db, row, FAILED, refused.refusal.message)
        raise
    except store_errors():
        await _end(stores.db, row, FAILED, UNKNOWN)
        raise
    await _end(stores.db, row, BOOKED, "")
    return done


async def _use_code(db: Database, keyring: Keyring, id: str, code: str) -> tuple[Proposal, bool]:
    """Use the code of a proposal, record the second person's approval, and return the proposal and whether it
    was approved before. Committed by itself: wrong tries are counted."""
    async with db.transaction() as session:
        row = await _locked(session, id)
        again = row.state == APPROVED
        if not again:
            _check_open(row, now_ms())
        if (by := approved_by(row, code, keyring)) is not None:
            row.state = APPROVED
            await record(session, row.tenant_id, "proposal.approve", row.id, None, facts_of(row), by)
            return row, again
        row.tries += 1
        if row.tries >= TRIES_MAX:
            row.state, row.why, row.ended_ms = FAILED, f"{TRIES_MAX} codes were wrong", now_ms()
            await record(session, row.tenant_id, "proposal.fail", row.id, None, {"why": row.why})
    raise bad_request(NO_CODE + (": it is over" if row.state == FAILED else ""))


async def reject(db: Database, id: str, reason: str) -> Proposal:
    """End a waiting proposal: anybody may, its proposer too. Raises Refused."""
    checked_name("reason", reason)
    async with db.transaction() as session:
        row = await _locked(session, id)
        _check_open(row, now_ms())
        row.state, row.why, row.ended_ms = REJECTED, reason, now_ms()
        await record(session, row.tenant_id, "proposal.reject", row.id, None, {"reason": reason})
    return row


async def list_proposals(db: Database, ended: bool = False) -> Sequence[Proposal]:
    """Proposals that wait, or whose booking was cut off, oldest first; or the last ones of any state, newest
    first."""
    statement = select(Proposal)
    if ended:
        statement = statement.order_by(col(Proposal.created_ms).desc(), col(Proposal.id).desc())
    else:
        waits = and_(col(Proposal.state) == WAITING, col(Proposal.expires_ms) > now_ms())
        cut_off = col(Proposal.state) == APPROVED
        statement = statement.where(or_(waits, cut_off)).order_by(col(Proposal.created_ms), col(Proposal.id))
    async with db.session() as session:
        return (await session.exec(statement.limit(LISTED_MAX))).all()


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


async def _end(db: Database, row: Proposal, state: str, why: str) -> None:
    """Store the outcome; failures go to the audit log too."""
    async with db.transaction() as session:
        kept = await _locked(session, row.id)
        if kept.state == BOOKED:  # never failed over money that moved
            return
        kept.state, kept.why, kept.ended_ms = state, why[:500], now_ms()
        if state == FAILED:
            await record(session, row.tenant_id, "proposal.fail", row.id, None, {"why": kept.why})
