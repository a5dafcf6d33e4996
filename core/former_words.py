"""Operators' words of one version ago: the old one stands beside the new one, or is taken for it.

All go in the version GONE_IN: tests/docs/test_glossary.py fails from then on until these tables are empty.
"""

GONE_IN = "0.2.0"

# Log events that docs/operations.md named: the old one is the line's field `formerly`.
EVENTS = {
    "metrics.serve_failed": "metrics not served",
    "pools.over_limit": "more pools than are served: take those that there are not out of this set (SREM)",
}
