"""Operations on tenants' commitments to GPUs, and on what GPUs cost the platform."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlmodel import col, select

from billing.dedicated_pools.commitment_rates import owed_at_once_nano
from billing.dedicated_pools.commitments import (
    HOURS_MAX,
    NOTICE_DAYS_MAX,
    GpuTerms,
    commit_gpus,
    end_gpu_commitment,
    set_gpu_cost,
)
from billing.operations.shared_fields import AUDIT, NameTenant, TenantName
from billing.periods import HOUR_MS
from billing.tables.dedicated_pools import Commitment, GpuCost
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.operations import MONEY, OPERATORS, PAYERS, STAFF, ListedPage, MoneyAmount, Uses, operation

DAYS_MAX = HOURS_MAX // 24
DAY_MS = 24 * HOUR_MS
BOOKS = "ledger_head ledger_txn ledger_entry usage_line commitment"
READ = "tenant price_book pool_owner budget rollup_hour"


class GpuPayment(StrEnum):
    """When a commitment is paid."""

    MONTHLY = "monthly"
    UPFRONT = "upfront"


class CommitToGpus(NameTenant, frozen=True, kw_only=True):
    """GPUs that a tenant is to pay for, whether used or not."""

    gpu: Annotated[str, Meta(description="The type of GPU as `pools usage` shows it, or `*`.")]
    gpus: Annotated[int, Meta(description="How many.")]
    rate: Annotated[
        MoneyAmount, Meta(description="For a GPU-hour, used or not, with its currency: '2.40 USD'.")
    ]
    days: Annotated[int, Meta(ge=1, le=DAYS_MAX, description="For how long.")]
    overage: Annotated[
        MoneyAmount | None,
        Meta(description="For a GPU-hour beyond, as '3.20 USD'; by default the price book's."),
    ] = None
    pool: Annotated[str, Meta(description="Only in this pool; by default in all of the tenant's.")] = ""
    payment: GpuPayment = GpuPayment.MONTHLY
    notice_days: Annotated[
        int, Meta(ge=0, le=NOTICE_DAYS_MAX, description="How long it goes on when it is ended.")
    ] = 30


class ListGpuCommitments(ListQuestion, frozen=True, kw_only=True):
    """Whose commitments."""

    tenant: TenantName


class EndGpuCommitment(NameTenant, frozen=True, kw_only=True):
    """Which commitment is to end, and how."""

    commitment: Annotated[str, Meta(description="The commitment's id.")]
    as_never_made: Annotated[
        bool, Meta(description="Take it back as if it had never been, before it begins.")
    ] = False


class SetGpuCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a GPU-hour costs the platform from now on."""

    gpu: Annotated[str, Meta(description="The type of GPU; `*`: any other.")]
    hour: Annotated[MoneyAmount, Meta(description="For a GPU-hour, with its currency: '1.10 USD'.")]
    region: Annotated[str, Meta(description="Only there.")] = ""


class GpuCommitmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A commitment to GPUs. `overage` None: the price book's; `to` None: it was taken back; `given_back`:
    what is owed no more of what was paid upfront."""

    id: str
    gpu: str
    gpus: int
    pool: str
    rate: MoneyAmount
    overage: MoneyAmount | None
    payment: GpuPayment
    start: str | None = msgspec.field(name="from")
    to: str | None
    agreed_to: str | None
    notice_days: int
    given_back: MoneyAmount | UnsetType = UNSET

    @classmethod
    def of(cls, row: Commitment, **more: Any) -> "GpuCommitmentFacts":
        """The facts of a row."""
        return cls(
            id=row.id,
            gpu=row.gpu_type,
            gpus=row.gpus,
            pool=row.pool,
            rate=MoneyAmount.of(row.rate_nano),
            overage=None if row.overage_nano is None else MoneyAmount.of(row.overage_nano),
            payment=GpuPayment(row.payment),
            start=iso_time(row.start_ms),
            to=iso_time(row.until_ms) if row.until_ms > row.start_ms else None,
            agreed_to=iso_time(row.end_ms),
            notice_days=row.notice_days,
            **more,
        )


class GpuCostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The platform's cost of a GPU-hour from a time on. `region` empty: everywhere."""

    gpu: str
    region: str
    start: str | None = msgspec.field(name="from")
    hour: MoneyAmount

    @classmethod
    def of(cls, row: GpuCost) -> "GpuCostFacts":
        """The facts of a row."""
        return cls(
            gpu=row.gpu_type,
            region=row.region,
            start=iso_time(row.valid_from_ms),
            hour=MoneyAmount.of(row.hour_nano),
        )


@operation(
    "pools.commit",
    "POST /tenants/{tenant}/gpu-commitments",
    may=MONEY,
    audit="commitment.create",
    reason=True,
    uses=Uses(reads=READ, writes=f"{BOOKS} {AUDIT}"),
)
async def commit_to_gpus(change: Change, ask: CommitToGpus) -> GpuCommitmentFacts:
    """Commit a tenant to GPUs from the next full hour on: paid whether they are used or not, and used
    first."""
    owner = await change.tenant(ask.tenant)
    start = -(-change.now_ms() // HOUR_MS) * HOUR_MS
    terms = GpuTerms(
        gpu_type=ask.gpu,
        gpus=ask.gpus,
        start_ms=start,
        end_ms=start + ask.days * DAY_MS,
        rate_nano=ask.rate.value,
        overage_nano=None if ask.overage is None else ask.overage.value,
        pool=ask.pool,
        payment=ask.payment,
        notice_days=ask.notice_days,
    )
    row = await commit_gpus(change.db, owner.tenant_id, terms)
    if owed := owed_at_once_nano(row):
        await change.moves(owner.tenant_id, owed)
    return GpuCommitmentFacts.of(row)


@operation(
    "pools.commitments",
    "GET /tenants/{tenant}/gpu-commitments",
    may=STAFF | PAYERS,
    uses=Uses(reads="tenant commitment"),
)
async def list_gpu_commitments(look: Look, ask: ListGpuCommitments) -> ListedPage[GpuCommitmentFacts]:
    """List a tenant's commitments to GPUs, oldest first. What was taken back holds in no hour."""
    owner = await look.tenant(ask.tenant)
    statement = select(Commitment).where(col(Commitment.tenant_id) == owner.tenant_id)
    key = (col(Commitment.start_ms), col(Commitment.id))
    return await listed_page(look, ask, statement, key, GpuCommitmentFacts.of)


@operation(
    "pools.end_commitment",
    "POST /tenants/{tenant}/gpu-commitments/{commitment}/end",
    may=MONEY,
    audit="commitment.end",
    reason=True,
    uses=Uses(reads=READ, writes=f"{BOOKS} {AUDIT}"),
)
async def end_commitment_to_gpus(change: Change, ask: EndGpuCommitment) -> GpuCommitmentFacts:
    """End a commitment to GPUs after its notice, with a full hour. What was paid upfront for the rest is owed
    no more."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    row, back = await end_gpu_commitment(
        change.db, owner, ask.commitment, change.terms.reason, ask.as_never_made
    )
    if back:
        await change.moves(owner, back)
    return GpuCommitmentFacts.of(row, given_back=MoneyAmount.of(back))


@operation("pools.costs", "GET /gpu-costs", may=OPERATORS | MONEY, uses=Uses(reads="gpu_cost"))
async def list_gpu_costs(look: Look, ask: ListQuestion) -> ListedPage[GpuCostFacts]:
    """List the platform's costs of GPU-hours, for margins."""
    key = (col(GpuCost.gpu_type), col(GpuCost.region), col(GpuCost.valid_from_ms))
    return await listed_page(look, ask, select(GpuCost), key, GpuCostFacts.of)


@operation(
    "pools.set_cost",
    "POST /gpu-costs",
    may=MONEY,
    audit="gpu.cost",
    reason=True,
    uses=Uses(writes=f"gpu_cost {AUDIT}"),
)
async def set_cost_of_gpu(change: Change, ask: SetGpuCost) -> GpuCostFacts:
    """Set the platform's cost of a GPU-hour from now on."""
    return GpuCostFacts.of(await set_gpu_cost(change.db, ask.gpu, ask.region, ask.hour.value, None))


OPERATIONS = (
    commit_to_gpus,
    list_gpu_commitments,
    end_commitment_to_gpus,
    list_gpu_costs,
    set_cost_of_gpu,
)
