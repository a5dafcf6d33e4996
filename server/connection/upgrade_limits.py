"""Limits on WebSockets, checked when the head of an upgrade is read, before anything is made for it."""

from core.configuration.settings import Settings
from core.errors import Refused
from core.network.addresses import rate_limit_address
from core.network.unidentified_sockets import UnidentifiedSockets
from core.web.http import CLOSING, UpgradeGate
from server import instruments
from server.access.rates import CallRates

TOO_MANY = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1" + CLOSING


class UpgradeLimits(UpgradeGate):
    """A gateway's. `unidentified`: sockets that have not said hello."""

    def __init__(self, settings: Settings, rates: CallRates, unidentified: UnidentifiedSockets) -> None:
        super().__init__(settings)
        self._rates = rates
        self._unidentified = unidentified

    def refuse_upgrade(self, address: str) -> bytes | None:
        """See UpgradeGate."""
        if self._unidentified.full(rate_limit_address(address)):
            return _refused("silent")
        try:
            self._rates.socket(address)
        except Refused:
            return _refused("rate")
        return None


def _refused(why: str) -> bytes:
    instruments.UPGRADES_REFUSED.add(1, {"why": why})
    return TOO_MANY
