"""Tables of what flat prices do not say: tiers, prices of GPUs, what tenants committed to, and the closed
periods with what was charged for them. Nothing is changed or deleted but for the end of a commitment."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKeyConstraint, Index
from sqlmodel import Field

from billing.tables.tenants import PLATFORM
from core.sql.database import TableBase


class PriceTier(TableBase, table=True):
    """What a period's quantity of one meter costs in all, in one version of a book. `mode`: graduated, volume
    or package; `tiers` as billing/prices/tiers.py reads them; at least `minimum_nano` where the meter was
    used."""

    __table_args__ = (
        CheckConstraint("minimum_nano >= 0", name="ck_price_tier_minimum"),
        ForeignKeyConstraint(
            ["book_id", "version", "model"],
            ["price.book_id", "price.version", "price.model"],
            name="fk_price_tier_price",
        ),
    )

    book_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    model: str = Field(primary_key=True)
    meter: str = Field(primary_key=True)
    tenant_id: str = PLATFORM
    mode: str
    tiers: list[dict[str, Any]] = Field(sa_type=JSON)
    minimum_nano: int = Field(default=0, sa_type=BigInteger)


class GpuPrice(TableBase, table=True):
    """What a GPU of a dedicated pool costs in one version of a book, in nano-USD for 1,000,000 seconds. Type
    `*`: all not named."""

    __table_args__ = (
        CheckConstraint("second_nano >= 0", name="ck_gpu_price_second"),
        ForeignKeyConstraint(
            ["book_id", "version"],
            ["price_version.book_id", "price_version.version"],
            name="fk_gpu_price_version",
        ),
    )

    book_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    gpu_type: str = Field(primary_key=True)
    tenant_id: str = PLATFORM
    second_nano: int = Field(sa_type=BigInteger)


class PeriodCommitment(TableBase, table=True):
    """What a tenant committed to for each month in a time. `model` and `meter` empty: to spend
    `committed_nano` at least. Else to `units` of the meter for `committed_nano`; what is used beyond costs
    `overage_nano` for 1,000,000, or, where that is None, what the book says. It holds from
    `start_ms` to `end_ms` as agreed; where it was ended, to `ends_ms`, which at its start means never."""

    __table_args__ = (
        CheckConstraint("committed_nano >= 0", name="ck_period_commitment_amount"),
        CheckConstraint("units >= 0", name="ck_period_commitment_units"),
        CheckConstraint("overage_nano IS NULL OR overage_nano >= 0", name="ck_period_commitment_overage"),
        CheckConstraint("start_ms < end_ms", name="ck_period_commitment_time"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_period_commitment_tenant"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    model: str = ""
    meter: str = ""
    units: int = Field(default=0, sa_type=BigInteger)
    committed_nano: int = Field(sa_type=BigInteger)
    overage_nano: int | None = Field(default=None, sa_type=BigInteger)
    start_ms: int = Field(sa_type=BigInteger)
    end_ms: int = Field(sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)
    notice_months: int = 1
    ends_ms: int | None = Field(default=None, sa_type=BigInteger)


class PeriodClose(TableBase, table=True):
    """A closed month of a tenant, which stays what it was: its window and zone, and its lines, which are
    those up to `line_seq` that ended in it. What comes later is of the first open month, and is trued up with
    that. `time_zone`: in which its days began. `lacks`: what was under way when it was closed all the same
    (billing/closing/period_lacks.py); None: nothing that was known of."""

    __table_args__ = (CheckConstraint("start_ms < end_ms", name="ck_period_close_time"),)

    tenant_id: str = Field(primary_key=True)
    start_ms: int = Field(primary_key=True, sa_type=BigInteger)
    end_ms: int = Field(sa_type=BigInteger)
    month: str
    line_seq: int = Field(sa_type=BigInteger)
    amount_nano: int = Field(sa_type=BigInteger)
    closed_ms: int = Field(sa_type=BigInteger)
    lacks: dict[str, Any] | None = Field(default=None, sa_type=JSON)
    time_zone: str = ""


class Charge(TableBase, table=True):
    """What lines are about that are of no request: `id` stands in their `request_id`. `kind`: true_up, pool
    or commitment; `source`: the pool's name or the commitment's id. The period is the one that the charge is
    for; its lines may be in a later one."""

    __table_args__ = (
        CheckConstraint("start_ms < end_ms", name="ck_charge_time"),
        Index("ix_charge_source", "tenant_id", "kind", "source", "end_ms"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    kind: str
    source: str = ""
    project_id: str = ""
    user_id: str = ""
    key_id: str = ""
    model: str = ""
    pool: str = ""
    currency: str = "usd"
    start_ms: int = Field(sa_type=BigInteger)
    end_ms: int = Field(sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)

    @property
    def request_id(self) -> str:
        """The name under which lines know it."""
        return self.id

    @property
    def reason(self) -> str:
        """No request, so no way to end."""
        return ""
