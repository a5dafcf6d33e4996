"""Prices: books, their versions, and what a version says of models, tiers and GPUs."""

import sqlalchemy as sa
from alembic import op

from core.migrations.v0001.columns import maybe_numbers, maybe_texts, number_keys, numbers, text_keys, texts


def make() -> None:
    """Make the tables of prices."""
    _books()
    _models()
    _gpus()


def _books() -> None:
    op.create_table(
        "price_book",
        *text_keys("id"),
        *texts("tenant_id"),
        *maybe_texts("parent_id"),
        *texts("name", "currency"),
        *numbers("created_ms"),
    )
    op.create_table(
        "price_version",
        *text_keys("book_id"),
        sa.Column("version", sa.Integer(), primary_key=True),
        *texts("tenant_id"),
        *numbers("valid_from_ms", "created_ms"),
        *maybe_numbers("withdrawn_ms"),
        sa.CheckConstraint("version >= 1", name="ck_price_version_version"),
        sa.ForeignKeyConstraint(["book_id"], ["price_book.id"], name="fk_price_version_book"),
    )


def _models() -> None:
    op.create_table(
        "price",
        *text_keys("book_id"),
        sa.Column("version", sa.Integer(), primary_key=True),
        *text_keys("model"),
        *texts("tenant_id"),
        *numbers("input_nano", "cached_input_nano", "output_nano", "request_nano"),
        sa.CheckConstraint("cached_input_nano >= 0", name="ck_price_cached_input"),
        sa.CheckConstraint("input_nano >= 0", name="ck_price_input"),
        sa.CheckConstraint("output_nano >= 0", name="ck_price_output"),
        sa.CheckConstraint("request_nano >= 0", name="ck_price_request"),
        sa.ForeignKeyConstraint(
            ["book_id", "version"],
            ["price_version.book_id", "price_version.version"],
            name="fk_price_version",
        ),
    )
    op.create_table(
        "price_tier",
        *text_keys("book_id"),
        sa.Column("version", sa.Integer(), primary_key=True),
        *text_keys("model", "meter"),
        *texts("tenant_id", "mode"),
        sa.Column("tiers", sa.JSON(), nullable=False),
        *numbers("minimum_nano"),
        sa.CheckConstraint("minimum_nano >= 0", name="ck_price_tier_minimum"),
        sa.ForeignKeyConstraint(
            ["book_id", "version", "model"],
            ["price.book_id", "price.version", "price.model"],
            name="fk_price_tier_price",
        ),
    )


def _gpus() -> None:
    op.create_table(
        "gpu_price",
        *text_keys("book_id"),
        sa.Column("version", sa.Integer(), primary_key=True),
        *text_keys("gpu_type"),
        *texts("tenant_id"),
        *numbers("second_nano"),
        sa.CheckConstraint("second_nano >= 0", name="ck_gpu_price_second"),
        sa.ForeignKeyConstraint(
            ["book_id", "version"],
            ["price_version.book_id", "price_version.version"],
            name="fk_gpu_price_version",
        ),
    )
    op.create_table(
        "gpu_cost",
        *text_keys("gpu_type", "region"),
        *number_keys("valid_from_ms"),
        *numbers("hour_nano", "created_ms"),
        sa.CheckConstraint("hour_nano >= 0", name="ck_gpu_cost_hour"),
    )
