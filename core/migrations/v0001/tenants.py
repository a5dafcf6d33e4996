"""Tenants with their plans, users and keys, what they may use, and what administrators did."""

import sqlalchemy as sa
from alembic import op

from core.migrations.v0001.columns import (
    lower_index,
    maybe_numbers,
    maybe_texts,
    number_keys,
    numbers,
    partial_index,
    text_keys,
    texts,
)


def make() -> None:
    """Make the tables of tenants, of their limits and of administrators' changes."""
    _tenants()
    _projects()
    _people()
    _limits()
    _administration()


def _tenants() -> None:
    op.create_table(
        "plan",
        *text_keys("id"),
        *texts("tenant_id", "name", "price_book_id", "priority_max"),
        sa.Column("weight", sa.Float()),
        *maybe_numbers("slots_max", "tokens_max"),
        *numbers("reserve_tokens", "created_ms"),
        *maybe_numbers("ended_ms"),
        sa.CheckConstraint("reserve_tokens >= 0", name="ck_plan_reserve"),
        sa.CheckConstraint("weight IS NULL OR weight > 0", name="ck_plan_weight"),
        sa.UniqueConstraint("name", name="uq_plan_name"),
        sa.ForeignKeyConstraint(["price_book_id"], ["price_book.id"], name="fk_plan_price_book"),
    )
    op.create_table(
        "tenant",
        *text_keys("tenant_id"),
        *texts("name", "price_book_id", "priority_max", "time_zone"),
        *numbers("created_ms"),
        *maybe_numbers("closed_ms"),
        sa.Column("shows_costs", sa.Boolean(), nullable=False),
        sa.Column("cache_by_owner", sa.Boolean(), nullable=False),
        *maybe_texts("plan_id"),
        *maybe_numbers("plan_since_ms"),
        sa.Column("regex", sa.Boolean(), nullable=False),
        sa.UniqueConstraint("name", name="uq_tenant_name"),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name="fk_tenant_plan"),
        sa.ForeignKeyConstraint(["price_book_id"], ["price_book.id"], name="fk_tenant_price_book"),
    )
    op.create_table(
        "pool_terms",
        *text_keys("tenant_id"),
        sa.Column("weight", sa.Float(), nullable=False),
        *maybe_numbers("slots_max", "tokens_max"),
        *numbers("reserve_tokens", "updated_ms"),
        sa.CheckConstraint("reserve_tokens >= 0", name="ck_pool_terms_reserve"),
        sa.CheckConstraint("weight > 0", name="ck_pool_terms_weight"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_pool_terms_tenant"),
    )


def _projects() -> None:
    op.create_table(
        "project",
        *text_keys("tenant_id", "id"),
        *texts("name"),
        *numbers("created_ms"),
        *maybe_numbers("closed_ms"),
        sa.UniqueConstraint("tenant_id", "name", name="uq_project_name"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_project_tenant"),
    )
    op.create_table(
        "cost_center",
        *text_keys("tenant_id", "id"),
        *texts("code", "name"),
        *numbers("created_ms"),
        *maybe_numbers("closed_ms"),
        sa.UniqueConstraint("tenant_id", "code", name="uq_cost_center_code"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_cost_center_tenant"),
    )
    op.create_table(
        "project_cost_center",
        *text_keys("tenant_id", "project_id"),
        *number_keys("valid_from_ms"),
        *maybe_texts("cost_center_id"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "cost_center_id"],
            ["cost_center.tenant_id", "cost_center.id"],
            name="fk_project_cost_center_center",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "project_id"],
            ["project.tenant_id", "project.id"],
            name="fk_project_cost_center_project",
        ),
    )


def _people() -> None:
    op.create_table(
        "tenant_user",
        *text_keys("tenant_id", "id"),
        *maybe_texts("name"),
        *numbers("created_ms"),
        *maybe_numbers("closed_ms", "erased_ms"),
        sa.UniqueConstraint("tenant_id", "name", name="uq_tenant_user_name"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_tenant_user_tenant"),
    )
    op.create_index("ix_tenant_user_id", "tenant_user", ["id"])
    lower_index("ix_tenant_user_lower_name", "tenant_user", "name")
    op.create_table(
        "api_key",
        *text_keys("tenant_id", "id"),
        *texts("project_id", "name", "prefix", "secret_sha256", "user_id"),
        sa.Column("shared", sa.Boolean(), nullable=False),
        *texts("owner_key"),
        sa.Column("scopes", sa.JSON(), nullable=False),
        *texts("priority_max"),
        *numbers("created_ms"),
        *maybe_numbers("expires_ms", "revoked_ms"),
        *maybe_texts("rotated_from"),
        sa.Column("origins", sa.JSON()),
        sa.UniqueConstraint("prefix", name="uq_api_key_prefix"),
        sa.UniqueConstraint("tenant_id", "rotated_from", name="uq_api_key_successor"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "project_id"], ["project.tenant_id", "project.id"], name="fk_api_key_project"
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "rotated_from"], ["api_key.tenant_id", "api_key.id"], name="fk_api_key_rotated"
        ),
    )
    op.create_index("ix_api_key_id", "api_key", ["id"])
    lower_index("ix_api_key_lower_name", "api_key", "name")
    op.create_table(
        "browser_session",
        *text_keys("tenant_id", "id"),
        *texts("token_sha256", "key_id", "user_id", "address", "agent"),
        *numbers("made_ms", "seen_ms", "ends_ms"),
        sa.Column("own_user", sa.Boolean(), nullable=False),
        sa.Column("used", sa.Boolean(), nullable=False),
        sa.UniqueConstraint("token_sha256", name="uq_browser_session_token"),
    )
    op.create_index("ix_browser_session_ends", "browser_session", ["ends_ms"])
    op.create_index("ix_browser_session_user", "browser_session", ["tenant_id", "user_id"])


def _limits() -> None:
    op.create_table(
        "quota_policy",
        *text_keys("tenant_id", "id"),
        *texts("plan_id", "scope", "scope_id", "model_glob", "dimension"),
        *numbers("limit_units"),
        *maybe_numbers("burst_units"),
        *texts("mode", "author"),
        sa.Column("by_tenant", sa.Boolean(), nullable=False),
        *numbers("created_ms"),
        *maybe_numbers("ended_ms"),
        sa.CheckConstraint("burst_units IS NULL OR burst_units >= 1", name="ck_quota_policy_burst"),
        sa.CheckConstraint("limit_units >= 0", name="ck_quota_policy_limit"),
    )
    op.create_index("ix_quota_policy_open", "quota_policy", ["tenant_id", "ended_ms"])
    counted = ["tenant_id", "plan_id", "scope", "scope_id", "model_glob", "dimension", "mode", "by_tenant"]
    partial_index("uq_quota_policy_open", "quota_policy", counted, "ended_ms IS NULL", unique=True)
    op.create_table(
        "budget",
        *text_keys("tenant_id", "id"),
        *texts("scope", "scope_id", "period"),
        *numbers("limit_nano"),
        sa.Column("hard", sa.Boolean(), nullable=False),
        *texts("mode"),
        sa.Column("thresholds", sa.JSON(), nullable=False),
        *maybe_numbers("override_nano", "override_until_ms"),
        *texts("author"),
        sa.Column("by_tenant", sa.Boolean(), nullable=False),
        *numbers("created_ms"),
        *maybe_numbers("ended_ms"),
        sa.CheckConstraint("limit_nano >= 0", name="ck_budget_limit"),
        sa.CheckConstraint("override_nano IS NULL OR override_nano >= 0", name="ck_budget_override"),
    )
    op.create_index("ix_budget_open", "budget", ["tenant_id", "ended_ms"])
    counted = ["tenant_id", "scope", "scope_id", "period", "mode", "by_tenant"]
    partial_index("uq_budget_open", "budget", counted, "ended_ms IS NULL", unique=True)


def _administration() -> None:
    op.create_table(
        "audit_head",
        *text_keys("tenant_id"),
        *numbers("seq"),
        *texts("sha256"),
    )
    op.create_table(
        "audit_log",
        *text_keys("tenant_id"),
        *number_keys("seq"),
        *numbers("at_ms"),
        *texts("author", "source", "action", "target"),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        *texts("previous_sha256", "states_sha256", "sha256"),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["tenant_id", "at_ms"])
    op.create_table(
        "audit_state",
        *text_keys("tenant_id", "thing"),
        *number_keys("seq"),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("was", sa.Text(), nullable=False),
    )
    op.create_index("ix_audit_state_change", "audit_state", ["tenant_id", "seq", "number"])
    op.create_table(
        "proposal",
        *text_keys("tenant_id", "id"),
        *texts("kind"),
        sa.Column("move", sa.Text(), nullable=False),
        *numbers("amount_nano"),
        *texts("author", "by", "state", "why"),
        *numbers("created_ms", "expires_ms"),
        *maybe_numbers("ended_ms"),
        sa.CheckConstraint("state IN ('waiting', 'booked', 'rejected', 'failed')", name="ck_proposal_state"),
    )
    op.create_index("ix_proposal_expires", "proposal", ["expires_ms"])
    op.create_index("ix_proposal_id", "proposal", ["id"])
