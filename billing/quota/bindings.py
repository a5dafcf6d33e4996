"""The sealed part of the directory's record of a request: its binding and its owner. Pure.

Workers can write these records when they settle, so a process that decides by one (a gateway) trusts only a
sealed record. The seal is made at the admission, and again by whoever moves the request. Facts that change
while it runs (state, granted, hold) are not sealed, so every worker can change them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from billing.quota.types import Admission, AdmissionState, DirectoryEntry
from billing.usage import PinnedPrices
from core.signing.signed_text import Keyring, is_sealed, short_seal

PURPOSE = b"parley directory v1"
SEAL = b"seal"
# In this order: another order gives another seal.
FACTS = (
    *(b"hash", b"owner", b"pool", b"fp", b"prices", b"project", b"key", b"by", b"user", b"model", b"input"),
    *(b"deadline", b"hop"),
)

Record = Mapping[bytes, bytes]
_encoder = msgspec.msgpack.Encoder()


@dataclass(frozen=True)
class Bindings:
    """Seals records, and recognises records that others wrote."""

    keyring: Keyring
    installation: str

    def seal(self, tenant: str, id: str, record: Record) -> bytes:
        """Seal a record. Needs the signing secret."""
        return short_seal(self._facts(tenant, id, record), self.keyring.key(PURPOSE))

    def good(self, tenant: str, id: str, record: Record) -> bool:
        """True where a holder of the signing secret sealed this record for this request. False without a
        seal."""
        if SEAL not in record:
            return False
        facts = self._facts(tenant, id, record)
        return is_sealed(facts, record[SEAL], self.keyring.keys(PURPOSE))

    def _facts(self, tenant: str, id: str, record: Record) -> bytes:
        return _encoder.encode((self.installation, tenant, id, *(record.get(name, b"") for name in FACTS)))


def record_of(a: Admission) -> dict[bytes, bytes]:
    """The sealed facts of an admission, as admit.lua stores them in the record."""
    texts = {
        b"hash": a.body_hash,
        b"pool": a.pool,
        b"fp": a.fingerprint,
        b"project": a.project,
        b"key": a.owner_key,
        b"by": a.key or a.owner_key,
        b"user": a.user,
        b"model": a.model,
        b"input": str(a.input_tokens),
        b"deadline": str(a.deadline_ms),
    }
    owner = _encoder.encode((a.project, a.owner_key, a.user))
    packed = {b"owner": owner, b"prices": _encoder.encode(a.prices)}
    return packed | {name: text.encode() for name, text in texts.items()}


def record_replied(values: Sequence[bytes | None]) -> dict[bytes, bytes]:
    """Name the values of FACTS and of the seal in a script's reply."""
    return {name: value for name, value in zip((*FACTS, SEAL), values, strict=True) if value is not None}


def prices_of(packed: bytes) -> PinnedPrices:
    """Decode the prices of a record."""
    return msgspec.msgpack.decode(packed, type=PinnedPrices)


def directory_of(tenant: str, id: str, record: Record) -> DirectoryEntry:
    """Decode a record. Raises ValueError or KeyError where it is not in our form."""
    cost = record.get(b"cost")
    return DirectoryEntry(
        tenant=tenant,
        id=id,
        body_hash=record[b"hash"].decode(),
        pool=record[b"pool"].decode(),
        fingerprint=record[b"fp"].decode(),
        prices=prices_of(record[b"prices"]),
        project=record[b"project"].decode(),
        key=record[b"key"].decode(),
        user=record[b"user"].decode(),
        model=record[b"model"].decode(),
        input_tokens=int(record[b"input"]),
        granted=int(record[b"granted"]),
        deadline_ms=int(record[b"deadline"]),
        admitted_ms=int(record[b"admitted"]),
        cancelled=record[b"cancelled"] != b"0",
        state=AdmissionState(record[b"state"].decode()),
        cost_nano=None if cost is None else int(cost),
    )
