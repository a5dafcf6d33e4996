"""Operators' words of one version ago: the old one stands beside the new one, or is taken for it.

All go in the version GONE_IN: tests/docs/test_glossary.py fails from then on until these tables are empty.
"""

GONE_IN = "0.2.0"

# Log events that docs/operations.md named: the old one is the line's field `formerly`.
EVENTS = {
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
