"""Tables of the edge: conversations and their messages.

Ids are made by clients, so they are keys only together with the tenant: one tenant can neither meet nor take
another's. A message's request may still run: its row is made with the request and completed by the recorder.
"""

from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlmodel import Field

from core.sql.database import TableBase


class MessageStatus(StrEnum):
    """Status of a message: whether it is complete."""

    RUNNING = "running"
    ENDED = "ended"


class Conversation(TableBase, table=True):
    """A thread of one owner (tenant, project, key or user). `system`: what its prompts begin with; empty:
    with nothing. `deleted_ms` hides it; purge.py deletes it."""

    __table_args__ = (
        Index("ix_conversation_owner", "tenant_id", "project_id", "owner_key", "user_id", "updated_ms", "id"),
        Index(
            "ix_conversation_deleted",
            "deleted_ms",
            sqlite_where=text("deleted_ms IS NOT NULL"),
            postgresql_where=text("deleted_ms IS NOT NULL"),
        ),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    project_id: str
    owner_key: str
    user_id: str
    title: str
    system: str = ""
    created_ms: int = Field(sa_type=BigInteger)
    updated_ms: int = Field(sa_type=BigInteger)
    deleted_ms: int | None = Field(default=None, sa_type=BigInteger)


class Message(TableBase, table=True):
    """One message. The fields from `reason` on belong to an answer: facts of its `end`, and the state of its
    log (`epoch`, `head`), so that it can be replayed once the log is gone. `owner_key` (first key of a chain
    of rotations) and `user_id` (empty: none) say who sent the turn, in a service key's conversation too;
    `parent_id` is the answer that this one goes on with, else empty. `flags` and `safety` are what a safety
    policy marked in the text, and what blocked it (server/protocol/flags.py); `context` what an answer's
    prompt had of the conversation, and its most tokens (history.py)."""

    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "conversation_id"],
            ["conversation.tenant_id", "conversation.id"],
            name="fk_message_conversation",
            deferrable=True,
            initially="DEFERRED",
        ),
        UniqueConstraint("tenant_id", "conversation_id", "position", name="uq_message_position"),
        UniqueConstraint("tenant_id", "request_id", "role", name="uq_message_request"),
        Index(
            "uq_message_running",
            "tenant_id",
            "conversation_id",
            unique=True,
            sqlite_where=text("status = 'running'"),
            postgresql_where=text("status = 'running'"),
        ),
        Index("ix_message_user", "tenant_id", "user_id", "conversation_id", "position"),
        CheckConstraint("role IN ('system', 'user', 'assistant')", name="ck_message_role"),
        CheckConstraint("status IN ('running', 'ended')", name="ck_message_status"),
        CheckConstraint("cost_nano >= 0", name="ck_message_cost"),
    )

    tenant_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    conversation_id: str
    position: int
    role: str
    content: str
    request_id: str
    status: str
    model: str = ""
    reason: str = ""
    code: str = ""
    usage: dict[str, Any] | None = Field(default=None, sa_type=JSON)
    timing: dict[str, Any] | None = Field(default=None, sa_type=JSON)
    flags: list[dict[str, Any]] | None = Field(default=None, sa_type=JSON)
    safety: dict[str, Any] | None = Field(default=None, sa_type=JSON)
    cost_nano: int = Field(default=0, sa_type=BigInteger)
    epoch: int = 1
    head: int = 0
    created_ms: int = Field(sa_type=BigInteger)
    ended_ms: int | None = Field(default=None, sa_type=BigInteger)
    owner_key: str = ""
    user_id: str = ""
    parent_id: str = ""
    context: dict[str, Any] | None = Field(default=None, sa_type=JSON)
