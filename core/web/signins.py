"""Failed sign-ins, counted by address. A good sign-in is never delayed by others from its address: too many
failures change only the reply to the next failure, which tells when to come again."""

from core.network.addresses import rate_limit_address
from core.network.buckets import Rate, TokenBuckets
from core.observability.telemetry import RepeatedWarning, logger, meter

log = logger(__name__)
_FAILED = meter("core").create_counter(
    "parley_failed_signins", description="Keys, tickets, links and codes that were wrong, by what was shown"
)


class FailedSignins:
    """Counts of one process. `most`: failures a minute and address that get the usual reply."""

    def __init__(self, most: float) -> None:
        self._by_address = TokenBuckets(Rate.a_minute(most))
        self._floods = RepeatedWarning(log, 60.0)

    def count(self, address: str, shown: str) -> int:
        """Count a failed sign-in with a `hello`, a `bearer`, a `key`… Returns 0, or milliseconds to wait.
        Logs the address of each that gets the usual reply; of a flood, one line a minute."""
        _FAILED.add(1, {"shown": shown})
        after_ms = self._by_address.take(rate_limit_address(address))
        if after_ms:
            self._floods.warning("sign_in.failing_repeatedly", address=address, shown=shown)
        else:
            log.warning("sign_in.failed", address=address, shown=shown)
        return after_ms
