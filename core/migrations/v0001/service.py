"""Tables of the service: models, safety policies, conversations, pools, counts with their comparisons."""

import sqlalchemy as sa
from alembic import op

from core.migrations.v0001.columns import maybe_numbers, number_keys, numbers, partial_index, text_keys, texts


def make() -> None:
    """Make the tables of models, policies, conversations, pools and checks."""
    _models()
    _policies()
    _conversations()
    _pools()
    _counts()
    _reconciliation()
    _replies()
    _runs()


def _replies() -> None:
    op.create_table(
        "kept_reply",
        *text_keys("tenant_id", "caller", "key"),
        *texts("digest", "state", "proposal"),
        sa.Column("reply", sa.Text(), nullable=False),
        *maybe_numbers("version"),
        *numbers("made_ms"),
        sa.CheckConstraint("state IN ('under_way', 'done')", name="ck_kept_reply_state"),
    )


def _models() -> None:
    op.create_table(
        "model_version",
        *text_keys("name", "version"),
        *texts("fingerprint", "folder"),
        sa.Column("max_model_len", sa.Integer(), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        *numbers("created_ms"),
        *maybe_numbers("answer_tokens", "removed_ms"),
        sa.Column("checks", sa.JSON(), nullable=False),
        sa.CheckConstraint("answer_tokens > 0", name="ck_model_version_answer_tokens"),
        sa.CheckConstraint("max_model_len > 0", name="ck_model_version_max_model_len"),
    )


def _policies() -> None:
    op.create_table(
        "safety_policy",
        *text_keys("tenant_id", "project_id"),
        *number_keys("version"),
        sa.Column("document", sa.Text(), nullable=False),
        *texts("sha256", "author", "reason"),
        *numbers("created_ms"),
        sa.CheckConstraint("version >= 1", name="ck_safety_policy_version"),
    )


def _conversations() -> None:
    op.create_table(
        "conversation",
        *text_keys("tenant_id", "id"),
        *texts("project_id", "owner_key", "user_id", "title", "system"),
        *numbers("created_ms", "updated_ms"),
        *maybe_numbers("deleted_ms"),
    )
    partial_index("ix_conversation_deleted", "conversation", ["deleted_ms"], "deleted_ms IS NOT NULL")
    op.create_index(
        "ix_conversation_owner",
        "conversation",
        ["tenant_id", "project_id", "owner_key", "user_id", "updated_ms", "id"],
    )
    op.create_table(
        "message",
        *text_keys("tenant_id", "id"),
        *texts("conversation_id"),
        sa.Column("position", sa.Integer(), nullable=False),
        *texts("role", "content", "request_id", "status", "model", "reason", "code"),
        sa.Column("usage", sa.JSON()),
        sa.Column("timing", sa.JSON()),
        sa.Column("flags", sa.JSON()),
        sa.Column("safety", sa.JSON()),
        *numbers("cost_nano"),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("head", sa.Integer(), nullable=False),
        *numbers("created_ms"),
        *maybe_numbers("ended_ms"),
        *texts("owner_key", "user_id", "parent_id"),
        sa.Column("context", sa.JSON()),
        sa.CheckConstraint("cost_nano >= 0", name="ck_message_cost"),
        sa.CheckConstraint("role IN ('system', 'user', 'assistant')", name="ck_message_role"),
        sa.CheckConstraint("status IN ('running', 'ended')", name="ck_message_status"),
        sa.UniqueConstraint("tenant_id", "conversation_id", "position", name="uq_message_position"),
        sa.UniqueConstraint("tenant_id", "request_id", "role", name="uq_message_request"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "conversation_id"],
            ["conversation.tenant_id", "conversation.id"],
            name="fk_message_conversation",
            deferrable=True,
            initially="DEFERRED",
        ),
    )
    partial_index(
        "uq_message_running", "message", ["tenant_id", "conversation_id"], "status = 'running'", unique=True
    )
    op.create_index("ix_message_user", "message", ["tenant_id", "user_id", "conversation_id", "position"])


def _pools() -> None:
    op.create_table(
        "pool",
        *text_keys("pool"),
        *texts("model", "version"),
        *numbers("workers"),
        sa.Column("labels", sa.JSON(), nullable=False),
        *texts("tenant_id", "project_id"),
        *numbers("reserve_interactive_tokens", "reserve_standard_tokens", "generation"),
        *texts("state"),
        *numbers("made_ms"),
        *texts("next_version", "earlier_version"),
        *numbers("cut_off_after_ms", "old_until_ms"),
        sa.Column("accept_gap", sa.Boolean(), nullable=False),
        sa.CheckConstraint("generation >= 1", name="ck_pool_generation"),
        sa.CheckConstraint("cut_off_after_ms >= 0 AND old_until_ms >= 0", name="ck_pool_cut_off"),
        sa.CheckConstraint(
            "reserve_interactive_tokens >= 0 AND reserve_standard_tokens >= 0", name="ck_pool_reserves"
        ),
        sa.CheckConstraint("state IN ('active', 'draining')", name="ck_pool_state"),
        sa.CheckConstraint("workers >= 0", name="ck_pool_workers"),
    )
    partial_index("uq_pool_model", "pool", ["tenant_id", "model"], "state = 'active'", unique=True)
    op.create_table(
        "pool_admission",
        *text_keys("pool", "tenant_id"),
        *numbers("created_ms"),
        sa.ForeignKeyConstraint(["pool"], ["pool.pool"], name="fk_pool_admission_pool"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_pool_admission_tenant"),
    )
    op.create_table("fleet_lease", *text_keys("name"), *texts("holder"), *numbers("until_ms"))
    op.create_table(
        "pool_state",
        *text_keys("pool"),
        *numbers("generation", "workers", "running", "elsewhere", "ready"),
        sa.Column("as_desired", sa.Boolean(), nullable=False),
        *texts("step", "why", "node", "controller"),
        *numbers("since_ms", "served_ms", "observed_ms"),
        sa.Column("versions", sa.JSON(), nullable=False),
    )
    op.create_table(
        "fleet_node",
        *text_keys("node"),
        *numbers("room"),
        sa.Column("labels", sa.JSON(), nullable=False),
        *texts("controller"),
        *numbers("observed_ms"),
    )
    op.create_table(
        "pool_owner",
        *text_keys("pool"),
        *number_keys("from_ms"),
        *texts("tenant_id", "project_id"),
        *numbers("created_ms"),
    )
    op.create_table(
        "pool_interval",
        *text_keys("pool", "worker"),
        *number_keys("from_ms"),
        *numbers("to_ms", "busy_ms", "hour_ms"),
        *texts("device", "gpu_type"),
        sa.Column("gpus", sa.Integer(), nullable=False),
        *texts("state"),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.CheckConstraint("busy_ms >= 0 AND busy_ms <= to_ms - from_ms", name="ck_pool_interval_busy"),
        sa.CheckConstraint("from_ms <= to_ms", name="ck_pool_interval_time"),
        sa.CheckConstraint("gpus >= 0", name="ck_pool_interval_gpus"),
    )
    op.create_index("ix_pool_interval_counted", "pool_interval", ["counted", "hour_ms"])
    op.create_index("ix_pool_interval_hour", "pool_interval", ["hour_ms"])
    op.create_table(
        "commitment",
        *text_keys("tenant_id", "id"),
        *texts("pool", "gpu_type"),
        sa.Column("gpus", sa.Integer(), nullable=False),
        *numbers("rate_nano"),
        *maybe_numbers("overage_nano"),
        *texts("payment"),
        *numbers("start_ms", "end_ms", "created_ms"),
        sa.Column("notice_days", sa.Integer(), nullable=False),
        *maybe_numbers("ends_ms"),
        sa.CheckConstraint("gpus > 0", name="ck_commitment_gpus"),
        sa.CheckConstraint("overage_nano IS NULL OR overage_nano >= 0", name="ck_commitment_overage"),
        sa.CheckConstraint("rate_nano >= 0", name="ck_commitment_rate"),
        sa.CheckConstraint("start_ms < end_ms", name="ck_commitment_time"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_commitment_tenant"),
    )
    op.create_table(
        "noisy_finding",
        *text_keys("tenant_id", "id"),
        *texts("pool", "state"),
        *numbers("opened_ms", "updated_ms"),
        *maybe_numbers("closed_ms"),
        *numbers("share_permille", "fair_permille", "used_tokens", "others_wait_ms", "baseline_wait_ms"),
        *maybe_numbers("slots_max", "throttled_ms", "lifted_ms"),
        sa.Column("proposal", sa.JSON(), nullable=False),
        *texts("reason"),
    )
    op.create_index("ix_noisy_finding_closed", "noisy_finding", ["closed_ms"])
    partial_index(
        "uq_noisy_finding_open", "noisy_finding", ["tenant_id", "pool"], "closed_ms IS NULL", unique=True
    )


def _counts() -> None:
    op.create_table(
        "engine_hour",
        *text_keys("tenant_id", "pool", "worker"),
        *number_keys("hour_ms"),
        *numbers(
            "engine_prompt",
            "engine_output",
            "prompt_new",
            "prompt_again",
            "prompt_test",
            "prompt_unseen_max",
            "output_taken",
            "output_dropped",
            "output_test",
            "output_unseen_max",
            "updated_ms",
        ),
        sa.CheckConstraint("updated_ms >= hour_ms", name="ck_engine_hour_updated"),
    )
    op.create_table(
        "ended_hour",
        *text_keys("tenant_id", "pool", "writer"),
        *number_keys("hour_ms"),
        *numbers("requests", "output", "cost_nano", "updated_ms"),
        *maybe_numbers("agreed_ms"),
    )
    op.create_index("ix_ended_hour_open", "ended_hour", ["agreed_ms", "hour_ms"])
    op.create_table(
        "refusal_minute",
        *text_keys("tenant_id"),
        *number_keys("minute_ms"),
        *text_keys("key_id", "user_id", "code"),
        *numbers("number"),
        *texts("why"),
        sa.Column("last_ids", sa.JSON(), nullable=False),
    )
    op.create_index("ix_refusal_minute_minute", "refusal_minute", ["minute_ms"])
    op.create_table(
        "refusal_hour",
        *text_keys("tenant_id"),
        *number_keys("hour_ms"),
        *text_keys("code", "why", "key_id", "user_id"),
        *numbers("number", "last_ms"),
    )
    op.create_index("ix_refusal_hour_hour", "refusal_hour", ["hour_ms"])
    op.create_table(
        "refusal_mark",
        *text_keys("installation"),
        *numbers("last_ms", "last_seq"),
    )


def _reconciliation() -> None:
    op.create_table(
        "recon_item",
        *text_keys("tenant_id", "check_id", "subject"),
        *number_keys("first_seen_ms"),
        *numbers("last_seen_ms"),
        *maybe_numbers("resolved_ms"),
        *numbers("expected", "actual", "difference"),
        *texts("detail"),
    )
    op.create_index("ix_recon_item_open", "recon_item", ["resolved_ms", "check_id"])
    op.create_table(
        "recon_mark",
        *text_keys("tenant_id", "chain"),
        *numbers("seq", "line_seq"),
        *texts("sha256"),
        sa.Column("sums", sa.JSON(), nullable=False),
        *numbers("verified_ms"),
    )


def _runs() -> None:
    op.create_table(
        "operation_run",
        *text_keys("tenant_id", "id"),
        *texts("caller", "author", "operation", "state"),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("events", "answer", "problem")),
        *numbers("begun_ms", "beat_ms"),
        *maybe_numbers("ended_ms", "stop_ms"),
        sa.CheckConstraint(
            "state IN ('running', 'done', 'refused', 'failed', 'stopped', 'interrupted')",
            name="ck_operation_run_state",
        ),
    )
