"""Tables of dedicated pools: when their GPUs were ready, whose they are, what tenants committed to, and what
the GPUs cost us. Times are Redis' time in Unix ms."""

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index
from sqlmodel import Field

from core.sql.database import TableBase


class PoolInterval(TableBase, table=True):
    """A time within one hour in which a worker was ready, without a gap, and `busy_ms` of it with requests.

    `device`: what is counted once whoever reports it, a GPU's uuid for example. `to_ms` is the last heartbeat
    so far. `counted`: what is here is in the books, where it belongs there. Pools are the platform's: whose
    the time is says `pool_owner`."""

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
    """Whose a pool is from a time on; `tenant_id` empty: nobody's, it is shared again."""

    pool: str = Field(primary_key=True)
    from_ms: int = Field(primary_key=True, sa_type=BigInteger)
    tenant_id: str
    project_id: str = ""
    created_ms: int = Field(sa_type=BigInteger)


class Commitment(TableBase, table=True):
    """GPUs that a tenant pays for whether it uses them or not, in whole hours. `pool` empty: in any pool of
    its own with GPUs of this type. Rates are nano-USD per GPU-hour; `overage_nano` None: what is used beyond
    costs what the book says. `payment`: upfront or monthly. It holds from `start_ms` to `end_ms` as agreed;
    where it was ended, to `ends_ms`, which at its start means never."""

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
        """When it holds no more."""
        return self.end_ms if self.ends_ms is None else min(self.end_ms, self.ends_ms)


class GpuCost(TableBase, table=True):
    """What a GPU-hour costs the platform from a time on. Region empty: in all that have no row."""

    __table_args__ = (CheckConstraint("hour_nano >= 0", name="ck_gpu_cost_hour"),)

    gpu_type: str = Field(primary_key=True)
    region: str = Field(primary_key=True)
    valid_from_ms: int = Field(primary_key=True, sa_type=BigInteger)
    hour_nano: int = Field(sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)
