"""What one connection asked for and has no answer to yet: sends and attaches, and later wishes. Pure."""

from dataclasses import dataclass


@dataclass
class PendingSends:
    """Sends under way with one id. `cancelled`, `detached`: do so as soon as it is accepted."""

    count: int = 0
    cancelled: bool = False
    detached: bool = False


@dataclass
class PendingAttaches:
    """Attaches under way with one id; so many of them were followed by a detach."""

    count: int = 0
    unwanted: int = 0


class PendingRequests:
    """By request id."""

    def __init__(self) -> None:
        self._sends: dict[str, PendingSends] = {}
        self._attaches: dict[str, PendingAttaches] = {}

    def sent(self, id: str) -> bool:
        """Whether a send of it is under way."""
        return id in self._sends

    def ids(self) -> list[str]:
        """Those with a send under way."""
        return list(self._sends)

    def send(self, id: str) -> None:
        """A send begins."""
        sends = self._sends.setdefault(id, PendingSends())
        sends.count += 1
        sends.detached = False

    def answered(self, id: str) -> PendingSends:
        """A send of it is answered; what was wished meanwhile."""
        sends = self._sends[id]
        sends.count -= 1
        if not sends.count:
            del self._sends[id]
        return sends

    def cancel(self, id: str) -> None:
        """Cancel what is sent as soon as it is accepted."""
        self._sends[id].cancelled = True

    def attach(self, id: str) -> None:
        """An attach begins."""
        self._attaches.setdefault(id, PendingAttaches()).count += 1

    def attached(self, id: str) -> bool:
        """An attach of it is answered; False: the client has left meanwhile."""
        attaches = self._attaches.get(id)
        if attaches is None:
            return True
        attaches.count -= 1
        if not attaches.count:
            del self._attaches[id]
        attaches.unwanted -= 1
        return attaches.unwanted < 0

    def detach(self, id: str) -> None:
        """Do not read what is under way."""
        if id in self._sends:
            self._sends[id].detached = True
        if id in self._attaches:
            self._attaches[id].unwanted = self._attaches[id].count
