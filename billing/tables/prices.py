"""Tables beside the flat prices: tiers, prices of GPUs, tenants' commitments, closed periods and their
charges. Only the end of a commitment is ever changed, and nothing is deleted."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKeyConstraint, Index
from sqlmodel import Field

from billing.tables.tenants import PLATFORM
from core.sql.database import TableBase


class PriceTier(TableBase, table=True):
    """Price of a period's whole quantity of one meter, in one version of a book. `mode`: graduated, volume or
    package; `tiers` as billing/prices/tiers.py reads them; `minimum_nano` is the least charge where the meter
    was used."""

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
    """Price of a dedicated pool's GPU in one version of a book, in nano-USD per 1,000,000 seconds. Type `*`:
    all not named."""

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
    """A tenant's monthly commitment. `model` and `meter` empty: to spend at least `committed_nano`. Else to
    use `units` of the meter for `committed_nano`; further use costs `overage_nano` per 1,000,000 or, where
    that is None, the book's price. In force from `start_ms` to `end_ms`, or to `ends_ms` where it was ended
    early; ended at its start, it was never in force."""

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
    """A closed month of a tenant, which never changes: its window and zone, and its lines, which are those up
    to `line_seq` that ended in it. Later lines count, and are trued up, in the first open month. `time_zone`:
    the zone in which its days began. `lacks`: what was still under way at a forced close
    (billing/closing/period_gaps.py); None: nothing known."""

    __table_args__ = (CheckConstraint("start_ms < end_ms", name="ck_period_close_time"),)

    tenant_id: str = Field(primary_key=True)
    start_ms: int = Field(primary_key=True, sa_type=BigInteger)
    end_ms: int = Field(sa_type=BigInteger)
    month: str
    line_seq: int = Field(sa_type=BigInteger)
    amount_nano: int = Field(sa_type=BigInteger)
    closed_ms: int = Field(sa_type=BigInteger)
    lacks: dict[str, Any] | None = Field(default=None, sa_type=JSON)
    time_zone: str


class Charge(TableBase, table=True):
    """Source of lines that belong to no request: `id` stands in their `request_id`. `kind`: true_up, pool or
    commitment; `source`: the pool's name or the commitment's id. The period is the one charged for; the lines
    may count in a later one."""

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
        """The id that its lines have in `request_id`."""
        return self.id

    @property
    def reason(self) -> str:
        """Empty: a charge has no end reason, as it is no request."""
        return ""
