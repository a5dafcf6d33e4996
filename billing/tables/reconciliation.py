"""Tables of reconciliation: differences found, and counts of workers' engines."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, Index
from sqlmodel import Field

from billing.tables.tenants import PLATFORM
from core.sql.database import TableBase


class ReconItem(TableBase, table=True):
    """A difference found between two books, from when to when. `tenant_id` PLATFORM: a pool's.

    `check_id`: R1 to R8; `subject`: the thing compared within the check; `expected` and `actual` as last
    seen. `resolved_ms` is None while it is open; the same difference later is another row."""

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
    """Last verified position of one of a tenant's hash chains (`ledger`, `audit`), so that the next run reads
    only later rows. `sums`: totals of the books up to there (comparison.BookSums)."""

    tenant_id: str = Field(primary_key=True)
    chain: str = Field(primary_key=True)
    seq: int = Field(default=0, sa_type=BigInteger)
    line_seq: int = Field(default=0, sa_type=BigInteger)
    sha256: str = ""
    sums: dict[str, Any] = Field(sa_type=JSON)
    verified_ms: int = Field(default=0, sa_type=BigInteger)


class EngineHour(TableBase, table=True):
    """Token counts of one worker's engine in one hour (UTC), beside the uses of those tokens: see
    EngineCounts."""

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
    """Counts of the ends that one process wrote in one hour (UTC): see EndedCounts. `agreed_ms`: the time at
    which the pool's hour, over by then, was found whole in the books; it needs no further check."""

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
