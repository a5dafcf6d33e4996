"""Table of noisy neighbours: tenants that took more than their share of a pool while others waited."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Index, text
from sqlmodel import Field

from core.sql.database import TableBase

_OPEN = text("closed_ms IS NULL")


class NoisyFinding(TableBase, table=True):
    """One tenant's excess use of one pool, from when it was seen until it ended or was decided on.

    `state`: open, calm, accepted or dismissed. Shares are of the pool's tokens, in permille; waits are the
    others' p95 until the first token, in ms, and `baseline_wait_ms` is their wait before. `slots_max` is the
    throttle, in force from `throttled_ms` until `lifted_ms`; `proposal` describes a sufficient dedicated
    pool, with its numbers."""

    __table_args__ = (
        Index("ix_noisy_finding_closed", "closed_ms"),
        Index(
            "uq_noisy_finding_open",
            "tenant_id",
            "pool",
            unique=True,
            sqlite_where=_OPEN,
            postgresql_where=_OPEN,
        ),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    pool: str
    state: str = "open"
    opened_ms: int = Field(sa_type=BigInteger)
    updated_ms: int = Field(sa_type=BigInteger)
    closed_ms: int | None = Field(default=None, sa_type=BigInteger)
    share_permille: int = Field(sa_type=BigInteger)
    fair_permille: int = Field(sa_type=BigInteger)
    used_tokens: int = Field(sa_type=BigInteger)
    others_wait_ms: int = Field(sa_type=BigInteger)
    baseline_wait_ms: int = Field(sa_type=BigInteger)
    slots_max: int | None = Field(default=None, sa_type=BigInteger)
    throttled_ms: int | None = Field(default=None, sa_type=BigInteger)
    lifted_ms: int | None = Field(default=None, sa_type=BigInteger)
    proposal: dict[str, Any] = Field(sa_type=JSON)
    reason: str = ""
