"""Orders to move a request to another pool, sealed by the process that gives them. Pure.

A migration stands in the request's record, which its pool's workers may write too. So a process that finishes
another's migration, or follows a request to its new pool, trusts only the seal: a process without the signing
secret can begin no migration, and lead nobody elsewhere.
"""

from dataclasses import dataclass

import msgspec

from core.signing.signed_text import Keyring, is_sealed, short_seal

PURPOSE = b"parley move v1"
HOP_MAX = 1 << 31
# A request may come back, and its old order would be valid again: so an order is good for an hour only.
GOOD_MS = 3_600_000
CLOCKS_DIFFER_MS_MAX = 5 * 60_000


class MigrationOrder(msgspec.Struct, frozen=True):
    """Order for a request's `hop`th migration, to `dest`, at `at_ms`; `seal` is empty where there is none."""

    dest: str
    hop: int
    at_ms: int
    seal: bytes


@dataclass(frozen=True)
class MigrationOrders:
    """Gives orders, and verifies them."""

    keyring: Keyring
    installation: str

    def give(self, tenant: str, id: str, source: str, dest: str, hop: int, at_ms: int) -> MigrationOrder:
        """A sealed order. Only a process with the signing secret can make one."""
        facts = self._facts(tenant, id, source, dest, hop, at_ms)
        return MigrationOrder(dest, hop, at_ms, short_seal(facts, self.keyring.key(PURPOSE)))

    def good(self, tenant: str, id: str, source: str, order: MigrationOrder, now_ms: int) -> bool:
        """True where the order is for this request in this pool, and still good at `now_ms`."""
        if not (0 < order.hop < HOP_MAX and -CLOCKS_DIFFER_MS_MAX <= now_ms - order.at_ms <= GOOD_MS):
            return False
        facts = self._facts(tenant, id, source, order.dest, order.hop, order.at_ms)
        return is_sealed(facts, order.seal, self.keyring.keys(PURPOSE))

    def _facts(self, *facts: str | int) -> bytes:
        return msgspec.msgpack.encode((self.installation, *facts))


def order_of(
    dest: bytes | None, hop: bytes | None, at_ms: bytes | None, seal: bytes | None
) -> MigrationOrder:
    """The order in a record's fields. Raises ValueError where no process of ours wrote them so."""
    return MigrationOrder((dest or b"").decode(), int(hop or 0), int(at_ms or 0), seal or b"")
