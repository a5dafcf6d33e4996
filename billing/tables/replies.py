"""Table of replies that are kept for their callers' keys."""

from sqlalchemy import BigInteger, CheckConstraint, Text
from sqlmodel import Field

from core.sql.database import TableBase


class KeptReply(TableBase, table=True):
    """The reply (JSON, without secrets) to a call that its caller named by a key. `digest`: HMAC-SHA256 of
    what was asked; `state` under_way: an order that has no reply yet; `version`: of the thing that it edited;
    `proposal`: what the call became, as it waits for a second person; empty: it was done."""

    __table_args__ = (CheckConstraint("state IN ('under_way', 'done')", name="ck_kept_reply_state"),)

    tenant_id: str = Field(primary_key=True)
    caller: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    digest: str
    state: str
    proposal: str = ""
    reply: str = Field(sa_type=Text)
    version: int | None = Field(default=None, sa_type=BigInteger)
    made_ms: int = Field(sa_type=BigInteger)
