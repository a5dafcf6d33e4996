"""Restores that took chains back from a kept head to the backup's: the record of one, its proof, and the kept
heads that it excuses. Pure."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import msgspec

from billing.audit_heads.heads import SEQUENCE_MAX, Chain, ChainHead, iso
from core.errors import StartupError
from core.redis.unreadable import Unreadable, read

PURPOSE = "parley restore v1"
RESTORED = "installation.restore"
PART_BYTES_MAX = 32 * 1024  # of rollbacks in a row: half of what the audit log keeps of a value
ROLLBACKS_MAX = 200_000
MS_MAX = 253_402_300_799_000  # the end of 9999

Number = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
Place = tuple[str, str]  # chain and tenant


class ChainEnd(Protocol):
    """The end of a chain, as a kept head or a backup's manifest has it."""

    @property
    def chain(self) -> str:
        """`books` or `changes`."""
        ...

    @property
    def tenant(self) -> str:
        """Empty: the platform."""
        ...

    @property
    def sequence(self) -> int:
        """Number of its last row."""
        ...


class Rollback(msgspec.Struct, frozen=True):
    """A chain that a restore took back. `restored`: the backup's last row, 0 where it has none; `newest`: the
    newest row of which a head was kept."""

    chain: Chain
    tenant: str
    restored: Number
    newest: Number


class RestoreRecord(msgspec.Struct, frozen=True):
    """A row of the platform's chain about a restore, one of `parts` with all its rollbacks. `made_ms`: time
    of the backup; `mac`: HMAC-SHA256 of all other fields, empty where there was no key."""

    installation: str
    restored_ms: Annotated[int, msgspec.Meta(ge=0, le=MS_MAX)]
    made_ms: Number
    backup_sha256: str
    part: int
    parts: int
    rollbacks: tuple[Rollback, ...]
    mac: str = ""


_decoder = msgspec.json.Decoder(RestoreRecord)


def rollbacks_of(restored: Iterable[ChainEnd], kept: Iterable[ChainEnd]) -> list[Rollback]:
    """Each chain with a kept head beyond its restored end. Raises StartupError for more than ROLLBACKS_MAX
    chains."""
    ends = {(each.chain, each.tenant): each.sequence for each in restored}
    newest: dict[Place, int] = {}
    for head in kept:
        place = (head.chain, head.tenant)
        if head.sequence > max(ends.get(place, 0), newest.get(place, 0)):
            newest[place] = head.sequence
            if len(newest) > ROLLBACKS_MAX:
                raise StartupError(f"heads of more than {ROLLBACKS_MAX:,} chains were kept, which none has")
    return [
        Rollback(Chain(place[0]), place[1], ends.get(place, 0), last)
        for place, last in sorted(newest.items())
    ]


def records_of(
    installation: str,
    restored_ms: int,
    made_ms: int,
    backup_sha256: str,
    rollbacks: Sequence[Rollback],
    key: bytes | None,
) -> list[RestoreRecord]:
    """The records of a restore: one, or as many as all of its rollbacks need."""
    parts = _parts(rollbacks)
    records = [
        RestoreRecord(installation, restored_ms, made_ms, backup_sha256, number, len(parts), part)
        for number, part in enumerate(parts, 1)
    ]
    return [msgspec.structs.replace(each, mac=mac_of(each, key) if key else "") for each in records]


def _parts(rollbacks: Sequence[Rollback]) -> list[tuple[Rollback, ...]]:
    parts: list[list[Rollback]] = [[]]
    size = 0
    for each in rollbacks:
        length = len(msgspec.json.encode(each)) + 1
        if parts[-1] and size + length > PART_BYTES_MAX:
            parts.append([])
            size = 0
        parts[-1].append(each)
        size += length
    return [tuple(part) for part in parts]


def mac_of(record: RestoreRecord, key: bytes) -> str:
    """Compute the MAC of a record."""
    facts = (PURPOSE, *msgspec.structs.astuple(msgspec.structs.replace(record, mac="")))
    return hmac.new(key, msgspec.msgpack.encode(facts), hashlib.sha256).hexdigest()


@dataclass
class Restores:
    """The recorded restores of an installation. `refused`: rows that excuse nothing, each with its reason."""

    installation: str
    key: bytes | None
    refused: list[str] = field(default_factory=list[str])
    _rollbacks: dict[Place, list[tuple[Rollback, str]]] = field(
        default_factory=dict[Place, list[tuple[Rollback, str]]]
    )

    def add(self, number: int, at_ms: int, after: str) -> None:
        """Add row `number` of the platform's chain."""
        record = read("restore", _decoder.decode, after)
        if isinstance(record, Unreadable):
            self.refused.append(f"change {number} says that an installation was restored, and {record}")
            return
        if record.installation != self.installation:
            return
        time = iso(max(0, min(at_ms, record.restored_ms)))
        if self.key is not None and not _is_signed(record, self.key):
            self.refused.append(
                f"change {number}, the restore of {time}, is not signed by PARLEY_AUDIT_HEADS_KEY and "
                "excuses nothing: somebody else wrote it, or another key was in use"
            )
            return
        for each in record.rollbacks:
            self._rollbacks.setdefault((each.chain, each.tenant), []).append((each, time))

    def covering(self, head: ChainHead) -> str | None:
        """The time of the restore that took this kept head back; None: none did."""
        for each, time in self._rollbacks.get((head.chain, head.tenant), ()):
            if each.restored < head.sequence <= each.newest and head.time <= time:
                return time
        return None


def _is_signed(record: RestoreRecord, key: bytes) -> bool:
    return hmac.compare_digest(record.mac.encode(), mac_of(record, key).encode())


@dataclass
class RolledBack:
    """Kept heads of one chain that a restore took back."""

    heads: int
    lowest: int
    highest: int


@dataclass
class RolledBackHeads:
    """Kept heads that restores took back, by chain and restore."""

    _found: dict[tuple[Chain, str, str], RolledBack] = field(
        default_factory=dict[tuple[Chain, str, str], RolledBack]
    )

    def add(self, head: ChainHead, time: str) -> None:
        """Count a head that the restore of `time` took back."""
        found = self._found.setdefault(
            (head.chain, head.tenant, time), RolledBack(0, head.sequence, head.sequence)
        )
        found.heads += 1
        found.lowest, found.highest = min(found.lowest, head.sequence), max(found.highest, head.sequence)

    def shown(self) -> list[tuple[str, str]]:
        """(owner, words) of each chain and restore."""
        return [
            (tenant, f"{_rows(chain, found)}: rolled back by the restore of {time}")
            for (chain, tenant, time), found in self._found.items()
        ]


def _rows(chain: Chain, found: RolledBack) -> str:
    word = {Chain.BOOKS: "transaction", Chain.CHANGES: "change"}[chain]
    if found.lowest == found.highest:
        return f"{word} {found.lowest}"
    return f"{word}s {found.lowest} to {found.highest} ({found.heads} kept heads)"
