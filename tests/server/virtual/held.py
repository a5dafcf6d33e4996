"""One request in a pool in memory, and what its worker is to say."""

import asyncio
from dataclasses import dataclass, field

from engine.api import Control, Enqueue, Entry, PriorityClass, ReaderState, RequestStatus
from engine.safety.filter import Filter
from engine.safety.verdicts import Block

NO_CONTROL = Control(0)
OVER = (RequestStatus.ENDED,)


@dataclass
class AnswerScript:
    """What the worker says to every prompt, how fast, and after how many tokens it stops until told."""

    text: str
    step_seconds: float = 0.0
    holds_after: int | None = None


@dataclass
class Held:
    """One request. `made`: the worker's text before its safety policy, of which `said` is what was shown;
    `behind`: tokens of the answer in its prompt, which goes on."""

    asked: Enqueue
    entries: list[Entry] = field(default_factory=list[Entry])
    status: RequestStatus = RequestStatus.QUEUED
    control: Control = NO_CONTROL
    priority: PriorityClass = PriorityClass.INTERACTIVE
    readers: dict[str, ReaderState] = field(default_factory=dict[str, ReaderState])
    given_up: bool = False
    waits: set[asyncio.TimerHandle] = field(default_factory=set[asyncio.TimerHandle])
    unread: asyncio.TimerHandle | None = None
    said: str = ""
    behind: int = 0
    made: str = ""
    filter: Filter | None = None
    tokens: int = 0
    claims: int = 0
    claimed_ms: int = 0
    first_token_ms: int = 0
    gone: bool = False

    @property
    def block(self) -> Block | None:
        """What its safety policy stopped it for."""
        return None if self.filter is None else self.filter.blocked

    @property
    def head(self) -> int:
        """The last offset."""
        return len(self.entries)
