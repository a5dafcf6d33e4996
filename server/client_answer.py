"""What a reader knows of one request, and what each frame of it does. Pure: no socket, no clock.

Frames are checked for order when they arrive (`take`) and applied when the application asks for them
(`apply`): an acknowledgement means applied, so an application that does not read slows the server down.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

Frame = Mapping[str, Any]


class ProtocolError(Exception):
    """A refusal or failure with a code of docs/protocol.md. `retry`: it may work later, after `after_ms`."""

    def __init__(self, error: Frame) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.retry: bool = error.get("retry", False)
        self.after_ms: int | None = error.get("after_ms")
        self.scope: str | None = error.get("scope")
        self.limit: int | None = error.get("limit")


class TextTakenBack(Exception):  # noqa: N818  (it is a fact about the answer, not a fault)
    """Text that was already handed out is no longer part of the answer; `text` is what it is now."""

    def __init__(self, text: str) -> None:
        super().__init__("text of this answer was taken back; read events() to follow that")
        self.text = text


@dataclass(frozen=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True)
class Reset:
    """Forget the text so far; it is `text` now."""

    text: str


@dataclass(frozen=True)
class Status:
    """What happened to the request: queued, running, moved, parked, resumed, flagged, paused, unpaused."""

    kind: str
    detail: Any = None


@dataclass(frozen=True)
class Usage:
    """Tokens; `cached_input` is part of `input`."""

    input: int
    cached_input: int
    output: int
    total: int


@dataclass(frozen=True)
class Ended:
    """How the answer ended. `cost_nano` is in 10^-9 of `currency`; `verified`: the text has its hash."""

    reason: str
    code: str | None
    usage: Usage
    cost_nano: int
    currency: str
    timing: Mapping[str, int | None]
    verified: bool


Event = Text | Reset | Status | Ended


@dataclass
class Counters:
    """What a client saw; `verified` and `mismatched` count the hash checks of answers that ended."""

    verified: int = 0
    mismatched: int = 0
    gaps: int = 0
    stale: int = 0
    resent: int = 0
    resumed: int = 0


class Order(StrEnum):
    """Where an arriving frame stands in the log."""

    NEXT = "next"
    STALE = "stale"
    GAP = "gap"


class Reading:
    """One request: the text through offset `applied`, and the frames that arrived after it."""

    def __init__(self, id: str, message: Frame | None) -> None:
        self.id = id
        self.message = message  # the `send` that starts it, None for somebody's request that is only read
        self.accepted = False
        self.g: int | None = None
        self.epoch: int | None = None
        self.applied = 0
        self.text = ""
        self.tokens = 0
        self.cancelling = False
        self.ended: Ended | None = None
        self.error: ProtocolError | None = None
        self._arrived = 0
        self._frames: deque[Frame] = deque()
        self._repaired = False

    @property
    def waiting(self) -> bool:
        """A frame is there to be applied."""
        return bool(self._frames)

    def take(self, frame: Frame) -> Order:
        """Keep a frame that comes next in the log."""
        if frame["t"] == "event" and "o" not in frame:
            self._frames.append(frame)
            return Order.NEXT
        first, last = (frame["a"], frame["b"]) if frame["t"] == "delta" else (frame["o"], frame["o"])
        if frame["t"] not in ("snap", "retract") and first != self._arrived + 1:
            return Order.STALE if last <= self._arrived else Order.GAP
        self._arrived = last
        self._frames.append(frame)
        return Order.NEXT

    def forget_arrived(self) -> None:
        """Drop what was not applied: reading goes on at `applied`, over another connection or cursor."""
        self._arrived = self.applied
        self._frames.clear()

    def apply(self) -> tuple[Frame, Event | None]:
        """Apply the next frame. No event: it does not fit the text; read again from 0 (once)."""
        frame = self._frames.popleft()
        match frame["t"]:
            case "delta":
                event = self._delta(frame)
            case "snap":
                event = self._replace(frame["x"])
                self.epoch = frame["epoch"]
            case "retract":
                event = self._replace(self.text[: frame["p"]])
            case "end":
                event = self._end(frame)
            case _:
                event = Status(frame["k"], frame.get("v"))
        if event is not None:
            self.applied = frame.get("b", frame.get("o", self.applied))
        return frame, event

    def _delta(self, frame: Frame) -> Event | None:
        if frame["p"] != len(self.text) and self._rewound():
            return None
        self.text += frame["x"]
        self.tokens = frame.get("i", self.tokens)
        return Text(frame["x"])

    def _replace(self, text: str) -> Reset:
        self.text = text
        return Reset(text)

    def _end(self, frame: Frame) -> Ended | None:
        verified = sha256(self.text.encode()).hexdigest() == frame["h"]
        if not verified and self._rewound():
            return None
        self.ended = Ended(
            frame["reason"],
            frame.get("code"),
            Usage(**{name: frame["usage"][name] for name in ("input", "cached_input", "output", "total")}),
            frame["cost"]["nano"],
            frame["cost"]["currency"],
            frame["timing"],
            verified,
        )
        return self.ended

    def _rewound(self) -> bool:
        """The first divergence is repaired from offset 0, a second one is reported."""
        if self._repaired:
            return False
        self._repaired = True
        self.applied, self.text, self.tokens = 0, "", 0
        self.forget_arrived()
        return True


class Acks:
    """When to acknowledge what was applied (docs/protocol.md, "Window and acknowledgement")."""

    OTHER_BYTES = 64  # what a logged message without text counts

    def __init__(self, events: int, bytes: int, connection_bytes: int) -> None:
        self._events = events
        self._bytes = bytes
        self._connection_bytes = connection_bytes
        self._open: dict[int, tuple[int, int, int]] = {}

    def note(self, g: int, frame: Frame, events: int, applied: int) -> bool:
        """Note an applied frame; True: acknowledge at once."""
        _, seen, size = self._open.get(g, (0, 0, 0))
        size += len(frame["x"].encode()) if "x" in frame else self.OTHER_BYTES
        self._open[g] = (applied, seen + max(0, events), size)
        return (
            frame["t"] in ("end", "snap")
            or (seen + events) * 2 >= self._events
            or size * 2 >= self._bytes
            or sum(each[2] for each in self._open.values()) * 2 >= self._connection_bytes
        )

    def drop(self, g: int) -> None:
        """Forget a `g` whose cursor is being moved."""
        self._open.pop(g, None)

    def take(self) -> list[tuple[int, int]]:
        """The vector for an `ack` or `pong`; afterwards nothing is pending."""
        vector = [(g, applied) for g, (applied, _, _) in self._open.items()]
        self._open.clear()
        return vector
