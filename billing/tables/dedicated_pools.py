"""Tables of dedicated pools: ready times of their GPUs, their owners, tenants' commitments, and the
platform's own costs. Times are Redis' time in Unix ms."""

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index
from sqlmodel import Field

from core.sql.database import TableBase


class PoolInterval(TableBase, table=True):
    """A time within one hour in which a worker was ready without a gap, `busy_ms` of it with requests.

    `device`: counted once even where several workers report it (a GPU's uuid, for example). `to_ms` is the
    last heartbeat so far. `counted`: the interval was booked, or needs no booking. `pool_owner` says whose
    the time is."""

    __table_args__ = (
        CheckConstraint("from_ms <= to_ms", name="ck_pool_interval_time"),
        CheckConstraint("busy_ms >= 0 AND busy_ms <= to_ms - from_ms", name="ck_pool_interval_busy"),
        CheckConstraint("gpus >= 0", name="ck_pool_interval_gpus"),
        Index("ix_pool_interval_hour", "hour_ms"),
        Index("ix_pool_interval_counted", "counted", "hour_ms"),
    )

    pool: str = Field(primary_key=True)
    worker: str = Field(primary_key=True)
    from_ms: int = Field(primary_key=True, sa_type=BigInteger)
    to_ms: int = Field(sa_type=BigInteger)
    busy_ms: int = Field(default=0, sa_type=BigInteger)
    hour_ms: int = Field(sa_type=BigInteger)
    device: str
    gpu_type: str
    gpus: int
    state: str
    counted: bool = False


class PoolOwner(TableBase, table=True):
    """Owner of a pool from a time on. `tenant_id` empty: the pool is shared again."""

    pool: str = Field(primary_key=True)
    from_ms: int = Field(primary_key=True, sa_type=BigInteger)
    tenant_id: str
    project_id: str = ""
    created_ms: int = Field(sa_type=BigInteger)


class Commitment(TableBase, table=True):
    """GPUs that a tenant pays for whether it uses them or not, in whole hours. `pool` empty: in any of its
    own pools with GPUs of this type. Rates are nano-USD per GPU-hour; `overage_nano` None: further hours cost
    the book's price. `payment`: upfront or monthly. In force from `start_ms` to `end_ms`, or to `ends_ms`
    where it was ended early; ended at its start, it was never in force."""

    __table_args__ = (
        CheckConstraint("gpus > 0", name="ck_commitment_gpus"),
        CheckConstraint("rate_nano >= 0", name="ck_commitment_rate"),
        CheckConstraint("overage_nano IS NULL OR overage_nano >= 0", name="ck_commitment_overage"),
        CheckConstraint("start_ms < end_ms", name="ck_commitment_time"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_commitment_tenant"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    pool: str = ""
    gpu_type: str
    gpus: int
    rate_nano: int = Field(sa_type=BigInteger)
    overage_nano: int | None = Field(default=None, sa_type=BigInteger)
    payment: str
    start_ms: int = Field(sa_type=BigInteger)
    end_ms: int = Field(sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)
    notice_days: int = 30
    ends_ms: int | None = Field(default=None, sa_type=BigInteger)

    @property
    def until_ms(self) -> int:
        """End of the time in force, in Unix ms."""
        return self.end_ms if self.ends_ms is None else min(self.end_ms, self.ends_ms)


class GpuCost(TableBase, table=True):
    """The platform's own cost of a GPU-hour from a time on. Region empty: regions without a row."""

    __table_args__ = (CheckConstraint("hour_nano >= 0", name="ck_gpu_cost_hour"),)

    gpu_type: str = Field(primary_key=True)
    region: str = Field(primary_key=True)
    valid_from_ms: int = Field(primary_key=True, sa_type=BigInteger)
    hour_nano: int = Field(sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)
