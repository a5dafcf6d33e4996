"""Operators' words of one version ago: the old one stands beside the new one, or is taken for it.

All go in the version GONE_IN: tests/docs/test_glossary.py fails from then on until these tables are empty.
"""

GONE_IN = "0.2.0"

# Log events that docs/operations.md named: the old one is the line's field `formerly`.
EVENTS: dict[str, str] = {
    "send.handled": "send",
    "connection.closed": "connection",
    "metrics.serve_failed": "metrics not served",
    "pools.over_limit": "more pools than are served: take those that there are not out of this set (SREM)",
    "audit_heads.store_failed": "audit heads not kept",
    "pool_meter.gpu_unpriced": "GPU without a price",
    "biller.event_quarantined": "usage event quarantined",
    "biller.event_repaired": "usage event mended",
    "quota.directory_seal_invalid": "a directory record has no good seal",
    "reconciliation.unbilled_over_limit": "too much is unbilled: `parley usage unbilled` lists it",
    "reconciliation.rebuild_paused": "sums are lost again and again",
    "reconciliation.sums_rebuilt": "counted anew after Redis lost data",
    "reconciliation.comparison_overdue": "R4 waits too long to be compared",
    "reconciliation.difference_detected": "books differ",
    "journal.ends_dropped": "ends are not journaled: lost unbilled if Redis is lost now",
    "journal.ends_replayed": "ends brought back that Redis had lost",
    "journal.keeper_failed": "journals not tended",
    "migration.finish_failed": "move not finished",
    "migration.not_ordered": "a move that nobody has ordered is not finished: "
    "`parley requests migrate` orders it anew",
    "supervisor.worker_health": "worker health",
    "supervisor.model_load_failed": "model does not load",
    "worker.started": "engine started",
    "health.readiness_changed": "readiness",
}

# Metrics: /metrics shows the same figures under both names.
METRICS: dict[str, str] = {
    "parley_sends": "parley_turns",
    "parley_log_catch_ups": "parley_log_reads",
    "parley_send_window_shut_seconds": "parley_window_stall_seconds",
    "parley_cursor_moves": "parley_gaps_repaired",
    "parley_supervisor_workers": "parley_supervisor_places",
    "parley_worker_requests": "parley_worker_held",
    "parley_worker_claim_margin": "parley_worker_margin",
    "parley_worker_requests_ended": "parley_worker_ended",
    "parley_worker_unclaimed": "parley_worker_released",
    "parley_worker_allowance_replies": "parley_worker_grants",
    "parley_stale_admissions_released": "parley_swept_admissions",
    "parley_reaper_ends": "parley_orphan_ends",
    "parley_journal_written": "parley_journal_kept",
    "parley_billing_events_repaired": "parley_billing_events_mended",
    "parley_reconciliation_rebuilt": "parley_reconciliation_healed",
    "parley_reconciliation_rebuild_paused": "parley_reconciliation_healing_paused",
    "parley_reconciliation_overdue": "parley_reconciliation_waits_too_long",
    "parley_reconciliation_differences": "parley_reconciliation_differing",
    "parley_reconciliation_difference_amount": "parley_reconciliation_difference",
    "parley_audit_heads_stored": "parley_audit_heads_kept",
    "parley_audit_heads_store_failures": "parley_audit_heads_not_kept",
}

# Labels of metrics: shown beside the new one, or alone under the metric's former name.
LABELS: dict[str, dict[str, str]] = {
    "parley_journal_failures": {"reason": "why"},
    "parley_worker_unclaimed": {"reason": "why"},
}
