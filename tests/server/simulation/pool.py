"""A pool without Redis: logs that grow, are trimmed, lose their tail or have text taken back; stored answers.

It remembers every version of every log, so that what a reader shows can be held against what was ever true.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from core.errors import Refused
from engine.api import (
    Control,
    Entry,
    EntryKind,
    MigrationOrder,
    PriorityClass,
    ReaderView,
    RequestStatus,
    text_hash,
    visible_text,
)
from server.conversations.tables import Message
from server.protocol.flags import LoggedFlag, flags_after
from server.protocol.messages import Cost, EndPayload, EndUsage, Timing
from server.reading.sources import not_resumable, reading_of, stored_opening
from server.session.events import ReadableRequest

USAGE = EndUsage(7, 0, 5, 12)
TIMING = Timing(1, 2, 3)


@dataclass
class LogVersion:
    """The entries of one incarnation, as far as they were ever readable, and where its log began to hold."""

    epoch: int
    entries: list[Entry] = field(default_factory=list[Entry])

    def text(self, o: int) -> str:
        """The visible text through an offset."""
        return visible_text(self.entries[:o])


class Log:
    """One request. `versions`: what it is, last, and what it was before text or tail was lost."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.versions = [LogVersion(1)]
        self.state = RequestStatus.QUEUED
        self.stored: list[Entry] | None = None
        self.gone = False
        self.runs = 0
        self.append(EntryKind.QUEUED)

    @property
    def now(self) -> LogVersion:
        """The log as it stands."""
        return self.versions[-1]

    @property
    def head(self) -> int:
        """The last offset."""
        return len(self.now.entries)

    @property
    def ended(self) -> bool:
        """Whether the end is in the log."""
        return self.now.entries[-1].k is EntryKind.END

    @property
    def retracted(self) -> bool:
        """Whether text was taken back in this epoch."""
        return any(entry.k is EntryKind.RETRACT for entry in self.now.entries)

    def append(self, kind: EntryKind, text: str = "", value: bytes = b"", at: int | None = None) -> None:
        """One more entry."""
        entries = self.now.entries
        p = len(visible_text(entries)) if at is None else at
        tokens = max((entry.i for entry in entries), default=0) + (kind is EntryKind.TEXT)
        entries.append(Entry(self.head + 1, kind, text, p, 0, tokens, value))

    def flag(self, p: int) -> None:
        """Safety marked the text from about this position on."""
        if length := len(visible_text(self.now.entries)):
            at = min(p, length - 1)
            flag = LoggedFlag("email", "redact", "tenant", at, min(3, length - at))
            self.append(EntryKind.FLAGGED, value=msgspec.json.encode(flag))

    @property
    def flags(self) -> list[dict[str, Any]]:
        """What is marked in the text as it stands."""
        return msgspec.to_builtins(flags_after(self.now.entries))

    def run(self) -> None:
        """An engine takes it."""
        if self.state is RequestStatus.QUEUED:
            self.state, self.runs = RequestStatus.RUNNING, self.runs + 1
            self.append(EntryKind.RUNNING)

    def end(self, reason: str = "stop") -> None:
        """It is over."""
        h = text_hash(visible_text(self.now.entries))
        payload = EndPayload(reason, USAGE, Cost(5, "usd"), TIMING, h)
        self.append(EntryKind.END, value=msgspec.json.encode(payload))
        self.state = RequestStatus.ENDED

    def retract(self, p: int) -> None:
        """Take the text from a position on back: same offsets, without it."""
        kept = [_without(entry, p) for entry in self.now.entries]
        self.versions.append(LogVersion(self.now.epoch, kept))
        self.append(EntryKind.RETRACT, value=b'{"category":"x","policy":"y"}', at=p)

    def lose_tail(self, kept: int) -> None:
        """Entries after `kept` are lost; the request goes on in a new epoch."""
        self.versions.append(LogVersion(self.now.epoch + 1, self.now.entries[:kept]))

    def store(self) -> None:
        """The answer is recorded, the log trimmed: what is left is a snap and the end."""
        self.gone = True
        self.stored = self.opening_entries()

    def opening_entries(self) -> list[Entry]:
        """What a reader of the stored answer gets after its snap."""
        return stored_opening(self.id, self._row()).source._entries  # pyright: ignore  (no other door)

    def stored_reading(self) -> ReadableRequest:
        """Where a reader of the stored answer begins."""
        return stored_opening(self.id, self._row()).reading

    def texts(self, epoch: int | None, o: int) -> set[str]:
        """All that the text through an offset may be, and ever might."""
        texts = {v.text(o) for v in self.versions if epoch is None or v.epoch == epoch}
        if self.stored is not None:
            reading = self.stored_reading()
            if o >= reading.o:
                after = [entry for entry in self.stored if entry.o <= o]
                texts.add((reading.snap or "") + visible_text(after))
        return texts

    def _row(self) -> Message:
        row: dict[str, Any] = {
            "content": visible_text(self.now.entries),
            "head": self.head,
            "epoch": self.now.epoch,
            "usage": msgspec.to_builtins(USAGE),
            "timing": msgspec.to_builtins(TIMING),
            "reason": "stop",
            "cost_nano": 5,
            "code": "",
            "flags": self.flags,
            "safety": None,
            "context": None,
        }
        return cast(Message, SimpleNamespace(**row))


def _without(entry: Entry, p: int) -> Entry:
    if entry.k is not EntryKind.TEXT:
        return entry
    return msgspec.structs.replace(entry, x=entry.x[: max(0, p - entry.p)], p=min(entry.p, p))


class SimulatedPool:
    """All requests there are, and the sessions that read them."""

    def __init__(self) -> None:
        self.logs: dict[str, Log] = {}

    def start(self, id: str) -> bool:
        """Take a send; whether it is new."""
        if id in self.logs:
            return False
        self.logs[id] = Log(id)
        return True

    def open(self, id: str, epoch: int | None, o: int) -> tuple[ReadableRequest, bool]:
        """A request for a reader who applied `o` of that epoch, and whether it is live. Raises Refused."""
        log = self.logs.get(id)
        if log is None or (log.gone and log.stored is None):
            raise Refused(not_resumable())
        if log.gone:
            return log.stored_reading(), False
        return reading_of(id, self.view(log), epoch, o), True

    def view(self, log: Log) -> ReaderView:
        """What the pool tells of a log."""
        return ReaderView(
            log.state, log.now.epoch, log.head, 0, Control(0), "", 0, log.ended, 1, "",
            PriorityClass.INTERACTIVE, True, "", MigrationOrder("", 0, 0, b""),
        )  # fmt: skip

    def read(self, id: str, after: int, entries_max: int, bytes_max: int) -> list[Entry]:
        """The entries of a live log after an offset, as LogReader gives them."""
        log, found, used = self.logs[id], list[Entry](), 0
        if log.gone:
            return []
        for entry in log.now.entries[after : after + entries_max]:
            size = len(entry.x.encode()) if entry.k is EntryKind.TEXT else 64
            if used and used + size > bytes_max:
                break
            used += size
            found.append(entry)
        return found
