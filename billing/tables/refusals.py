"""Tables of refused requests: counts by the minute, and the position in the stream of refusals."""

from sqlalchemy import JSON, BigInteger, Index
from sqlmodel import Field

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


class RefusalMark(TableBase, table=True):
    """The last counted entry of the stream. Its row is the lock of the process that counts."""

    installation: str = Field(primary_key=True)
    last_ms: int = Field(default=0, sa_type=BigInteger)
    last_seq: int = Field(default=0, sa_type=BigInteger)
