"""Who may open a WebSocket: asked when the head of the upgrade is read, before anything is made for it."""

from core.addresses import counted
from core.errors import Refused
from core.http import CLOSING, Entrance
from core.settings import Settings
from core.unidentified_sockets import Lobby
from server import instruments
from server.access.rates import Rates

TOO_MANY = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1" + CLOSING


class GatewayEntrance(Entrance):
    """A gateway's. `hellos`: sockets that have not said hello."""

    def __init__(self, settings: Settings, rates: Rates, hellos: Lobby) -> None:
        super().__init__(settings)
        self._rates = rates
        self._hellos = hellos

    def refuse_upgrade(self, address: str) -> bytes | None:
        """See Entrance."""
        if self._hellos.full(counted(address)):
            return _refused("silent")
        try:
            self._rates.socket(address)
        except Refused:
            return _refused("rate")
        return None


def _refused(why: str) -> bytes:
    instruments.UPGRADES_REFUSED.add(1, {"why": why})
    return TOO_MANY
