"""The table of reports that are sent by mail. Times are Unix milliseconds."""

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKeyConstraint
from sqlmodel import Field

from core.sql.database import TableBase


class ReportSchedule(TableBase, table=True):
    """A chargeback report (`rows`, `columns`, `only` as it is asked for) of which members are told by mail.
    `every`: month (once it is closed) or week. `people`: ids of those who are told; none: all who may see
    money. `last_period`: the last one that they were told of, at `last_ms`."""

    __table_args__ = (
        CheckConstraint("every IN ('month', 'week')", name="ck_report_schedule_every"),
        ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_report_schedule_tenant"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    rows: str
    columns: str
    only: str
    every: str
    people: list[str] = Field(sa_type=JSON)
    created_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)
    last_period: str
    last_ms: int | None = Field(default=None, sa_type=BigInteger)
