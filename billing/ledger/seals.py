"""Seals of requests and charges that were booked before lines had proofs (version 1 of the chain). Pure.

A seal is a transaction without lines, in the chain itself: it names the hash of the proofs, as they were when
it was written, of what version 1 booked since the seal before it, SEALED_AT_ONCE a seal.
"""

import hashlib
from collections import deque
from dataclasses import dataclass, field

from billing.ledger.transactions import AnyTxn, TxnKind

SEALED_AT_ONCE = 2_000
NOT_SEALED = "what was booked before is not what this seal was written over"


@dataclass
class ProofRun:
    """Proofs in the order of their lines, and the last of these lines."""

    count: int = 0
    last_line: int = 0
    _hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, line_seq: int, proof: str) -> None:
        """One more."""
        self.count += 1
        self.last_line = line_seq
        self._hash.update(f"{line_seq}:{proof}\n".encode())

    def name(self) -> str:
        """What its seal is called, by which nobody seals it twice."""
        return f"{TxnKind.SEAL}:{self.last_line}:{self.count}:{self._hash.hexdigest()}"


def sealed_until(name: str) -> int:
    """The last line that a seal of this name covers."""
    return int(name.split(":")[1])


@dataclass
class LedgerSeals:
    """What stands for the requests and charges of a tenant's books, while they are read in order. `whole`:
    from the first row. `proved_from_ms`: when the first transaction was booked whose lines prove what they
    are of; `sealed`, `unsealed`: how many others there are with a seal, the last one of `sealed_ms`, and
    without."""

    whole: bool = True
    proved_from_ms: int = 0
    proved_from_txn: int = 0
    sealed: int = 0
    sealed_ms: int = 0
    _piles: deque[ProofRun] = field(default_factory=deque[ProofRun])

    @property
    def unsealed(self) -> int:
        """How many have neither a proof nor a seal."""
        return sum(pile.count for pile in self._piles)

    def add(self, line_seq: int, proof: str) -> None:
        """What version 1 booked, as it is now."""
        if not self._piles or self._piles[-1].count == SEALED_AT_ONCE:
            self._piles.append(ProofRun())
        self._piles[-1].add(line_seq, proof)

    def after(self, txn: AnyTxn) -> list[str]:
        """What is wrong once a transaction and its lines were read."""
        if txn.hash_version > 1 and not self.proved_from_txn:
            self.proved_from_txn, self.proved_from_ms = txn.seq, txn.posted_ms
        if txn.kind != TxnKind.SEAL.value:
            return []
        pile = self._piles.popleft() if self._piles else ProofRun()
        self.sealed, self.sealed_ms = self.sealed + pile.count, txn.posted_ms
        # Who began to read in the middle cannot say what the first of them covers.
        return [NOT_SEALED] if self.whole and txn.idempotency_key != pile.name() else []
