"""What a client's user holds: one answer, and what was shown of it."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from parley_client import Answer, Event, ProtocolError

LOGGED = ('{"t":"delta"', '{"t":"event"', '{"t":"snap"', '{"t":"end"')


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
    """Whether both are messages of one request's log."""
    mine, its = (re.match(r'{"t":"\w+","g":(\d+),', each) for each in (frame, other))
    return bool(mine and its and mine[1] == its[1] and frame.startswith(LOGGED))
