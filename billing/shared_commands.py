"""Commands of this package that belong to another package's groups, and what `parley restore` and `parley
demo` do with its books. Kept out of billing.api, so that a worker's start does not import them."""

from billing.audit_heads.restore_log import is_restored
from billing.cli.pools import pools_command
from billing.cli.requests import find_command
from billing.cli.restored import booked_sums, chain_ends, ended_hours_since, restored_faults
from billing.posting.biller import Biller, DrainedStreams
from billing.posting.quarantine import held_by_tenant
from billing.posting.usage_stream import EndedStream, active_consumers
from billing.quota.posted_spending import last_line
from billing.quota.redis_keys import posted_key
from billing.reconciliation.run import EVERYTHING
from billing.reconciliation.tenant_keys import look_at_streams, slot_sums
from billing.reconciliation.unbilled import EndedPoolHour

__all__ = [
    "EVERYTHING",
    "Biller",
    "DrainedStreams",
    "EndedPoolHour",
    "EndedStream",
    "active_consumers",
    "booked_sums",
    "chain_ends",
    "ended_hours_since",
    "find_command",
    "held_by_tenant",
    "is_restored",
    "last_line",
    "look_at_streams",
    "pools_command",
    "posted_key",
    "restored_faults",
    "slot_sums",
]
