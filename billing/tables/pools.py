"""Tables of pools: what each one should be, which tenants are let into one that is another's, and what the
fleet's controller sees of them and of its machines."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKeyConstraint, Index, text
from sqlmodel import Field

from core.sql.database import TableBase

ACTIVE, DRAINING = "active", "draining"
SHARED = ""  # `tenant_id` of a pool that is nobody's
_ACTIVE = text(f"state = '{ACTIVE}'")


class PoolRow(TableBase, table=True):
    """What a pool should be: `workers` workers of one version of a model, on nodes with these labels.

    `tenant_id`: who pays for its GPUs (the project `project_id`, where it is not empty) and is served there;
    empty: it is shared. Of active pools of one model one is shared, and each tenant has one at most.
    `reserve_…_tokens`: KV tokens that lower classes leave free. `generation`: the number of the last change
    of what its workers should be. `pool_owner` is its history: who paid for it when.

    `version` is what new requests get. `next_version`: wanted, not switched to yet, as workers of it are made
    ready first; empty: nothing is under way. `earlier_version`: the one before, for a rollback.
    `cut_off_after_ms`: how long after the switch requests may still run on the version before, 0: to their
    end; `old_until_ms`: that time once it is known. `accept_gap`: nobody may serve during the switch, where
    there is no room for workers of both."""

    __tablename__ = "pool"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("generation >= 1", name="ck_pool_generation"),
        CheckConstraint(
            "reserve_interactive_tokens >= 0 AND reserve_standard_tokens >= 0", name="ck_pool_reserves"
        ),
        CheckConstraint(f"state IN ('{ACTIVE}', '{DRAINING}')", name="ck_pool_state"),
        CheckConstraint("workers >= 0", name="ck_pool_workers"),
        CheckConstraint("cut_off_after_ms >= 0 AND old_until_ms >= 0", name="ck_pool_cut_off"),
        Index(
            "uq_pool_model",
            "tenant_id",
            "model",
            unique=True,
            sqlite_where=_ACTIVE,
            postgresql_where=_ACTIVE,
        ),
    )

    pool: str = Field(primary_key=True)
    model: str
    version: str
    workers: int = Field(sa_type=BigInteger)
    labels: dict[str, str] = Field(sa_type=JSON)
    tenant_id: str = SHARED
    project_id: str = ""
    reserve_interactive_tokens: int = Field(default=0, sa_type=BigInteger)
    reserve_standard_tokens: int = Field(default=0, sa_type=BigInteger)
    generation: int = Field(default=1, sa_type=BigInteger)
    state: str = ACTIVE
    made_ms: int = Field(sa_type=BigInteger)
    next_version: str = ""
    earlier_version: str = ""
    cut_off_after_ms: int = Field(default=0, sa_type=BigInteger)
    old_until_ms: int = Field(default=0, sa_type=BigInteger)
    accept_gap: bool = False


class PoolAdmission(TableBase, table=True):
    """A tenant that is let into another's pool: its tokens are billed by its own price book."""

    __table_args__ = (
        ForeignKeyConstraint(["pool"], ["pool.pool"], name="fk_pool_admission_pool"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_pool_admission_tenant"),
    )

    pool: str = Field(primary_key=True)
    tenant_id: str = Field(primary_key=True)
    created_ms: int = Field(sa_type=BigInteger)


class PoolState(TableBase, table=True):
    """What the controller saw of a pool in its last round, and did: `workers` of generation `generation` are
    wanted, `running` run, start or drain on `node`, `elsewhere` are told to on other nodes, `ready` are
    registered on any. `step`: see StepKind; `why`: the reason where the pool is not as it should be;
    `since_ms`: since when it is, or is not, in this generation; `served_ms`: when a worker of it was ready
    first, 0: never; `versions`: of each that is about its `workers`, how many are `ready`, and how many
    `requests` pin it, at most until `until_ms`."""

    pool: str = Field(primary_key=True)
    generation: int = Field(sa_type=BigInteger)
    workers: int = Field(sa_type=BigInteger)
    running: int = Field(sa_type=BigInteger)
    elsewhere: int = Field(sa_type=BigInteger)
    ready: int = Field(sa_type=BigInteger)
    as_desired: bool
    step: str
    why: str
    node: str
    controller: str
    since_ms: int = Field(sa_type=BigInteger)
    served_ms: int = Field(default=0, sa_type=BigInteger)
    observed_ms: int = Field(sa_type=BigInteger)
    versions: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)


class FleetNode(TableBase, table=True):
    """A machine of the fleet, as its controller sees it: room for `room` workers in all, and its labels."""

    node: str = Field(primary_key=True)
    room: int = Field(sa_type=BigInteger)
    labels: dict[str, str] = Field(sa_type=JSON)
    controller: str
    observed_ms: int = Field(sa_type=BigInteger)
