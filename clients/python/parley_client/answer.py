"""State of one request at its reader, and the effect of each frame on it. Pure: no socket, no clock.

Frames are checked for order when they arrive (`take`) and applied when the application asks for them
(`apply`): an acknowledgement means applied, so an application that does not read slows the server down.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeVar, cast

from parley_client.prompts import (
    KeptTurns,
    SafetyPromptBlock,
    SafetyPromptFlag,
    TooManyTokens,
    block_of,
    context_of,
    flags_of,
    tokens_of,
)

Frame = Mapping[str, Any]


class ProtocolError(Exception):
    """A refusal or failure with a code of docs/protocol.md. `retry`: it may work later, after `after_ms`.

    `scope` is at its `limit` of `dimension`; the numbers count that, money in nano-USD. `safety`: the place
    for which a prompt was refused; `tokens`: by how much one is too large."""

    def __init__(self, error: Frame) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.retry: bool = error.get("retry", False)
        self.after_ms: int | None = error.get("after_ms")
        self.scope: str | None = error.get("scope")
        self.limit: int | None = error.get("limit")
        self.dimension: str | None = error.get("dimension")
        self.remaining: int | None = error.get("remaining")
        self.spent: int | None = error.get("spent")
        self.held: int | None = error.get("held")
        self.resets_at_ms: int | None = error.get("resets_at_ms")
        self.safety: SafetyPromptBlock | None = block_of(error)
        self.tokens: TooManyTokens | None = tokens_of(error)


class TextTakenBack(Exception):  # noqa: N818  (it is a fact about the answer, not a fault)
    """Raised where text handed out before is no longer part of the answer; `text` is what it is now."""

    def __init__(self, text: str) -> None:
        super().__init__("text of this answer was taken back; read events() to follow that")
        self.text = text


@dataclass(frozen=True)
class Trace:
    """Origin of text: log offsets a..b, the tokens covered by now, and whether anything follows.

    `batch`: number of the delta in this reading; `ms`: time for which the gateway held it back to merge it.
    """

    id: str
    a: int
    b: int
    tokens: int
    final: bool
    batch: int | None
    ms: int | None


@dataclass(frozen=True)
class Text:
    """More of the answer. `trace`: its origin, for a client that asked for it (`trace=True`)."""

    text: str
    trace: Trace | None = None


@dataclass(frozen=True)
class Reset:
    """Replace the text so far by `text`."""

    text: str
    trace: Trace | None = None


@dataclass(frozen=True)
class Status:
    """A change of status: queued, running, moved, parked, resumed, flagged, paused, unpaused."""

    kind: str
    detail: Any = None


@dataclass(frozen=True)
class SafetyFlag:
    """A place that safety marked: `n` code points of the text, from `p` on. `action`: "redact", it is the
    placeholder of what was taken out; "flag", it was let through. `scope`: whose policy it was, "platform",
    "tenant" or "project"."""

    category: str
    action: str
    scope: str
    p: int
    n: int


@dataclass(frozen=True)
class SafetyBlock:
    """What blocked an answer, and whose policy it was: "platform", "tenant" or "project"."""

    category: str
    scope: str


@dataclass(frozen=True)
class Usage:
    """Tokens; `cached_input` is part of `input`, None where the tenant does not show amounts."""

    input: int
    cached_input: int | None
    output: int
    total: int


@dataclass(frozen=True)
class Ended:
    """End of the answer. `cost_nano` is in 10^-9 of `currency`, both None where the tenant does not show
    amounts; `verified`: the text has its hash; `safety`: what a blocked answer was blocked for."""

    reason: str
    code: str | None
    usage: Usage
    cost_nano: int | None
    currency: str | None
    timing: Mapping[str, int | None]
    verified: bool
    trace: Trace | None = None
    safety: SafetyBlock | None = None


Event = Text | Reset | Status | Ended


@dataclass
class Counters:
    """Counts of one client's events; `verified` and `mismatched` count the hash checks of answers that ended.

    `gaps`: frames that did not come next, so that the log was read again from what was applied; `stale`:
    frames that came again and were ignored; `resent`: turns the server had not got before a reconnect;
    `resumed`: answers that went on after a reconnect or handover.
    """

    verified: int = 0
    mismatched: int = 0
    gaps: int = 0
    stale: int = 0
    resent: int = 0
    resumed: int = 0
    reconnects: int = 0
    handovers: int = 0


class Standing(StrEnum):
    """State of a request. MOVED: its worker is gone, another takes it over. PARKED: nobody was reading, so
    its worker does something else. RESUMED: a reader is back, the worker soon too."""

    SENDING = "sending"
    QUEUED = "queued"
    RUNNING = "running"
    MOVED = "moved"
    PARKED = "parked"
    RESUMED = "resumed"
    ENDED = "ended"
    FAILED = "failed"


Read = TypeVar("Read", SafetyFlag, SafetyBlock)
LOGGED_STANDINGS = frozenset({"queued", "running", "moved", "parked", "resumed"})


class FrameOrder(StrEnum):
    """Order of an arriving frame in the log."""

    NEXT = "next"
    STALE = "stale"
    GAP = "gap"


def span(frame: Frame) -> tuple[int, int]:
    """The log offsets that a logged frame covers."""
    return (frame["a"], frame["b"]) if frame["t"] == "delta" else (frame["o"], frame["o"])


def is_logged(frame: Frame) -> bool:
    """True for a frame of the log; an event without `o` is about this connection only."""
    return frame["t"] != "event" or "o" in frame


class OpenAnswer:
    """One request: the text through offset `applied`, and the frames that arrived after it."""

    def __init__(self, id: str, message: Frame | None, traced: bool = False) -> None:
        self.id = id
        self.message = message  # the `send` that starts it, None for a request that is only read
        self.accepted = False
        self.g: int | None = None
        self.epoch: int | None = None
        self.applied = 0
        self.text = ""
        self.flags: list[SafetyFlag] = []
        self.prompt_flags: list[SafetyPromptFlag] = []
        self.context: KeptTurns | None = None
        self.max_tokens: int | None = None
        self.tokens = 0
        self.standing = Standing.SENDING
        self.moved_because: str | None = None
        self.paused = False
        self.cancelling = False
        self.ended: Ended | None = None
        self.error: ProtocolError | None = None
        self.notify: Callable[[], None] = _nobody
        self._traced = traced
        self._arrived = 0
        self._frames: deque[Frame] = deque()
        self._repaired = False

    @property
    def waiting(self) -> bool:
        """True where a frame waits to be applied."""
        return bool(self._frames)

    def take(self, frame: Frame) -> FrameOrder:
        """Keep a frame that comes next in the log. Returns its order."""
        if not is_logged(frame):
            if frame["k"] in ("paused", "unpaused"):
                self.paused = frame["k"] == "paused"  # set at arrival: a paused reader does not read
            self._frames.append(frame)
            return FrameOrder.NEXT
        first, last = span(frame)
        if frame["t"] not in ("snap", "retract") and first != self._arrived + 1:
            return FrameOrder.STALE if last <= self._arrived else FrameOrder.GAP
        self._arrived = last
        self._frames.append(frame)
        return FrameOrder.NEXT

    def forget_arrived(self) -> None:
        """Drop unapplied frames: reading goes on at `applied`, over another connection or cursor."""
        self._arrived = self.applied
        self._frames.clear()

    def bind(self, frame: Frame) -> None:
        """Take the number `g` of this connection, from `accepted`, `attached` or a welcome."""
        self.accepted, self.g = True, frame["g"]
        self.prompt_flags = flags_of(frame) or self.prompt_flags
        self.context = context_of(frame) or self.context
        self.max_tokens = frame.get("max_tokens", self.max_tokens)
        self.epoch = self.epoch or frame["epoch"]
        self.paused = False  # the server repeats it where it still holds
        if self.standing is Standing.SENDING:
            state = frame.get("state")
            self.standing = Standing(state) if state in ("running", "parked") else Standing.QUEUED
        self.notify()

    def fail(self, error: ProtocolError) -> None:
        """Fail the answer: it will never end."""
        self.error = error
        self.standing = Standing.FAILED
        self.paused = self.cancelling = False
        self.notify()

    def apply(self) -> tuple[Frame, Event | None]:
        """Apply the next frame. No event: it does not fit the text; read again from 0 (once)."""
        frame = self._frames.popleft()
        match frame["t"]:
            case "delta":
                event = self._delta(frame)
            case "snap":
                event = self._replace(frame, frame["x"])
                self.flags = []
                self.epoch = frame["epoch"]
            case "retract":
                event = self._replace(frame, self.text[: frame["p"]])
                self.flags = [flag for flag in self.flags if flag.p + flag.n <= frame["p"]]
            case "end":
                event = self._end(frame)
            case _:
                event = self._status(frame)
        if event is not None:
            self.applied = frame.get("b", frame.get("o", self.applied))
        return frame, event

    def _delta(self, frame: Frame) -> Event | None:
        if frame["p"] != len(self.text) and self._rewound():
            return None
        self.text += frame["x"]
        self.tokens = frame.get("i", self.tokens)
        self.standing = Standing.RUNNING
        return Text(frame["x"], self._trace(frame))

    def _replace(self, frame: Frame, text: str) -> Reset:
        self.text = text
        return Reset(text, self._trace(frame))

    def _status(self, frame: Frame) -> Status:
        kind, detail = frame["k"], frame.get("v")
        if kind in LOGGED_STANDINGS:
            self.standing = Standing(kind)
        if kind == "flagged" and isinstance(detail, dict):
            self.flags.append(_read(SafetyFlag, cast(dict[str, Any], detail)))
        if kind == "moved" and isinstance(detail, dict):
            self.moved_because = cast(dict[str, Any], detail).get("why")
        return Status(kind, detail)

    def _end(self, frame: Frame) -> Ended | None:
        verified = sha256(self.text.encode()).hexdigest() == frame["h"]
        if not verified and self._rewound():
            return None
        self.standing = Standing.ENDED
        self.paused = self.cancelling = False
        self.ended = Ended(
            frame["reason"],
            frame.get("code"),
            _usage(frame["usage"]),
            frame["cost"]["nano"] if "cost" in frame else None,
            frame["cost"]["currency"] if "cost" in frame else None,
            frame["timing"],
            verified,
            self._trace(frame),
            _read(SafetyBlock, frame["safety"]) if "safety" in frame else None,
        )
        return self.ended

    def _trace(self, frame: Frame) -> Trace | None:
        if not self._traced:
            return None
        a, b = span(frame)
        final = frame["t"] == "end"
        return Trace(self.id, a, b, self.tokens, final, frame.get("batch"), frame.get("ms"))

    def _rewound(self) -> bool:
        """Repair the first divergence by reading from offset 0; False for a second one, which is reported."""
        if self._repaired:
            return False
        self._repaired = True
        self.applied, self.text, self.flags, self.tokens = 0, "", [], 0
        self.forget_arrived()
        return True


def _nobody() -> None:
    """Do nothing: nobody waits for changes."""


def _read(kind: type[Read], said: Frame) -> Read:
    """Those of the fields that this version knows."""
    return kind(**{each.name: said[each.name] for each in fields(kind)})


def _usage(counts: Frame) -> Usage:
    return Usage(counts["input"], counts.get("cached_input"), counts["output"], counts["total"])
