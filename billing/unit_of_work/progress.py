"""How far an operation that takes long is, and whether it was asked to stop. Pure.

It stops by itself, between two steps, and answers what it did: what is done stays done.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from core.clock import now_ms
from core.ids import uuid7
from core.operations import Operation

EVENTS_MAX = 100
WHAT_CHARACTERS_MAX = 200


class ProgressEvent(msgspec.Struct, frozen=True):
    """A step: so many things are `done`, `of` so many as far as is known, and what happened. `at_ms`: Unix
    ms."""

    done: int
    of: int | None
    what: str
    at_ms: int


class OperationProgress:
    """The last steps of one operation. `told` hears of each; `so_far` says what it would answer if it ended
    now, for an operation that tells it."""

    def __init__(self, told: Callable[[ProgressEvent], None] | None = None) -> None:
        self.events: deque[ProgressEvent] = deque(maxlen=EVENTS_MAX)
        self.steps = 0
        self.heeded = False
        self.so_far: Callable[[], msgspec.Struct] | None = None
        self._stop = False
        self._told = told

    def tell(self, done: int, of: int | None, what: str) -> None:
        """Note a step."""
        event = ProgressEvent(done, of, what[:WHAT_CHARACTERS_MAX], now_ms())
        self.events.append(event)
        self.steps += 1
        if self._told is not None:
            self._told(event)

    def changed(self) -> None:
        """Note that what it would answer has changed, without a step."""
        self.steps += 1

    @property
    def partial_answer(self) -> msgspec.Struct | None:
        """What it would answer if it ended now; None: it does not tell."""
        return None if self.so_far is None else self.so_far()

    def stop(self) -> None:
        """Ask the operation to stop."""
        self._stop = True

    @property
    def stopping(self) -> bool:
        """True once it is asked to stop; who reads this does so."""
        self.heeded = self.heeded or self._stop
        return self._stop


class StartedRun(msgspec.Struct, frozen=True):
    """A call that goes on as a run, whose state is to be asked for."""

    run: str
    operation: str


@dataclass
class BegunRun:
    """A run of this process. `write` adds it to a transaction; `begun` once that is committed, with the audit
    row of what it does, and `on_begun` is called."""

    id: str
    tenant: str
    caller: str
    author: str
    operation: Operation
    write: Callable[[AsyncSession, "BegunRun"], Awaitable[None]]
    progress: OperationProgress = field(default_factory=OperationProgress)
    begun: bool = False
    on_begun: Callable[[], None] = lambda: None

    @classmethod
    def of(
        cls,
        who: OperationActor,
        operation: Operation,
        write: Callable[[AsyncSession, "BegunRun"], Awaitable[None]],
    ) -> "BegunRun":
        """A new run of a caller."""
        return cls(uuid7(now_ms()), who.tenant or PLATFORM, who.caller, who.author.name, operation, write)

    def begin(self) -> None:
        """It is committed: its caller may be answered."""
        self.begun = True
        self.on_begun()

    @property
    def started(self) -> StartedRun:
        """What its caller is answered."""
        return StartedRun(self.id, self.operation.name)
