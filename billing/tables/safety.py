"""Table of safety policies: what the platform, a tenant or a project has looked for in texts. It only
grows."""

from sqlalchemy import BigInteger, CheckConstraint, Index, Text
from sqlmodel import Field, col

from billing.tables.tenants import HAS_VERDICTS, UsageRow
from core.sql.database import TableBase


class SafetyPolicy(TableBase, table=True):
    """One version of a level's document; the newest holds. `tenant_id` PLATFORM: the platform's, the floor of
    all; `project_id` empty: the whole tenant's.

    `document`: JSON (engine/policies), `sha256` its hash. Both empty: from here on the level has none.
    Erasing empties document and reason, and the hash stays."""

    __table_args__ = (CheckConstraint("version >= 1", name="ck_safety_policy_version"),)

    tenant_id: str = Field(primary_key=True)
    project_id: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_type=BigInteger)
    document: str = Field(sa_type=Text)
    sha256: str
    author: str
    reason: str
    created_ms: int = Field(sa_type=BigInteger)


# Of usage_event. It loads the dialect of Postgres, which commands on tenants' settings do without.
Index(
    "ix_usage_event_verdicts",
    *(col(UsageRow.tenant_id), col(UsageRow.ended_ms)),
    sqlite_where=HAS_VERDICTS,
    postgresql_where=HAS_VERDICTS,
)
