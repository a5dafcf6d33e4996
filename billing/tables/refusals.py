"""Tables of refused requests: counts by the minute, and how far the stream of them was read."""

from sqlalchemy import JSON, BigInteger, Index
from sqlmodel import Field

from core.sql.database import TableBase


class RefusalMinute(TableBase, table=True):
    """How often sends of a key and user were refused by a code in one minute. Key and user `*`: all others of
    that minute; tenant PLATFORM: those of tenants that are not told apart. `why`: scope and dimension that
    the last one met; `last_ids`: the last of their requests. Deleted after a while."""

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
    """The last entry of the stream that is counted. Its row is the lock of whoever counts."""

    installation: str = Field(primary_key=True)
    last_ms: int = Field(default=0, sa_type=BigInteger)
    last_seq: int = Field(default=0, sa_type=BigInteger)
