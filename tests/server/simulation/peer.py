"""The least client that docs/protocol.md asks for ("Reading a request"): a cursor for each request.

It also does what a good client never needs to: it rewinds, detaches, repeats itself, plays with its windows.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.server.simulation.pool import SimulatedPool

Frame = dict[str, Any]


@dataclass
class SimulatedReader:
    """One request as the peer knows it."""

    id: str
    applied: int = 0
    text: str = ""
    epoch: int | None = None
    accepted: bool = False
    g: int | None = None
    received: int = 0
    attaching: int = 0
    detached: bool = False
    ended: bool = False
    gone: bool = False
    rewound: bool = False
    marks: dict[int, str] = field(default_factory=lambda: {0: ""})

    @property
    def good(self) -> int:
        """What may be acknowledged on this `g`: applied, and received on it."""
        return min(self.applied, self.received)


class SimulatedPeer:
    """All that the client knows. `say` puts a frame on the wire."""

    def __init__(self, pool: SimulatedPool, window: Frame | None) -> None:
        self.readers: dict[str, SimulatedReader] = {}
        self.out: list[str] = []
        self.resume_token: str | None = None
        self.window = window
        self.welcomed = False
        self.gaps = 0
        self._pool = pool

    def say(self, t: str, **fields: Any) -> None:
        """Send a frame."""
        self.out.append(msgspec.json.encode({"t": t, **fields}).decode())

    def hello(self) -> None:
        """Begin a connection, going on from what is applied."""
        self.out.clear()
        self.welcomed = False
        for reader in self.readers.values():
            reader.g, reader.attaching = None, 0
        going_on = [reader for reader in self.readers.values() if not (reader.ended or reader.gone)]
        listed = [{"id": each.id, "epoch": each.epoch, "o": each.applied} for each in going_on]
        self.say(
            "hello", v=1, token="key", window=self.window,
            resume={"token": self.resume_token, "requests": listed},
        )  # fmt: skip

    def send(self, id: str) -> None:
        """Start a turn, or the same again."""
        self.readers.setdefault(id, SimulatedReader(id))
        self.say("send", id=id, content="hi")

    def attach(self, reader: SimulatedReader, o: int) -> None:
        """Read on from an offset where the text is known."""
        reader.rewound = reader.rewound or o < reader.applied
        reader.applied, reader.text = o, reader.marks[o]
        reader.marks = {at: text for at, text in reader.marks.items() if at <= o}
        reader.ended = False
        reader.detached = False
        reader.attaching += 1
        self.say("attach", id=reader.id, epoch=reader.epoch, o=o)

    def detach(self, reader: SimulatedReader) -> None:
        """Stop reading."""
        reader.detached, reader.g, reader.attaching = True, None, 0
        self.say("detach", id=reader.id)

    def ack_all(self) -> None:
        """Acknowledge what is applied, and open every window."""
        acks = [[each.g, each.good] for each in self.readers.values() if each.g is not None]
        windows = {str(each.g): 2**40 for each in self.readers.values() if each.g is not None}
        self.say("ack", a=acks, w=windows)

    # Frames

    def take(self, text: str) -> None:
        """One frame of the server."""
        frame: Frame = msgspec.json.decode(text)
        match frame["t"]:
            case "welcome":
                self._welcome(frame)
            case "accepted" | "attached":
                self._bound(frame)
            case "ping":
                self.say("pong", ts=frame["ts"])
            case "error":
                self._error(frame)
            case "delta" | "event" | "snap" | "retract" | "end":
                self._logged(frame)
            case _:
                pass

    def _welcome(self, frame: Frame) -> None:
        assert not self.welcomed
        self.welcomed = True
        self.resume_token = frame["resume_token"]
        listed = {each["id"]: each for each in frame["requests"]}
        for reader in self.readers.values():
            found = listed.pop(reader.id, None)
            if found is not None and found["state"] == "gone":
                self._lost(reader)
            elif found is not None and (reader.detached or reader.ended):
                self.detach(reader)
            elif found is not None:
                reader.accepted, reader.g, reader.received = True, found["g"], found["from"] - 1
                reader.epoch = reader.epoch or found["epoch"]
            elif not reader.accepted:
                self.send(reader.id)
            elif not (reader.ended or reader.gone or reader.detached):
                raise AssertionError(f"{reader.id} was accepted, and is not in the welcome")
        assert not listed, f"the welcome lists {listed}, which nobody ever sent"

    def _bound(self, frame: Frame) -> None:
        reader = self.readers[frame["id"]]
        if frame["t"] == "attached":
            reader.attaching = max(0, reader.attaching - 1)
        reader.accepted = True
        reader.epoch = reader.epoch or frame["epoch"]
        if "from" in frame or reader.g != frame["g"]:
            reader.received = frame.get("from", 1) - 1
        reader.g = None if reader.detached else frame["g"]

    def _error(self, frame: Frame) -> None:
        reader = self.readers[frame["id"]]
        assert frame["code"] in ("not_resumable", "log_lost"), frame
        if not reader.ended:
            self._lost(reader)

    def _lost(self, reader: SimulatedReader) -> None:
        log = self._pool.logs.get(reader.id)
        assert log is not None, reader
        assert log.gone, f"{reader.id} is called lost and is not"
        assert log.stored is None, f"{reader.id} is called lost and is stored"
        reader.gone = True
        reader.g = None

    def _logged(self, frame: Frame) -> None:
        reader = next((each for each in self.readers.values() if each.g == frame["g"]), None)
        if reader is None or reader.attaching or "o" not in frame | {"o": frame.get("a")}:
            return
        if frame["t"] == "event" and "o" not in frame:
            return
        first, last = (frame["a"], frame["b"]) if frame["t"] == "delta" else (frame["o"], frame["o"])
        reader.received = last
        if frame["t"] not in ("snap", "retract") and first != reader.applied + 1:
            if last > reader.applied:
                self.gaps += 1
                self.attach(reader, reader.applied)
            return
        self._apply(reader, frame)
        reader.applied = last
        reader.marks[last] = reader.text
        known = self._pool.logs[reader.id].texts(reader.epoch, last)
        log = self._pool.logs[reader.id]
        assert reader.text in known or log.retracted, f"{reader.id} shows {reader.text!r} at {last}"

    def _apply(self, reader: SimulatedReader, frame: Frame) -> None:
        match frame["t"]:
            case "delta":
                retracted = self._pool.logs[reader.id].retracted
                assert frame["p"] == len(reader.text) or retracted, (
                    f"{frame} after {len(reader.text)} characters"
                )
                reader.text += frame["x"]
            case "snap":
                reader.text, reader.epoch, reader.marks = frame["x"], frame["epoch"], {}
                reader.ended = False  # it is read once more, of an answer that was sent again
            case "retract":
                reader.text, reader.marks = reader.text[: frame["p"]], {0: ""}
                reader.ended = False
            case "end":
                shown = hashlib.sha256(reader.text.encode()).hexdigest()
                assert shown == frame["h"], f"{reader.id} ended as {reader.text!r}"
                reader.ended = True
            case _:
                pass
