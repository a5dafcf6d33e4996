"""Table of signed-in browsers."""

from sqlalchemy import BigInteger, Index, UniqueConstraint
from sqlmodel import Field

from core.sql.database import TableBase


class BrowserSession(TableBase, table=True):
    """A browser that is signed in until it signs out. Only the SHA-256 of its cookie's secret is kept.
    `tenant_id` PLATFORM: an operator's session at the console, without a key, where `user_id` is the
    operator's name. `own_user`: the user was made for this session and ends with it; `used`: something was
    sent in it. No foreign keys: a session of a deleted tenant, key or user is useless and is cleared away at
    its end."""

    __table_args__ = (
        UniqueConstraint("token_sha256", name="uq_browser_session_token"),
        Index("ix_browser_session_user", "tenant_id", "user_id"),
        Index("ix_browser_session_ends", "ends_ms"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    token_sha256: str
    key_id: str
    user_id: str
    address: str
    agent: str
    made_ms: int = Field(sa_type=BigInteger)
    seen_ms: int = Field(sa_type=BigInteger)
    ends_ms: int = Field(sa_type=BigInteger)
    own_user: bool = False
    used: bool = False
