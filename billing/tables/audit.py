"""Tables of what administrators did. Rows are added, never changed or deleted, but for a chain's head."""

from sqlalchemy import BigInteger, Index, Text
from sqlmodel import Field

from core.sql.database import TableBase


class AuditHead(TableBase, table=True):
    """The end of a tenant's audit chain. Its row is the lock that every writer of the chain takes.

    `tenant_id` PLATFORM: the chain of changes that belong to no tenant."""

    tenant_id: str = Field(primary_key=True)
    seq: int = Field(default=0, sa_type=BigInteger)
    sha256: str = ""


class AuditLog(TableBase, table=True):
    """One change by an administrator. `seq` counts a chain's rows from 1 without a gap. `before` and `after`
    are JSON without secrets; `states_sha256` covers its rows of AuditState, empty where there are none;
    `sha256` covers the row and the one before it."""

    __table_args__ = (Index("ix_audit_log_at", "tenant_id", "at_ms"),)

    tenant_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_type=BigInteger)
    at_ms: int = Field(sa_type=BigInteger)
    author: str
    source: str
    action: str
    target: str
    before: str = Field(sa_type=Text)
    after: str = Field(sa_type=Text)
    previous_sha256: str
    states_sha256: str = ""
    sha256: str


class AuditState(TableBase, table=True):
    """State of a table's row (`thing`) after a change. `state`: JSON of its columns, `null` where it was
    deleted; `was`: earlier values of the changed columns, `null` where there was no row, and empty where they
    were not read."""

    __table_args__ = (Index("ix_audit_state_change", "tenant_id", "seq", "number"),)

    tenant_id: str = Field(primary_key=True)
    thing: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_type=BigInteger)
    number: int
    state: str = Field(sa_type=Text)
    was: str = Field(sa_type=Text)
