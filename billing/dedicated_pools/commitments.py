"""Making, ending and listing of commitments to GPUs, and the platform's own costs of GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.booking.write import lock_heads, write
from billing.closing.period_commitments import check_currency
from billing.dedicated_pools.commitment_rates import cost_nano, owed_at_once_nano, total_nano
from billing.dedicated_pools.hours import GPUS_MAX
from billing.dedicated_pools.owners import owner_of
from billing.dedicated_pools.posting import DEFERRED
from billing.ledger.transactions import RECEIVABLE, TxnKind, post
from billing.periods import HOUR_MS
from billing.prices.price_file_tiers import HOUR_SECONDS, PRICE_NANO_MAX
from billing.prices.tiers import AMOUNT_NANO_MAX
from billing.tables.dedicated_pools import Commitment, GpuCost
from billing.tables.ledger import LedgerHead
from billing.tables.tenants import PLATFORM
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.errors import bad_request, see, see_help, unknown
from core.ids import uuid7
from core.names import checked_name
from core.sql.database import Database

HOURS_MAX = 24 * 366 * 5
COMMITMENTS_MAX = 100
HOUR_NANO_MAX = PRICE_NANO_MAX * HOUR_SECONDS // 1_000_000
PAYMENTS = ("monthly", "upfront")
NOTICE_DAYS_MAX = 366


@dataclass(frozen=True)
class GpuTerms:
    """A commitment to make: GPUs of a type (`*`: any), in one pool or (empty) in all of the tenant's, for
    whole hours. Rates in nano-USD per GPU-hour."""

    gpu_type: str
    gpus: int
    start_ms: int
    end_ms: int
    rate_nano: int
    overage_nano: int | None = None
    pool: str = ""
    payment: str = "monthly"
    notice_days: int = 30


async def commit_gpus(db: Database, tenant_id: str, terms: GpuTerms) -> Commitment:
    """Add a commitment. One that is paid upfront is owed from now on, and earned hour by hour.

    Raises Refused where it is not possible: out of bounds, in the past, too many, in another currency."""
    now = now_ms()
    _check(terms, now)
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        await check_currency(session, tenant_id)
        held = await gpu_commitments_of(session, tenant_id)
        if sum(each.until_ms > now for each in held) >= COMMITMENTS_MAX:
            raise bad_request(f"a tenant has at most {COMMITMENTS_MAX} commitments to GPUs")
        if terms.pool and await owner_of(session, terms.pool) != tenant_id:
            message = f"the tenant has no pool {terms.pool!r}"
            raise unknown(message, field="pool", see=see_help("pools.create"))
        row = Commitment(
            tenant_id=tenant_id,
            id=uuid7(now),
            pool=terms.pool,
            gpu_type=terms.gpu_type,
            gpus=terms.gpus,
            rate_nano=terms.rate_nano,
            overage_nano=terms.overage_nano,
            payment=terms.payment,
            start_ms=terms.start_ms,
            end_ms=terms.end_ms,
            created_ms=now,
            notice_days=terms.notice_days,
        )
        if total_nano(row) > AMOUNT_NANO_MAX:
            raise bad_request("the commitment costs more than the books can hold")
        session.add(row)
        await session.flush()
        owed = owed_at_once_nano(row)
        if owed:
            await _owe(session, head, row, owed, now)
        after = row.model_dump() | {"owed_nano": owed}
        await record(session, tenant_id, "commitment.create", row.id, None, after)
    return row


async def _owe(session: AsyncSession, head: LedgerHead, row: Commitment, total: int, now: int) -> None:
    entries = [(RECEIVABLE, total, "", ""), (DEFERRED, -total, "", "")]
    await write(session, [post(head, TxnKind.COMMITMENT, f"commitment:{row.id}", [], entries, now)], [])


async def end_gpu_commitment(
    db: Database, tenant_id: str, commitment_id: str, reason: str, mistake: bool = False
) -> tuple[Commitment, int]:
    """End a commitment: after the notice, with a full hour; a `mistake` before it begins, as if never made.
    The part paid upfront for the rest is no longer owed, and credited.

    Raises Refused where there is no such commitment, or it ends by then in any case."""
    now = now_ms()
    says = checked_name("reason", reason)
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        row = await session.get(Commitment, (tenant_id, commitment_id))
        if row is None:
            known = see("pools.commitments", tenant=tenant_id)
            raise unknown(f"there is no commitment {commitment_id!r}", field="commitment", see=known)
        if mistake and now >= row.start_ms:
            raise bad_request("it has begun: a mistake is taken back before; end it with its notice")
        before, held_until = row.model_dump(), row.until_ms
        notice = now + row.notice_days * 24 * HOUR_MS
        ends = row.start_ms if mistake else max(row.start_ms, -(-notice // HOUR_MS) * HOUR_MS)
        if ends >= held_until:
            raise bad_request(f"the commitment {commitment_id} ends by then, or has ended")
        back = cost_nano(row, ends, held_until) if row.payment == "upfront" else 0
        row.ends_ms = ends
        if back:
            entries = [(RECEIVABLE, -back, "", ""), (DEFERRED, back, "", "")]
            name = f"commitment_end:{row.id}:{ends}"
            await write(session, [post(head, TxnKind.COMMITMENT, name, [], entries, now)], [])
        after = row.model_dump() | {"reason": says, "given_back_nano": back}
        await record(session, tenant_id, "commitment.end", row.id, before, after)
    return row, back


def _check(terms: GpuTerms, now: int) -> None:
    if not 1 <= terms.gpus <= GPUS_MAX:
        raise bad_request(f"a commitment is to 1 to {GPUS_MAX} GPUs", field="gpus")
    for field, rate in (("rate", terms.rate_nano), ("overage", terms.overage_nano or 0)):
        if not 0 <= rate <= HOUR_NANO_MAX:
            raise bad_request("a rate is from 0 to 32,400 USD for a GPU-hour", field=field)
    if terms.payment not in PAYMENTS:
        raise bad_request(f"a commitment is paid {' or '.join(PAYMENTS)}")
    if terms.start_ms % HOUR_MS or terms.end_ms % HOUR_MS:
        raise bad_request("a commitment begins and ends with a full hour (UTC)")
    if terms.start_ms < now - now % HOUR_MS:
        raise bad_request("a commitment begins with this hour or later: hours that are over are booked")
    if not 0 < terms.end_ms - terms.start_ms <= HOURS_MAX * HOUR_MS:
        raise bad_request("a commitment is for at least an hour and at most five years")
    if not 0 <= terms.notice_days <= NOTICE_DAYS_MAX:
        raise bad_request(f"a notice is of 0 to {NOTICE_DAYS_MAX} days")
    if not terms.gpu_type:
        raise bad_request("name a type of GPU, or `*`", field="gpu")


async def gpu_commitments_of(session: AsyncSession, tenant_id: str) -> Sequence[Commitment]:
    """A tenant's commitments to GPUs, oldest first."""
    statement = select(Commitment).where(col(Commitment.tenant_id) == tenant_id)
    return (await session.exec(statement.order_by(col(Commitment.start_ms), col(Commitment.id)))).all()


async def set_gpu_cost(
    db: Database, gpu_type: str, region: str, hour_nano: int, valid_from_ms: int | None
) -> GpuCost:
    """Set the platform's cost of a GPU-hour from a time on, by default now. Raises Refused where it is
    invalid."""
    now = now_ms()
    if not gpu_type:
        raise bad_request("name a type of GPU, or `*`", field="gpu")
    if not 0 <= hour_nano <= HOUR_NANO_MAX:
        raise bad_request("a GPU-hour costs from 0 to 32,400 USD", field="hour")
    async with db.transaction() as session:
        await lock_settings(session, PLATFORM)
        key = (gpu_type, region, now if valid_from_ms is None else valid_from_ms)
        before = await session.get(GpuCost, key)
        if before is not None:
            raise bad_request("there is a cost from that very time on: choose another")
        row = GpuCost(
            gpu_type=gpu_type, region=region, valid_from_ms=key[2], hour_nano=hour_nano, created_ms=now
        )
        session.add(row)
        await session.flush()
        await record(session, PLATFORM, "gpu.cost", f"{gpu_type}/{region}", None, row)
    return row


async def gpu_costs(session: AsyncSession) -> Sequence[GpuCost]:
    """All costs, by type and region, each in order of time. For operators."""
    order = (col(GpuCost.gpu_type), col(GpuCost.region), col(GpuCost.valid_from_ms))
    return (await session.exec(select(GpuCost).order_by(*order))).all()


def cost_at(costs: Sequence[GpuCost], gpu_type: str, at_ms: int, region: str = "") -> int | None:
    """The platform's cost of a GPU-hour at a time: of its region, else of all; of its type, else of any.
    None: not known. Pure."""
    for of_type in (gpu_type, "*"):
        for of_region in dict.fromkeys((region, "")):
            holds = [
                each.hour_nano
                for each in costs
                if (each.gpu_type, each.region) == (of_type, of_region) and each.valid_from_ms <= at_ms
            ]
            if holds:
                return holds[-1]
    return None
