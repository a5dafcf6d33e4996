"""Tenants, keys, prices and usage, with the price book "default"."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make billing's first tables and version 1 of the default prices."""
    _make_prices()
    _make_tenants()
    _make_usage()
    _seed_default_prices()


def _make_tenants() -> None:
    op.create_table(
        "tenant",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("price_book_id", sa.String(), nullable=False),
        sa.Column("priority_max", sa.String(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_ms", sa.BigInteger()),
        sa.UniqueConstraint("name", name="uq_tenant_name"),
        sa.ForeignKeyConstraint(["price_book_id"], ["price_book.id"], name="fk_tenant_price_book"),
    )
    op.create_table(
        "project",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_ms", sa.BigInteger()),
        sa.UniqueConstraint("tenant_id", "name", name="uq_project_name"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_project_tenant"),
    )
    op.create_table(
        "account",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_account_tenant"),
    )
    op.create_table(
        "api_key",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("secret_sha256", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("priority_max", sa.String(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger()),
        sa.Column("revoked_ms", sa.BigInteger()),
        sa.Column("rotated_from", sa.String()),
        sa.UniqueConstraint("prefix", name="uq_api_key_prefix"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "project_id"], ["project.tenant_id", "project.id"], name="fk_api_key_project"
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "rotated_from"], ["api_key.tenant_id", "api_key.id"], name="fk_api_key_rotated"
        ),
    )


def _make_prices() -> None:
    op.create_table(
        "price_book",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "price_version",
        sa.Column("book_id", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("valid_from_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("version >= 1", name="ck_price_version_version"),
        sa.ForeignKeyConstraint(["book_id"], ["price_book.id"], name="fk_price_version_book"),
    )
    op.create_table(
        "price",
        sa.Column("book_id", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True),
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("input_nano", sa.BigInteger(), nullable=False),
        sa.Column("cached_input_nano", sa.BigInteger(), nullable=False),
        sa.Column("output_nano", sa.BigInteger(), nullable=False),
        sa.Column("request_nano", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("input_nano >= 0", name="ck_price_input"),
        sa.CheckConstraint("cached_input_nano >= 0", name="ck_price_cached_input"),
        sa.CheckConstraint("output_nano >= 0", name="ck_price_output"),
        sa.CheckConstraint("request_nano >= 0", name="ck_price_request"),
        sa.ForeignKeyConstraint(
            ["book_id", "version"],
            ["price_version.book_id", "price_version.version"],
            name="fk_price_version",
        ),
    )


def _make_usage() -> None:
    op.create_table(
        "usage_event",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("request_id", sa.String(), primary_key=True),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("pool", "model", "fingerprint")),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("project_id", "key_id", "user_id")),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("accepted_ms", sa.BigInteger(), nullable=False),
        sa.Column("claimed_ms", sa.BigInteger(), nullable=False),
        sa.Column("first_token_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("input_uncached", sa.BigInteger(), nullable=False),
        sa.Column("input_cached", sa.BigInteger(), nullable=False),
        sa.Column("output_text", sa.BigInteger(), nullable=False),
        sa.Column("output_reasoning", sa.BigInteger(), nullable=False),
        sa.Column("price_book_id", sa.String(), nullable=False),
        sa.Column("price_version", sa.Integer(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("cost_nano", sa.BigInteger(), nullable=False),
        sa.Column("claims", sa.Integer(), nullable=False),
        sa.Column("recomputed_tokens", sa.BigInteger(), nullable=False),
        sa.Column("request_metadata", sa.JSON(), nullable=False),
        sa.Column("event_sha256", sa.String(), nullable=False),
        sa.Column("posted_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("input_uncached >= 0", name="ck_usage_event_input_uncached"),
        sa.CheckConstraint("input_cached >= 0", name="ck_usage_event_input_cached"),
        sa.CheckConstraint("output_text >= 0", name="ck_usage_event_output_text"),
        sa.CheckConstraint("output_reasoning >= 0", name="ck_usage_event_output_reasoning"),
        sa.CheckConstraint("cost_nano >= 0", name="ck_usage_event_cost"),
    )
    op.create_index("ix_usage_event_tenant_ended", "usage_event", ["tenant_id", "ended_ms"])
    op.create_table(
        "usage_quarantine",
        sa.Column("event_sha256", sa.String(), primary_key=True),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("event", sa.LargeBinary(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_usage_quarantine_tenant", "usage_quarantine", ["tenant_id", "created_ms"])


def _seed_default_prices() -> None:
    """0.10 USD per million input tokens, a quarter of it when cached, 0.40 USD per million output tokens."""
    book = sa.table("price_book", *(sa.column(name) for name in ("id", "tenant_id", "name", "currency")))
    book.append_column(sa.column("created_ms"))
    op.bulk_insert(
        book, [{"id": "default", "tenant_id": "", "name": "Default", "currency": "usd", "created_ms": 0}]
    )
    version = sa.table(
        "price_version",
        *(sa.column(name) for name in ("book_id", "version", "tenant_id", "valid_from_ms", "created_ms")),
    )
    op.bulk_insert(
        version,
        [{"book_id": "default", "version": 1, "tenant_id": "", "valid_from_ms": 0, "created_ms": 0}],
    )
    price = sa.table(
        "price",
        *(sa.column(name) for name in ("book_id", "version", "model", "tenant_id")),
        *(sa.column(name) for name in ("input_nano", "cached_input_nano", "output_nano", "request_nano")),
    )
    op.bulk_insert(
        price,
        [
            {
                "book_id": "default",
                "version": 1,
                "model": "*",
                "tenant_id": "",
                "input_nano": 100_000_000,
                "cached_input_nano": 25_000_000,
                "output_nano": 400_000_000,
                "request_nano": 0,
            }
        ],
    )
