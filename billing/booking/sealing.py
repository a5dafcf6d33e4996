"""Writes the seals of what was booked before lines had proofs: when a biller starts after an upgrade."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from billing.booking.write import lock_heads, write
from billing.ledger.proofs import charge_proof, event_proof, words_proof
from billing.ledger.seals import SEALED_AT_ONCE, ProofRun, sealed_until
from billing.ledger.transactions import LineKind, TxnKind, post
from billing.tables.ledger import LedgerHead, LedgerTxn, UsageLine
from billing.tables.prices import Charge
from billing.tables.tenants import UsageRow
from core.clock import now_ms
from core.observability.telemetry import logger
from core.sql.database import Database

log = logger(__name__)

TXNS_AT_ONCE = 200
ROWS_AT_ONCE = 500
PAUSE_SECONDS = 0.05  # others write too


async def seal_all(db: Database) -> None:
    """Seal what no proof and no seal covers, of all tenants."""
    async with db.session() as session:
        tenants = (await session.exec(select(LedgerHead.tenant_id).order_by(col(LedgerHead.tenant_id)))).all()
    for tenant in tenants:
        if number := await seal(db, tenant):
            log.info("ledger.sealed", tenant=tenant, requests=number)


async def seal(db: Database, tenant_id: str) -> int:
    """The same of one tenant. What was interrupted goes on where it was."""
    whole = 0
    while await _lacks(db, tenant_id) and (number := await _seal_once(db, tenant_id)):
        whole += number
        await asyncio.sleep(PAUSE_SECONDS)
    return whole


async def _lacks(db: Database, tenant_id: str) -> bool:
    """Whether anything may lack a seal: then somebody looks who holds the head."""
    async with db.session() as session:
        until = await _sealed_until(session, tenant_id)
        return (await session.exec(_unproved(tenant_id, until).limit(1))).first() is not None


async def _seal_once(db: Database, tenant_id: str) -> int:
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        until = await _sealed_until(session, tenant_id)
        lines = await _lines_behind(session, tenant_id, until)
        pile = await _piled(session, tenant_id, lines)
        if not pile.count:  # another biller was first
            return 0
        await write(session, [post(head, TxnKind.SEAL, pile.name(), [], [], now_ms())], [])
        return pile.count


async def _sealed_until(session: AsyncSession, tenant_id: str) -> int:
    """The last line that any seal covers."""
    seals = select(LedgerTxn.idempotency_key).where(
        col(LedgerTxn.tenant_id) == tenant_id, col(LedgerTxn.kind) == TxnKind.SEAL.value
    )
    last = (await session.exec(seals.order_by(col(LedgerTxn.seq).desc()).limit(1))).first()
    return sealed_until(last) if last else 0


def _unproved(tenant_id: str, until: int) -> SelectOfScalar[LedgerTxn]:
    """Transactions of version 1 that have lines behind `until`."""
    found = select(LedgerTxn).where(col(LedgerTxn.tenant_id) == tenant_id, col(LedgerTxn.hash_version) == 1)
    return found.where(
        col(LedgerTxn.last_line_seq) > until, col(LedgerTxn.last_line_seq) >= col(LedgerTxn.first_line_seq)
    ).order_by(col(LedgerTxn.seq))


async def _lines_behind(session: AsyncSession, tenant_id: str, until: int) -> list[UsageLine]:
    """The next lines without a proof that want one, SEALED_AT_ONCE at most, in their order."""
    found: list[UsageLine] = []
    while len(found) < SEALED_AT_ONCE:
        txns = (await session.exec(_unproved(tenant_id, until).limit(TXNS_AT_ONCE))).all()
        if not txns:
            break
        statement = select(UsageLine).where(
            col(UsageLine.tenant_id) == tenant_id,
            col(UsageLine.seq).between(max(until + 1, txns[0].first_line_seq), txns[-1].last_line_seq),
            ((col(UsageLine.kind) == LineKind.USAGE.value) & (col(UsageLine.number) == 0))
            | (col(UsageLine.kind) == LineKind.TRUE_UP.value),
        )
        lines = (await session.exec(statement.order_by(col(UsageLine.seq)).limit(SEALED_AT_ONCE))).all()
        until = lines[-1].seq if len(lines) == SEALED_AT_ONCE else txns[-1].last_line_seq
        found += _within(lines, txns)
    return found[:SEALED_AT_ONCE]


def _within(lines: Sequence[UsageLine], txns: Sequence[LedgerTxn]) -> list[UsageLine]:
    """Those that are these transactions', both in order: others of a later version lie between."""
    starts = [txn.first_line_seq for txn in txns]
    return [line for line in lines if line.seq <= txns[bisect_right(starts, line.seq) - 1].last_line_seq]


async def _piled(session: AsyncSession, tenant_id: str, lines: Sequence[UsageLine]) -> ProofRun:
    """The proofs of what these lines are of. What may be erased of it gets its own, so that a seal outlives
    that."""
    pile = ProofRun()
    for first in range(0, len(lines), ROWS_AT_ONCE):
        part = lines[first : first + ROWS_AT_ONCE]
        ids = [line.request_id for line in part]
        of_events = select(UsageRow).where(
            col(UsageRow.tenant_id) == tenant_id, col(UsageRow.request_id).in_(ids)
        )
        of_events = of_events.order_by(col(UsageRow.request_id)).with_for_update()
        events = {row.request_id: row for row in (await session.exec(of_events)).all()}
        for event in events.values():
            if not event.words_proof:
                event.words_proof = words_proof(event.user_id, event.request_metadata)
        of_charges = select(Charge).where(col(Charge.tenant_id) == tenant_id, col(Charge.id).in_(ids))
        charges = {row.id: row for row in (await session.exec(of_charges)).all()}
        for line in part:
            pile.add(line.seq, _proof(events.get(line.request_id), charges.get(line.request_id)))
        await session.flush()
    return pile


def _proof(event: UsageRow | None, charge: Charge | None) -> str:
    if event is not None:
        return event_proof(event)
    return "" if charge is None else charge_proof(charge)
