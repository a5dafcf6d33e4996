"""Table of money moves that wait for a second person."""

from sqlalchemy import BigInteger, CheckConstraint, Index, Text
from sqlmodel import Field

from core.sql.database import TableBase


class Proposal(TableBase, table=True):
    """A move (`move`: JSON of an operation and its struct) that one person asked for and a second must
    approve, signed in.

    `by`: the proposer's person id, `token:ID` or `unix:NAME`; `author`: their name; `why`: reason why it was
    not booked."""

    __table_args__ = (
        CheckConstraint("state IN ('waiting', 'booked', 'rejected', 'failed')", name="ck_proposal_state"),
        Index("ix_proposal_expires", "expires_ms"),
        Index("ix_proposal_id", "id"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    kind: str
    move: str = Field(sa_type=Text)
    amount_nano: int = Field(sa_type=BigInteger)
    author: str
    by: str
    state: str = "waiting"
    why: str = ""
    created_ms: int = Field(sa_type=BigInteger)
    expires_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)
