"""Table of money moves that wait for a second person."""

from sqlalchemy import BigInteger, CheckConstraint, Text
from sqlmodel import Field

from core.sql.database import TableBase


class Proposal(TableBase, table=True):
    """A move (`move`: JSON of an operation and its struct) that one person asked for and a second must
    approve: signed in, or with the code that only `second` was sent. Of the code only `code_sha256` is kept,
    an HMAC over the code and the whole proposal.

    `by`: the proposer's person id, `token:ID` or `unix:NAME`; `author`: their name; `tries`: wrong codes so
    far; `why`: reason where it was not booked."""

    __table_args__ = (
        CheckConstraint(
            "state IN ('waiting', 'approved', 'booked', 'rejected', 'failed')", name="ck_proposal_state"
        ),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    kind: str
    move: str = Field(sa_type=Text)
    amount_nano: int = Field(sa_type=BigInteger)
    author: str
    by: str
    second: str
    code_sha256: str
    tries: int = 0
    state: str = "waiting"
    why: str = ""
    created_ms: int = Field(sa_type=BigInteger)
    expires_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)
