"""Tables of refused requests: counts by the minute and the hour, and the position in the stream of
refusals; the index of requests that ended in an error."""

from sqlalchemy import JSON, BigInteger, Index
from sqlmodel import Field, col

from billing.tables.tenants import ENDED_IN_ERROR, UsageRow
from core.sql.database import TableBase


class RefusalMinute(TableBase, table=True):
    """Number of sends of a key and user refused with one code in one minute. Key and user `*`: all others of
    that minute; tenant PLATFORM: tenants that are not told apart. `why`: scope and dimension of the last
    refusal; `last_ids`: the latest of their requests. Deleted after a while."""

    __table_args__ = (Index("ix_refusal_minute_minute", "minute_ms"),)

    tenant_id: str = Field(primary_key=True)
    minute_ms: int = Field(primary_key=True, sa_type=BigInteger)
    key_id: str = Field(primary_key=True)
    user_id: str = Field(primary_key=True)
    code: str = Field(primary_key=True)
    number: int = Field(sa_type=BigInteger)
    why: str = ""
    last_ids: list[str] = Field(sa_type=JSON)


class RefusalHour(TableBase, table=True):
    """Number of sends refused by a limit in one hour (UTC). `why`: its scope and dimension, empty: it is no
    limit of a tenant; of a limit on keys, projects or users `key_id` or `user_id` says whose
    count was at it, `*`: further ones. `last_ms`: the minute of the last. Kept longer than minutes."""

    __table_args__ = (Index("ix_refusal_hour_hour", "hour_ms"),)

    tenant_id: str = Field(primary_key=True)
    hour_ms: int = Field(primary_key=True, sa_type=BigInteger)
    code: str = Field(primary_key=True)
    why: str = Field(primary_key=True)
    key_id: str = Field(primary_key=True)
    user_id: str = Field(primary_key=True)
    number: int = Field(sa_type=BigInteger)
    last_ms: int = Field(sa_type=BigInteger)


class RefusalMark(TableBase, table=True):
    """The last counted entry of the stream. Its row is the lock of the process that counts."""

    installation: str = Field(primary_key=True)
    last_ms: int = Field(default=0, sa_type=BigInteger)
    last_seq: int = Field(default=0, sa_type=BigInteger)


Index(
    "ix_usage_event_errors",
    *(col(UsageRow.tenant_id), col(UsageRow.ended_ms), col(UsageRow.reason)),
    *(col(UsageRow.code), col(UsageRow.cost_nano)),
    sqlite_where=ENDED_IN_ERROR,
    postgresql_where=ENDED_IN_ERROR,
)
