"""Named points between two steps of which the second repairs, or repeats, the first.

Nothing happens there in the product. A crash test kills the process at one (chaos/injected/deaths.py).
"""

from enum import StrEnum

from core.runtime import hooks


class Failpoint(StrEnum):
    """Points where a process may die: between two steps of which the second repairs, or repeats, the
    first."""

    BILLER_AFTER_READ = "biller.after_read"
    BILLER_BEFORE_COMMIT = "biller.before_commit"
    BILLER_AFTER_COMMIT = "biller.after_commit"
    BILLER_AFTER_SETTLE = "biller.after_settle"
    BILLER_AFTER_ACKNOWLEDGE = "biller.after_acknowledge"
    GATEWAY_AFTER_ADMIT = "gateway.after_admit"
    GATEWAY_AFTER_ENQUEUE = "gateway.after_enqueue"
    GATEWAY_BEFORE_RELEASE = "gateway.before_release"
    WORKER_BEFORE_END = "worker.before_end"
    WORKER_AFTER_END = "worker.after_end"
    WORKER_BEFORE_EXTEND = "worker.before_extend"
    WORKER_AFTER_EXTEND = "worker.after_extend"


def hit_failpoint(point: Failpoint) -> None:
    """Call the hook, where one is set, with this point."""
    if hooks.at_failpoint is not None:
        hooks.at_failpoint(point)
