"""People who sign in, where they are members, their sessions, invitations and tokens."""

import sqlalchemy as sa
from alembic import op

from core.migrations.v0001.columns import maybe_numbers, maybe_texts, numbers, text_keys, texts


def make() -> None:
    """Make the tables of people."""
    _members()
    _sign_in()


def _members() -> None:
    op.create_table(
        "person",
        *text_keys("id"),
        *texts("name"),
        *maybe_texts("email"),
        *texts("language"),
        *maybe_texts("password_hash", "totp_hidden", "totp_pending"),
        *numbers("totp_step", "created_ms"),
        *maybe_numbers("closed_ms"),
        sa.UniqueConstraint("email", name="uq_person_email"),
    )
    op.create_table(
        "membership",
        *text_keys("tenant_id", "person_id"),
        *texts("role"),
        *numbers("created_ms"),
        *maybe_numbers("ended_ms"),
        sa.ForeignKeyConstraint(["person_id"], ["person.id"], name="fk_membership_person"),
    )
    op.create_index("ix_membership_person", "membership", ["person_id"])
    op.create_table(
        "invitation",
        *text_keys("tenant_id", "id"),
        *texts("code_sha256", "email", "role", "by"),
        *numbers("created_ms", "expires_ms"),
        *maybe_numbers("used_ms", "revoked_ms"),
        sa.UniqueConstraint("code_sha256", name="uq_invitation_code"),
    )
    op.create_index("ix_invitation_email", "invitation", ["tenant_id", "email"])


def _sign_in() -> None:
    op.create_table(
        "person_session",
        *text_keys("tenant_id", "id"),
        *texts("token_sha256", "person_id", "address", "agent"),
        *numbers("made_ms", "seen_ms", "ends_ms"),
        *maybe_numbers("second_factor_ms", "ended_ms"),
        sa.UniqueConstraint("token_sha256", name="uq_person_session_token"),
    )
    op.create_index("ix_person_session_ends", "person_session", ["ends_ms"])
    op.create_index("ix_person_session_person", "person_session", ["person_id"])
    op.create_table(
        "service_token",
        *text_keys("tenant_id", "id"),
        *texts("name", "role", "prefix", "token_sha256", "by"),
        *numbers("created_ms", "expires_ms"),
        *maybe_numbers("last_used_ms", "revoked_ms"),
        sa.CheckConstraint("expires_ms > created_ms", name="ck_service_token_expires"),
        sa.UniqueConstraint("prefix", name="uq_service_token_prefix"),
    )
