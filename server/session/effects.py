"""Effects of a session. The shell performs them, in order, and answers with events."""

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
    """Note that the client has the newest resume token: the one before may expire soon."""


@dataclass(frozen=True)
class EndSession:
    """End the session, as the client said bye: the resume token is void."""


@dataclass(frozen=True)
class StartSend:
    """Take a send; answer SendAccepted or SendRefused."""

    message: Send


@dataclass(frozen=True)
class StartAttach:
    """Check whether and from which offset a request can be read; answer AttachAllowed or AttachRefused."""

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
    """Feed hints of this request from now on."""

    id: str


@dataclass(frozen=True)
class Unfollow:
    """Stop hints. `done`: the client has applied its end. `damaged`: reason why its log cannot be read."""

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
    """Open a request again after its log was lost: answer AttachAllowed, or AttachRefused (not asked)."""

    id: str
    epoch: int
    o: int


@dataclass(frozen=True)
class ReportReader:
    """Report a reader of a request as stuck, or as reading again."""

    id: str
    stuck: bool


class MeasureKind(StrEnum):
    """Measurements of a session."""

    STALL_SECONDS = "stall_seconds"
    ACK_LAG_EVENTS = "ack_lag_events"
    REPLAYED_EVENTS = "replayed_events"
    GAPS_REPAIRED = "gaps_repaired"


@dataclass(frozen=True)
class Measure:
    """A measurement for the instruments."""

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
"""Effects that need the gateway's stores, pools or access."""

Effect = Emit | Close | Measure | AskingEffect
