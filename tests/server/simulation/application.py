"""What a client's user holds: one answer, and what was shown of it."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from parley_client import Answer, Event, ProtocolError


@dataclass
class ApplicationReader:
    """The application: one answer and what it was told of it."""

    id: str
    opening: "asyncio.Task[Answer]"
    answer: Answer | None = None
    events: Any = None
    reading: "asyncio.Task[Event] | None" = None
    shown: str = ""
    over: bool = False
    error: ProtocolError | None = None
    detached: bool = False


def follows(frame: str, other: str) -> bool:
    """Whether both are messages of one request's log. `paused`, which has no offset, is of none: nothing in
    it shows that what came before it was swallowed."""
    mine, its = _place(frame), _place(other)
    return mine is not None and mine == its


def _place(frame: str) -> int | None:
    """The `g` of a message that has offsets."""
    said = json.loads(frame) if frame.startswith("{") else {}
    return said.get("g") if said.keys() & {"o", "a"} else None
