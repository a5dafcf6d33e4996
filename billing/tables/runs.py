"""Table of runs: operations that take long, and were begun over the API."""

from sqlalchemy import BigInteger, CheckConstraint, Text
from sqlmodel import Field

from core.sql.database import TableBase


class OperationRun(TableBase, table=True):
    """One run of a long operation. `tenant_id`: the caller's, of staff PLATFORM; `author`: the caller's name;
    `events`, `answer`, `problem`: JSON; `beat_ms`: when its process last said that it lives; `stop_ms`: when
    somebody asked it to stop."""

    __table_args__ = (
        CheckConstraint(
            "state IN ('running', 'done', 'refused', 'failed', 'stopped', 'interrupted')",
            name="ck_operation_run_state",
        ),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    caller: str
    author: str
    operation: str
    state: str
    events: str = Field(sa_type=Text)
    answer: str = Field(sa_type=Text)
    problem: str = Field(sa_type=Text)
    begun_ms: int = Field(sa_type=BigInteger)
    beat_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)
    stop_ms: int | None = Field(default=None, sa_type=BigInteger)
