"""The open answers of one client: which is behind a `g` of the open connection, and which frames to send.

Decides only: methods return the frames to send. No socket, no token, no clock.
"""

from collections.abc import Iterable
from typing import Any

from parley_client.acks import Acks
from parley_client.answer import (
    Counters,
    Ended,
    Event,
    Frame,
    FrameOrder,
    OpenAnswer,
    ProtocolError,
    Reset,
    is_logged,
    span,
)

LISTED_MAX = 32  # a hello has 4 KiB; answers beyond are attached after the welcome
RETRY_MS = 1000
RETRIES_MAX = 5


class OpenAnswers:
    """Answers without an end, by id and by `g`. `traced`: events carry their origin in the log."""

    def __init__(self, traced: bool = False) -> None:
        self._traced = traced
        self.counters = Counters()
        self.acks = Acks(256, 32 * 1024, 128 * 1024)
        self._open: dict[str, OpenAnswer] = {}
        self._by_g: dict[int, OpenAnswer] = {}
        self._refusals: dict[str, int] = {}

    def get(self, id: str) -> OpenAnswer | None:
        """An open answer."""
        return self._open.get(id)

    def add(self, id: str, message: Frame | None) -> OpenAnswer:
        """A new answer: one to send, or one to read from its start."""
        reading = self._open[id] = OpenAnswer(id, message, self._traced)
        return reading

    def detach(self, reading: OpenAnswer) -> list[Frame]:
        """Stop reading."""
        if self._open.get(reading.id) is not reading:
            return []
        self.fail(reading, {"code": "closed", "message": "this answer was detached"})
        return [{"t": "detach", "id": reading.id}]

    def asked(self) -> list[Frame]:
        """Requests that a hello asks to resume: the newest answers, those only in the outbox last."""
        newest = list(reversed(self._open.values()))
        listed = [r for r in newest if r.accepted] + [r for r in newest if not r.accepted]
        return [{"id": each.id, "epoch": each.epoch, "o": each.applied} for each in listed[:LISTED_MAX]]

    def lost(self) -> None:
        """Note that no connection is open: unread frames come again from where reading stands."""
        self._by_g.clear()
        for reading in self._open.values():
            reading.forget_arrived()

    def resume(self, listed: Iterable[Frame], asked: set[str], acks: Acks) -> list[Frame]:
        """Take up every open answer over a new connection; what the server never got is sent again."""
        self.lost()
        self.acks = acks
        self._refusals.clear()
        by_id = {each["id"]: each for each in listed}
        out: list[Frame] = [
            {"t": "detach", "id": id}
            for id, found in by_id.items()
            if id not in self._open and found["state"] != "gone"
        ]
        for reading in list(self._open.values()):
            out += self._resume(reading, by_id.get(reading.id), reading.id in asked)
        return out

    def _resume(self, reading: OpenAnswer, found: Frame | None, asked: bool) -> list[Frame]:
        out: list[Frame] = []
        if found is not None and found["state"] == "gone":
            code = found.get("why", "not_resumable")
            self.fail(reading, {"code": code, "message": "the server no longer has this answer"})
            return []
        if found is not None and "g" in found:
            self.counters.resumed += 1
            self._bind(reading, found)  # what the old connection brought meanwhile comes again and is ignored
        elif found is not None or reading.accepted or reading.message is None:
            out += self._attach(reading)
        else:
            self.counters.resent += asked
            out.append(reading.message)
        if reading.cancelling:
            out.append({"t": "cancel", "id": reading.id})
        return out

    def bind(self, frame: Frame) -> None:
        """Bind an `accepted` or `attached` answer to its `g`."""
        if (reading := self._open.get(frame["id"])) is not None:
            self._bind(reading, frame)

    def receive(self, frame: Frame) -> list[Frame]:
        """Take a message of a request's log; it is applied when its reader asks for it."""
        reading = self._by_g.get(frame["g"])
        if reading is None:
            return []  # late frames of a cursor that was moved
        match reading.take(frame):
            case FrameOrder.NEXT:
                reading.notify()
            case FrameOrder.STALE:
                self.counters.stale += 1
                if span(frame)[1] <= reading.applied:
                    self.acks.note(frame)
            case FrameOrder.GAP:
                self.counters.gaps += 1
                return self._attach(reading)
        return []

    def apply(self, reading: OpenAnswer) -> tuple[Event, list[Frame]]:
        """Apply an answer's next frame, because its reader asked for it."""
        frame, event = reading.apply()
        if event is None:
            self.counters.gaps += 1
            return Reset(""), self._attach(reading)
        if is_logged(frame) and self._by_g.get(frame["g"]) is reading:
            self.acks.note(frame)
        if isinstance(event, Ended):
            self._open.pop(reading.id, None)
            self._by_g.pop(frame["g"], None)
            self.counters.verified += event.verified
            self.counters.mismatched += not event.verified
        return event, []

    def refused(self, error: Frame) -> float | None:
        """Take a request's `error`. Returns the seconds after which to `attach_again`, None: never."""
        reading, re = self._open.get(error.get("id", "")), error.get("re")
        if reading is None:
            return None
        if re == "cancel":
            reading.cancelling = False
        if re == "cancel" or (re == "send" and reading.accepted):
            return None
        refusals = self._refusals[reading.id] = self._refusals.get(reading.id, 0) + 1
        if re == "send" or not error["retry"] or refusals > RETRIES_MAX:
            self.fail(reading, error)
            return None
        self._unbind(reading)
        return error.get("after_ms", RETRY_MS) / 1000

    def attach_again(self, id: str) -> list[Frame]:
        """Repeat an attach that was refused for a while, where nothing else settled it meanwhile."""
        reading = self._open.get(id)
        return self._attach(reading) if reading is not None and id in self._refusals else []

    def fail(self, reading: OpenAnswer, error: Frame) -> None:
        """Fail an answer: it will not end."""
        self._open.pop(reading.id, None)
        self._refusals.pop(reading.id, None)
        self._unbind(reading)
        reading.fail(ProtocolError(error))

    def fail_all(self, error: Frame) -> None:
        """Fail every open answer, as the client stops."""
        for reading in list(self._open.values()):
            self.fail(reading, error)

    def _bind(self, reading: OpenAnswer, frame: Frame) -> None:
        self._by_g[frame["g"]] = reading
        self._refusals.pop(reading.id, None)
        reading.bind(frame)

    def _attach(self, reading: OpenAnswer) -> list[Frame]:
        """Move the server's cursor to what is applied; frames of the old one are ignored until `attached`."""
        self._unbind(reading)
        reading.forget_arrived()
        attach: dict[str, Any] = {"t": "attach", "id": reading.id, "o": reading.applied}
        return [attach | ({"epoch": reading.epoch} if reading.epoch else {})]

    def _unbind(self, reading: OpenAnswer) -> None:
        if reading.g is not None and self._by_g.get(reading.g) is reading:
            del self._by_g[reading.g]
            self.acks.drop(reading.g)
