"""Conversations and messages."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the edge's first tables."""
    _make_conversation()
    _make_message()


def _make_conversation() -> None:
    op.create_table(
        "conversation",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("owner_key", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("deleted_ms", sa.BigInteger()),
    )
    op.create_index(
        "ix_conversation_owner",
        "conversation",
        ["tenant_id", "project_id", "owner_key", "user_id", "updated_ms", "id"],
    )


def _make_message() -> None:
    op.create_table(
        "message",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("usage", sa.JSON()),
        sa.Column("timing", sa.JSON()),
        sa.Column("cost_nano", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("head", sa.Integer(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger()),
        sa.ForeignKeyConstraint(
            ["tenant_id", "conversation_id"],
            ["conversation.tenant_id", "conversation.id"],
            name="fk_message_conversation",
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.UniqueConstraint("tenant_id", "conversation_id", "position", name="uq_message_position"),
        sa.UniqueConstraint("tenant_id", "request_id", "role", name="uq_message_request"),
        sa.CheckConstraint("role IN ('system', 'user', 'assistant')", name="ck_message_role"),
        sa.CheckConstraint("status IN ('running', 'ended')", name="ck_message_status"),
        sa.CheckConstraint("cost_nano >= 0", name="ck_message_cost"),
    )
    op.create_index(
        "uq_message_running",
        "message",
        ["tenant_id", "conversation_id"],
        unique=True,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )
