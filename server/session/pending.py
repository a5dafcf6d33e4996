"""Pending sends and attaches of one connection, and later requests about them. Pure."""

from dataclasses import dataclass


@dataclass
class PendingSends:
    """Pending sends of one id. `cancelled`, `detached`: do so as soon as one is accepted."""

    count: int = 0
    cancelled: bool = False
    detached: bool = False


@dataclass
class PendingAttaches:
    """Pending attaches of one id; `unwanted`: the number of them that a detach followed."""

    count: int = 0
    unwanted: int = 0


class PendingRequests:
    """Pending sends and attaches, by request id."""

    def __init__(self) -> None:
        self._sends: dict[str, PendingSends] = {}
        self._attaches: dict[str, PendingAttaches] = {}

    def sent(self, id: str) -> bool:
        """True while a send of it is pending."""
        return id in self._sends

    def ids(self) -> list[str]:
        """Ids with a pending send."""
        return list(self._sends)

    def send(self, id: str) -> None:
        """Note the begin of a send."""
        sends = self._sends.setdefault(id, PendingSends())
        sends.count += 1
        sends.detached = False

    def answered(self, id: str) -> PendingSends:
        """Note the answer to a send. Returns what the client asked for meanwhile."""
        sends = self._sends[id]
        sends.count -= 1
        if not sends.count:
            del self._sends[id]
        return sends

    def cancel(self, id: str) -> None:
        """Cancel a pending send as soon as it is accepted."""
        self._sends[id].cancelled = True

    def attach(self, id: str) -> None:
        """Note the begin of an attach."""
        self._attaches.setdefault(id, PendingAttaches()).count += 1

    def attached(self, id: str) -> bool:
        """Note the answer to an attach; False: the client detached meanwhile."""
        attaches = self._attaches.get(id)
        if attaches is None:
            return True
        attaches.count -= 1
        if not attaches.count:
            del self._attaches[id]
        attaches.unwanted -= 1
        return attaches.unwanted < 0

    def detach(self, id: str) -> None:
        """Do not read pending sends and attaches of it."""
        if id in self._sends:
            self._sends[id].detached = True
        if id in self._attaches:
            self._attaches[id].unwanted = self._attaches[id].count
