"""Commands of this package that belong to another package's groups, and what `parley restore` does with its
books. Kept out of billing.api, so that a worker's start does not import them."""

from billing.cli.requests import find_command
from billing.cli.restored import chain_ends, restored_faults
from billing.posting.biller import Biller, DrainedStreams
from billing.posting.quarantine import held_by_tenant
from billing.posting.usage_stream import EndedStream, active_consumers
from billing.quota.posted_spending import last_line
from billing.reconciliation.run import EVERYTHING
from billing.reconciliation.tenant_keys import slot_sums

__all__ = [
    "EVERYTHING",
    "Biller",
    "DrainedStreams",
    "EndedStream",
    "active_consumers",
    "chain_ends",
    "find_command",
    "held_by_tenant",
    "last_line",
    "restored_faults",
    "slot_sums",
]
