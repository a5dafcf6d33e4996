"""What every connection of a case must keep, whatever the case is about: the table of messages, a dense log,
the same text for every reader, honest hashes, windows that hold. Pure.
"""

from collections import deque
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from tests.conformance.cases import Strict, read_yaml
from tests.conformance.values import Names

Frame = dict[str, Any]
OTHER_BYTES = 64
ACK_SECONDS = 0.15
LOGGED = ("delta", "event", "snap", "retract", "end")


class BrokenPromise(AssertionError):  # noqa: N818  (the gateway's error, not ours)
    """The gateway said what it must not say."""


class MessageShape(Strict, frozen=True):
    """The fields of one message type; of an event of kind flagged those of its value, too."""

    fields: dict[str, Any]
    maybe: dict[str, Any] = {}
    flagged: dict[str, Any] = {}


SHAPES = read_yaml(Path(__file__).parent / "messages.yaml", dict[str, MessageShape])


def check_shape(frame: Frame) -> None:
    """The message has its fields and no others, with the right values. Raises BrokenPromise."""
    shape = SHAPES.get(str(frame.get("t")))
    if shape is None:
        raise BrokenPromise(f"no message type of the protocol: {frame}")
    optional = {name: pattern for name, pattern in shape.maybe.items() if name in frame}
    problem = Names().mismatch({"$only": {"t": frame["t"], **shape.fields, **optional}}, frame)
    if problem is None and frame.get("k") == "flagged":
        problem = Names().mismatch({"$only": shape.flagged}, frame.get("v"))
    if problem:
        raise BrokenPromise(f"{problem} in {frame}")


@dataclass
class WitnessedAnswer:
    """What all connections of a case together know of one request. `bounds`: offset → position after it."""

    text: str = ""
    bounds: dict[int, int] = field(default_factory=lambda: {0: 0})
    end: Frame | None = None


Answers = dict[tuple[str, str], WitnessedAnswer]


@dataclass
class WitnessedReading:
    """One request on one connection. `position` is None while the text before is not known here."""

    id: str
    applied: int = 0
    acked: int = 0
    position: int | None = 0
    ended: bool = False
    detached: bool = False
    events_max: int = 0
    owes_since: float = 0.0
    in_flight: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])

    @property
    def unacked(self) -> int:
        """Bytes in flight."""
        return sum(size for _, size in self.in_flight)


class Ledger:
    """One connection's. `answers` is shared by the connections of a case; an id is a tenant's own."""

    def __init__(self, answers: Answers) -> None:
        self.readings: dict[int, WitnessedReading] = {}
        self.tenant = ""
        self._answers = answers
        self._events_max = self._bytes_max = self._connection_bytes = 0
        self._asked: dict[str, Any] = {}
        self._lowered: dict[int, int] = {}
        self._lowered_before_ping: dict[int, int] = {}

    # What the client says

    def said(self, message: Any) -> None:
        """Note what changes the client's side: windows, acknowledgements, detaching."""
        if not isinstance(message, dict):
            return
        frame = cast(Frame, message)
        match frame.get("t"):
            case "hello":
                self._asked = frame.get("window") or {}
            case "detach":
                for reading in self.readings.values():
                    reading.detached = reading.detached or reading.id == frame.get("id")
            case "ack" | "ping" | "pong":
                self._acked(frame)
            case _:
                pass

    def _acked(self, frame: Frame) -> None:
        if frame["t"] == "ping":
            self._lowered_before_ping = dict(self._lowered)
        try:
            pairs = [(int(g), int(o)) for g, o in frame.get("a") or []]
            windows = {int(g): int(events) for g, events in (frame.get("w") or {}).items()}
        except (TypeError, ValueError, AttributeError):
            return  # a bad message on purpose
        for g, o in pairs:
            if reading := self.readings.get(g):
                reading.acked = max(reading.acked, o)
                while reading.in_flight and reading.in_flight[0][0] <= o:
                    reading.in_flight.popleft()
        for g, events in windows.items():
            self._set_window(g, min(events, self._events_max))

    def _set_window(self, g: int, events: int) -> None:
        reading = self.readings.get(g)
        if reading is None:
            return
        if events >= reading.events_max:
            reading.events_max = events
            self._lowered.pop(g, None)
        else:
            self._lowered[g] = events  # what was on its way comes all the same, until a pong

    # What the gateway says

    def heard(self, frame: Frame) -> None:
        """Check one message of the gateway. Raises BrokenPromise."""
        check_shape(frame)
        match frame["t"]:
            case "welcome":
                self._welcomed(frame)
            case "accepted":
                if frame["g"] not in self.readings:
                    self._begin(frame["g"], frame["id"], 1)
                self._same_request(frame)
            case "attached":
                self._begin(frame["g"], frame["id"], frame["from"])
            case "pong":
                for g, events in self._lowered_before_ping.items():
                    self.readings[g].events_max = events
                self._lowered_before_ping.clear()
            case kind if kind in LOGGED:
                self._logged(frame)
            case _:
                pass

    def text(self, g: int) -> str:
        """The whole text of a request as far as any connection knows it."""
        return self._answer(self.readings[g].id).text

    def end(self, g: int) -> Frame | None:
        """The end of a request, once it was heard here."""
        reading = self.readings[g]
        known = self._answer(reading.id).end if reading.ended else None
        return None if known is None else {**known, "g": g}

    def ack_is_due(self, g: int, now: float) -> bool:
        """Whether a client acknowledges now: at half a window, or a while after the first unacknowledged."""
        reading = self.readings[g]
        events, size = reading.applied - reading.acked, reading.unacked
        if not events:
            reading.owes_since = now
        half = events * 2 >= reading.events_max or size * 2 >= self._bytes_max
        return events > 0 and (half or now - reading.owes_since >= ACK_SECONDS)

    def _answer(self, id: str) -> WitnessedAnswer:
        return self._answers.setdefault((self.tenant, id), WitnessedAnswer())

    def _welcomed(self, frame: Frame) -> None:
        limits = frame["limits"]
        self._events_max, self._connection_bytes = limits["events"], limits["connection_bytes"]
        self._bytes_max = min(self._asked.get("bytes", limits["bytes"]), limits["bytes"])
        for request in frame["requests"]:
            if "g" in request:
                self._begin(request["g"], request["id"], request["from"])

    def _begin(self, g: int, id: str, start: int) -> None:
        known = self.readings.get(g)
        if known is not None and known.id != id:
            raise BrokenPromise(f"g {g} names two requests: {known.id} and {id}")
        events = min(self._asked.get("events", self._events_max), self._events_max)
        answer = self._answer(id)
        position = answer.bounds.get(start - 1)
        reading = WitnessedReading(id, start - 1, start - 1, position, events_max=events)
        if known is not None:
            reading.events_max = known.events_max
        self.readings[g] = reading

    def _same_request(self, frame: Frame) -> None:
        known = self.readings[frame["g"]].id
        if known != frame["id"]:
            raise BrokenPromise(f"g {frame['g']} is {known}, not {frame['id']}")

    def _logged(self, frame: Frame) -> None:
        reading = self.readings.get(frame["g"])
        if reading is None:
            raise BrokenPromise(f"a g that nothing named before: {frame}")
        if reading.detached:
            return
        if reading.ended:
            raise BrokenPromise(f"something follows the end: {frame}")
        match frame["t"]:
            case "snap":
                self._snap(reading, frame)
            case "retract":
                self._retract(reading, frame)
            case "event" if "o" not in frame:
                if frame["k"] not in ("paused", "unpaused"):
                    raise BrokenPromise(f"an event of the log without an offset: {frame}")
            case _:
                self._entry(reading, frame)

    def _snap(self, reading: WitnessedReading, frame: Frame) -> None:
        answer = self._answer(reading.id)
        known = answer.text[: len(frame["x"])]
        if known != frame["x"][: len(known)]:
            raise BrokenPromise(f"a snap of another text: {frame}, not {known!r}")
        answer.text = max(answer.text, frame["x"], key=len)
        reading.applied = frame["o"]
        reading.position = len(frame["x"])
        answer.bounds = {0: 0, frame["o"]: reading.position}
        self._count(reading, frame["o"], len(frame["x"].encode()), bypasses=True)

    def _retract(self, reading: WitnessedReading, frame: Frame) -> None:
        answer = self._answer(reading.id)
        answer.text = answer.text[: frame["p"]]
        reading.applied, reading.position = frame["o"], frame["p"]
        answer.bounds = {0: 0, frame["o"]: frame["p"]}

    def _flagged(self, reading: WitnessedReading, frame: Frame) -> None:
        end = frame["v"]["p"] + frame["v"]["n"]
        if reading.position is not None and end > reading.position:
            raise BrokenPromise(f"a flag of text that was not sent, of {reading.position}: {frame}")

    def _entry(self, reading: WitnessedReading, frame: Frame) -> None:
        first, last = (frame["a"], frame["b"]) if frame["t"] == "delta" else (frame["o"], frame["o"])
        if first != reading.applied + 1 or last < first:
            raise BrokenPromise(f"offsets {first}..{last} after {reading.applied}: {frame}")
        size = len(frame["x"].encode()) if frame["t"] == "delta" else OTHER_BYTES
        self._count(reading, last, size)
        if frame["t"] == "delta":
            self._delta(reading, frame)
        if frame.get("k") == "flagged":
            self._flagged(reading, frame)
        reading.applied = last
        answer = self._answer(reading.id)
        if reading.position is not None:
            known = answer.bounds.setdefault(last, reading.position)
            if known != reading.position:
                raise BrokenPromise(f"offset {last} is at {reading.position} here, at {known} elsewhere")
        if frame["t"] == "end":
            self._end(reading, answer, frame)

    def _delta(self, reading: WitnessedReading, frame: Frame) -> None:
        answer, text, start = self._answer(reading.id), frame["x"], frame["p"]
        if not text or len(text.encode()) > 16 * 1024:
            raise BrokenPromise(f"a delta of {len(text.encode())} bytes")
        if reading.position is not None and start != reading.position:
            raise BrokenPromise(f"position {start} after {reading.position}: {frame}")
        reading.position = start + len(text)
        if start > len(answer.text):
            return
        known = answer.text[start : start + len(text)]
        if known != text[: len(known)]:
            raise BrokenPromise(f"two readers got different texts at {start}: {text!r}, {known!r}")
        answer.text += text[len(known) :]

    def _end(self, reading: WitnessedReading, answer: WitnessedAnswer, frame: Frame) -> None:
        reading.ended = True
        usage = frame["usage"]
        if usage["total"] != usage["input"] + usage["output"] or usage["cached_input"] > usage["input"]:
            raise BrokenPromise(f"usage does not add up: {usage}")
        if reading.position is not None and reading.position <= len(answer.text):
            text = answer.text[: reading.position]
            if sha256(text.encode()).hexdigest() != frame["h"]:
                raise BrokenPromise(f"h is not the hash of {text!r}")
        end = {**frame, "g": 0}
        if answer.end is not None and answer.end != end:
            raise BrokenPromise(f"a second end: {frame}, not {answer.end}")
        answer.end = end

    def _count(self, reading: WitnessedReading, last: int, size: int, bypasses: bool = False) -> None:
        """What is in flight fits the windows, but for one entry when nothing else is."""
        if not bypasses:
            waiting = last - reading.acked
            if waiting > reading.events_max:
                raise BrokenPromise(f"{waiting} offsets are unacknowledged, {reading.events_max} may be")
            if reading.in_flight:
                everything = sum(each.unacked for each in self.readings.values()) + size
                if reading.unacked + size > self._bytes_max:
                    raise BrokenPromise(f"{reading.unacked + size} bytes of {reading.id} are unacknowledged")
                if everything > self._connection_bytes:
                    raise BrokenPromise(f"{everything} bytes of the connection are unacknowledged")
        if last > reading.acked:
            reading.in_flight.append((last, size))
