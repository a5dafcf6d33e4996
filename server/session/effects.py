"""What a session wants done. The shell does it, in order, and answers with events."""

from dataclasses import dataclass
from enum import StrEnum

from server.protocol.codes import CloseCode
from server.protocol.messages import Hello, Send, ServerMessage


@dataclass(frozen=True)
class Emit:
    """Send a message to the client."""

    message: ServerMessage


@dataclass(frozen=True)
class Close:
    """Close the socket once everything emitted before is written."""

    code: CloseCode


@dataclass(frozen=True)
class OpenSession:
    """Check the hello's token and resume; answer Opened or HelloRefused."""

    hello: Hello


@dataclass(frozen=True)
class ConfirmResumeToken:
    """The client has the newest resume token: the one before may die soon."""


@dataclass(frozen=True)
class EndSession:
    """The client said bye: the resume token dies."""


@dataclass(frozen=True)
class StartSend:
    """Take a send; answer SendAccepted or SendRefused."""

    message: Send


@dataclass(frozen=True)
class StartAttach:
    """Look whether and from where a request can be read; answer AttachAllowed or AttachRefused."""

    id: str
    epoch: int | None
    o: int


@dataclass(frozen=True)
class StartCancel:
    """Cancel a request; where `answer`, reply CancelAnswered or CancelRefused."""

    id: str
    answer: bool = True


@dataclass(frozen=True)
class Follow:
    """Bring hints of this request from now on."""

    id: str


@dataclass(frozen=True)
class Unfollow:
    """No more hints. `done`: the client has applied its end. `damaged`: why its log cannot be read."""

    id: str
    done: bool
    damaged: str = ""


@dataclass(frozen=True)
class ReadLog:
    """Read the log after an offset, within limits; answer LogRead."""

    id: str
    epoch: int
    after: int
    entries_max: int
    bytes_max: int


@dataclass(frozen=True)
class Reopen:
    """The log that was read is lost or begun again: answer AttachAllowed, or AttachRefused (not asked)."""

    id: str
    epoch: int
    o: int


@dataclass(frozen=True)
class ReportReader:
    """How this reader of a request stands: stuck, or reading again."""

    id: str
    stuck: bool


class MeasureKind(StrEnum):
    """What a session measures."""

    STALL_SECONDS = "stall_seconds"
    ACK_LAG_EVENTS = "ack_lag_events"
    REPLAYED_EVENTS = "replayed_events"
    GAPS_REPAIRED = "gaps_repaired"


@dataclass(frozen=True)
class Measure:
    """A value for the instruments."""

    what: MeasureKind
    value: float


@dataclass(frozen=True)
class Reauthenticate:
    """Check a fresh token; answer Reauthenticated or AuthRefused."""

    token: str


AskingEffect = (
    OpenSession
    | ConfirmResumeToken
    | EndSession
    | StartSend
    | StartAttach
    | StartCancel
    | Follow
    | Unfollow
    | ReadLog
    | Reopen
    | ReportReader
    | Reauthenticate
)
"""Those that ask something of the gateway's stores, pools or access."""

Effect = Emit | Close | Measure | AskingEffect
