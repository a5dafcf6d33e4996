"""Tables of reconciliation: what was found to differ, and what workers' engines counted."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, Index
from sqlmodel import Field

from billing.tables.tenants import PLATFORM
from core.sql.database import TableBase


class ReconItem(TableBase, table=True):
    """Two books that were found to differ, from when to when. `tenant_id` PLATFORM: of a pool.

    `check_id`: R1 to R8; `subject`: what was compared within the check; `expected` and `actual` as they were
    last seen. While it is open, `resolved_ms` is None; the same difference later is another row."""

    __table_args__ = (Index("ix_recon_item_open", "resolved_ms", "check_id"),)

    tenant_id: str = Field(default=PLATFORM, primary_key=True)
    check_id: str = Field(primary_key=True)
    subject: str = Field(primary_key=True)
    first_seen_ms: int = Field(primary_key=True, sa_type=BigInteger)
    last_seen_ms: int = Field(sa_type=BigInteger)
    resolved_ms: int | None = Field(default=None, sa_type=BigInteger)
    expected: int = Field(sa_type=BigInteger)
    actual: int = Field(sa_type=BigInteger)
    difference: int = Field(sa_type=BigInteger)
    detail: str = ""


class ReconMark(TableBase, table=True):
    """How far one of a tenant's hash chains (`ledger`, `audit`) was read and found whole, so that the next
    look reads only what came later. `sums`: of the books up to there (compared.BookSums)."""

    tenant_id: str = Field(primary_key=True)
    chain: str = Field(primary_key=True)
    seq: int = Field(default=0, sa_type=BigInteger)
    line_seq: int = Field(default=0, sa_type=BigInteger)
    sha256: str = ""
    sums: dict[str, Any] = Field(sa_type=JSON)
    verified_ms: int = Field(default=0, sa_type=BigInteger)


class EngineHour(TableBase, table=True):
    """What one worker's engine counted in one hour (UTC), beside what became of it: see EngineCounts."""

    __table_args__ = (CheckConstraint("updated_ms >= hour_ms", name="ck_engine_hour_updated"),)

    tenant_id: str = Field(default=PLATFORM, primary_key=True)
    pool: str = Field(primary_key=True)
    worker: str = Field(primary_key=True)
    hour_ms: int = Field(primary_key=True, sa_type=BigInteger)
    engine_prompt: int = Field(sa_type=BigInteger)
    engine_output: int = Field(sa_type=BigInteger)
    prompt_new: int = Field(sa_type=BigInteger)
    prompt_again: int = Field(sa_type=BigInteger)
    prompt_test: int = Field(sa_type=BigInteger)
    prompt_unseen_max: int = Field(sa_type=BigInteger)
    output_taken: int = Field(sa_type=BigInteger)
    output_dropped: int = Field(sa_type=BigInteger)
    output_test: int = Field(sa_type=BigInteger)
    output_unseen_max: int = Field(sa_type=BigInteger)
    updated_ms: int = Field(sa_type=BigInteger)


class EndedHour(TableBase, table=True):
    """What one process wrote the ends of in one hour (UTC): see EndedCounts. `agreed_ms`: when the pool's
    hour was found whole in the books after it was over, and need not be looked at again."""

    __table_args__ = (Index("ix_ended_hour_open", "agreed_ms", "hour_ms"),)

    tenant_id: str = Field(default=PLATFORM, primary_key=True)
    pool: str = Field(primary_key=True)
    writer: str = Field(primary_key=True)
    hour_ms: int = Field(primary_key=True, sa_type=BigInteger)
    requests: int = Field(sa_type=BigInteger)
    output: int = Field(sa_type=BigInteger)
    cost_nano: int = Field(sa_type=BigInteger)
    updated_ms: int = Field(sa_type=BigInteger)
    agreed_ms: int | None = Field(default=None, sa_type=BigInteger)
