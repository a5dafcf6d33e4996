"""Tables of people who sign in: staff of the platform, and members of tenants. Times are Unix ms."""

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint
from sqlmodel import Field

from core.sql.database import TableBase


class Person(TableBase, table=True):
    """Somebody who signs in. Their name and address stand here alone. `email`: case-folded, None: they sign
    in by links only; `password_hash`: argon2's, None: none was set; `totp_hidden`: the secret of their second
    factor, hidden under the installation's (core/signing/hidden_bytes.py), None: none; `totp_pending`: one
    that no code has confirmed yet; `totp_step`: time step of the last code that was taken."""

    __table_args__ = (UniqueConstraint("email", name="uq_person_email"),)

    id: str = Field(primary_key=True)
    name: str
    email: str | None = None
    language: str = ""
    password_hash: str | None = None
    totp_hidden: str | None = None
    totp_pending: str | None = None
    totp_step: int = Field(default=0, sa_type=BigInteger)
    created_ms: int = Field(sa_type=BigInteger)
    closed_ms: int | None = Field(default=None, sa_type=BigInteger)


class Membership(TableBase, table=True):
    """A person's role in a tenant, or with PLATFORM among the platform's staff. One that has ended may begin
    again."""

    __table_args__ = (
        ForeignKeyConstraint(["person_id"], ["person.id"], name="fk_membership_person"),
        Index("ix_membership_person", "person_id"),
    )

    tenant_id: str = Field(primary_key=True)
    person_id: str = Field(primary_key=True)
    role: str
    created_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)


class Invitation(TableBase, table=True):
    """A link by which somebody becomes a member, once. Only the SHA-256 of its code is kept. `email`:
    case-folded; `by`: the inviting person's id, empty for a command; `revoked_ms`: a later invitation of
    the same address took its place, or somebody withdrew it."""

    __table_args__ = (
        UniqueConstraint("code_sha256", name="uq_invitation_code"),
        Index("ix_invitation_email", "tenant_id", "email"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    code_sha256: str
    email: str
    role: str
    by: str
    created_ms: int = Field(sa_type=BigInteger)
    expires_ms: int = Field(sa_type=BigInteger)
    used_ms: int | None = Field(default=None, sa_type=BigInteger)
    revoked_ms: int | None = Field(default=None, sa_type=BigInteger)


class PersonSession(TableBase, table=True):
    """A browser in which a person is signed in, acting in one membership. Only the SHA-256 of its cookie's
    token is kept. `second_factor_ms`: when they showed a code of their second factor in it."""

    __table_args__ = (
        UniqueConstraint("token_sha256", name="uq_person_session_token"),
        Index("ix_person_session_person", "person_id"),
        Index("ix_person_session_ends", "ends_ms"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    token_sha256: str
    person_id: str
    address: str
    agent: str
    made_ms: int = Field(sa_type=BigInteger)
    seen_ms: int = Field(sa_type=BigInteger)
    ends_ms: int = Field(sa_type=BigInteger)
    second_factor_ms: int | None = Field(default=None, sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)


class ServiceToken(TableBase, table=True):
    """What a script shows instead of signing in: a role in a tenant, or with PLATFORM among the staff. Only
    its `prefix` and the SHA-256 of the rest are kept. `by`: the person who made it, empty for a command."""

    __table_args__ = (
        UniqueConstraint("prefix", name="uq_service_token_prefix"),
        CheckConstraint("expires_ms > created_ms", name="ck_service_token_expires"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    name: str
    role: str
    prefix: str
    token_sha256: str
    by: str
    created_ms: int = Field(sa_type=BigInteger)
    expires_ms: int = Field(sa_type=BigInteger)
    last_used_ms: int | None = Field(default=None, sa_type=BigInteger)
    revoked_ms: int | None = Field(default=None, sa_type=BigInteger)
