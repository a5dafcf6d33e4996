"""Sign-ins that fail, counted by address. Who shows what is good is never held up by who shares his address:
what failing too often changes is the answer to the next failure, which says when to come again.
"""

from core.network.addresses import rate_limit_address
from core.network.buckets import Rate, TokenBuckets
from core.observability.telemetry import RepeatedWarning, logger, meter

log = logger(__name__)
_FAILED = meter("core").create_counter(
    "parley_failed_signins", description="Keys, tickets, links and codes that were wrong, by what was shown"
)


class FailedSignins:
    """One process's. `most` are answered as such a minute and address."""

    def __init__(self, most: float) -> None:
        self._by_address = TokenBuckets(Rate.a_minute(most))
        self._floods = RepeatedWarning(log, 60.0)

    def count(self, address: str, shown: str) -> int:
        """One more, which showed a `hello`, a `bearer`, a `key`…: 0, or milliseconds to wait. The log has the
        address of each that is not refused; of a flood, one line a minute."""
        _FAILED.add(1, {"shown": shown})
        after_ms = self._by_address.take(rate_limit_address(address))
        if after_ms:
            self._floods.warning("sign_in.failing_repeatedly", address=address, shown=shown)
        else:
            log.warning("sign_in.failed", address=address, shown=shown)
        return after_ms
