"""Moves of money that need two people: one proposes, the other approves with a code that only they received.

The audit log has a row for each step, with different authors. At approval the move is previewed again: it is
booked only where its amount is still the proposed one, to the nano, and once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
from sqlmodel import and_, col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.approvals.codes import code_hash, is_code_of, new_code
from billing.approvals.money_actions import MoneyActionResult, Move, about, action_kind, book, preview_action
from billing.approvals.recent_moves import BY_TWO
from billing.approvals.second_person import (
    NotDelivered,
    ProposalSummary,
    second_person,
    send_code,
    shown_second,
)
from billing.audit.log import record
from billing.money import to_display
from billing.tables.approvals import Proposal
from billing.tables.tenants import Tenant
from core.actor import Author, acting_as, current_author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused, StartupError, bad_request
from core.ids import uuid7
from core.names import checked_name
from core.redis.client import RedisClient
from core.runtime.failed_rounds import store_errors
from core.signing.signed_text import Keyring
from core.sql.database import Database
from core.sql.locks import one_at_a_time

KEPT_MS = 30 * 60_000
TRIES_MAX = 5
WAITING_MAX = 100
LISTED_MAX = 1_000
APPROVALS = "approvals"  # name of the lock: approvals with one code run one after another
WAITING, APPROVED, BOOKED, REJECTED, FAILED = "waiting", "approved", "booked", "rejected", "failed"
UNKNOWN = "a store went away, maybe after it was booked: propose it again, nothing is booked twice"
NO_CODE = "the code is not the one that was sent for this proposal"


async def propose(db: Database, settings: Settings, tenant: Tenant, move: Move, nano: int) -> Proposal:
    """Store a proposal to move `nano` and send the second person its code. Raises Refused or StartupError
    where that fails; then nobody can approve it."""
    second, author = second_person(settings), current_author().name
    if second is None:
        raise StartupError("nobody can approve it: set PARLEY_SECOND_PERSON")
    if second.casefold() in author.casefold():
        raise bad_request("the second person is another one than who proposes")
    now, code = now_ms(), new_code()
    row = Proposal(
        tenant_id=tenant.tenant_id,
        id=uuid7(now),
        kind=action_kind(move),
        move=msgspec.json.encode(move, order="sorted").decode(),
        amount_nano=nano,
        author=author,
        second=second,
        code_sha256="",
        created_ms=now,
        expires_ms=now + KEPT_MS,
    )
    row.code_sha256 = code_hash(code, row, settings.keyring)
    async with db.transaction() as session:
        if await _waiting(session, now) >= WAITING_MAX:
            raise bad_request(f"{WAITING_MAX} proposals wait already: approve or reject some first")
        session.add(row)
        await record(session, row.tenant_id, "proposal.make", row.id, None, facts_of(row))
    try:
        await send_code(settings, row, ProposalSummary(tenant.name, about(move), code))
    except NotDelivered as error:
        await _end(db, row, FAILED, f"its code was not delivered: {error}")
        raise bad_request(f"nothing is proposed, as its code could not be sent: {error}") from error
    return row


def facts_of(row: Proposal) -> dict[str, object]:
    """The proposal's facts for the audit log, without the hash of its code."""
    move = msgspec.json.decode(row.move)
    return {
        "kind": row.kind,
        "move": move,
        "amount_nano": row.amount_nano,
        "second": shown_second(row.second),
        "expires_ms": row.expires_ms,
    }


def about_of(row: Proposal) -> str:
    """Describe a proposal in one line."""
    return about(msgspec.json.decode(row.move.encode(), type=Move))


async def approve(
    db: Database, redis: RedisClient, keyring: Keyring, id: str, code: str
) -> tuple[Proposal, MoneyActionResult]:
    """Book a proposal in its proposer's name. Raises Refused where the code is wrong, or the move would no
    longer do what was proposed; the code is used up then all the same.

    The same code books again where a booking was cut off after approval: money booked under the move's key is
    not booked twice. Approvals run one after another, so that none takes another that is at work for one
    that was cut off."""
    async with one_at_a_time(db, APPROVALS):
        return await _approve(db, redis, keyring, id, code)


async def _approve(
    db: Database, redis: RedisClient, keyring: Keyring, id: str, code: str
) -> tuple[Proposal, MoneyActionResult]:
    row, again = await _use_code(db, keyring, id, code)
    move = msgspec.json.decode(row.move.encode(), type=Move)
    try:
        with acting_as(Author(row.author, BY_TWO)):
            found = await preview_action(db, row.tenant_id, move)
            if found.done and again:
                await book(db, redis, row.tenant_id, move, None)  # only updates enforcement
                await _end(db, row, BOOKED, "")
                return row, replace(found, nano=row.amount_nano)
            if found.done:
                raise bad_request("what was proposed was done before")
            moved = await book(db, redis, row.tenant_id, move, ProposedAmount(row.amount_nano).check)
    except Refused as refused:
        await _end(db, row, FAILED, refused.refusal.message)
        raise
    except store_errors():
        await _end(db, row, FAILED, UNKNOWN)
        raise
    await _end(db, row, BOOKED, "")
    return row, moved


@dataclass(frozen=True)
class ProposedAmount:
    """The amount that two people agreed on, in nano."""

    nano: int

    async def check(self, _: AsyncSession, nano: int) -> None:
        """Raises Refused where the move is of another amount by now."""
        if abs(nano) != self.nano:
            raise bad_request(
                f"it would move {to_display(abs(nano))} now, and {to_display(self.nano)} was proposed: "
                "propose it again"
            )


async def _use_code(db: Database, keyring: Keyring, id: str, code: str) -> tuple[Proposal, bool]:
    """Use the code of a proposal, record the second person's approval, and return the proposal and whether it
    was approved before. Wrong tries are counted."""
    async with db.transaction() as session:
        row = await _locked(session, id)
        again = row.state == APPROVED
        if not again:
            _check_open(row, now_ms())
        if is_code_of(code, row, keyring):
            row.state = APPROVED
            by = Author(f"{shown_second(row.second)} by code", "code")
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


async def _locked(session: AsyncSession, id: str) -> Proposal:
    row = (await session.exec(select(Proposal).where(col(Proposal.id) == id).with_for_update())).first()
    if row is None:
        raise bad_request(f"there is no proposal {id!r}: see `parley approvals list`")
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
