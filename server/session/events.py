"""Events of a session. The shell makes them; the machine decides what follows."""

from dataclasses import dataclass

from core.errors import Refusal
from engine.api import Entry
from server.protocol.codes import HELLO_REFUSED, CloseCode, ErrorCode
from server.protocol.context_use import TurnFacts
from server.protocol.flags import SentFlag
from server.protocol.messages import ClientMessage, QuotaLeft

NO_QUOTA = QuotaLeft()
NO_FACTS = TurnFacts()


@dataclass(frozen=True)
class FrameReceived:
    """A well-formed message came in."""

    message: ClientMessage


@dataclass(frozen=True)
class FrameRejected:
    """A frame came in that is no message; `re` and `id` are as much of it as could be read."""

    refusal: Refusal
    re: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class ReadableRequest:
    """A request that may be read, in the state of its log: everything after `o` comes next.

    `snap` is not None where the client must forget what it has: its text through `o` is that. `facts`: what
    was pinned when the request was accepted.
    """

    id: str
    epoch: int
    o: int
    head: int
    state: str
    snap: str | None = None
    facts: TurnFacts = NO_FACTS


@dataclass(frozen=True)
class NotResumed:
    """A request of the client's that cannot be resumed; `why`: not_resumable or forbidden."""

    id: str
    why: str


@dataclass(frozen=True)
class Opened:
    """The hello is accepted. `now_ms` is Unix time; access lasts `access_ms`, None: without end."""

    session: str
    connection: str
    resume_token: str
    resume_expires_at: int
    resumed: bool
    requests: tuple[ReadableRequest | NotResumed, ...]
    now_ms: int
    access_ms: int | None = None


@dataclass(frozen=True)
class HelloRefused:
    """The hello is refused and the socket closed."""

    refusal: Refusal
    close: CloseCode


@dataclass(frozen=True)
class SendAccepted:
    """A send is durable and may be read."""

    reading: ReadableRequest
    dup: bool
    priority: str
    position: int = 0
    wait_ms: int = 0
    quota: QuotaLeft = NO_QUOTA
    flags: tuple[SentFlag, ...] = ()


@dataclass(frozen=True)
class SendRefused:
    """A send is refused; nothing of it remains."""

    id: str
    refusal: Refusal


@dataclass(frozen=True)
class AttachAllowed:
    """An attach may read. `asked` False: the client did not ask, its log was replaced under it."""

    reading: ReadableRequest
    asked: bool = True


@dataclass(frozen=True)
class AttachRefused:
    """An attach may not read. `asked` False: the client did not ask, the log went away under a reader."""

    id: str
    refusal: Refusal
    asked: bool = True


@dataclass(frozen=True)
class CancelAnswered:
    """A cancel took effect, or came too late."""

    id: str
    state: str


@dataclass(frozen=True)
class CancelRefused:
    """A cancel is denied."""

    id: str
    refusal: Refusal


@dataclass(frozen=True)
class LogGrew:
    """A hint: these entries, perhaps not all there are; the log's head is `head`."""

    id: str
    entries: list[Entry]
    head: int


@dataclass(frozen=True)
class LogBroken:
    """The log is not the one that was read: lost, or begun again."""

    id: str


@dataclass(frozen=True)
class LogRead:
    """The answer to a ReadLog effect: the entries after offset `after`, of the log that was asked for."""

    id: str
    after: int
    entries: list[Entry]
    epoch: int = 1


@dataclass(frozen=True)
class Reauthenticated:
    """The fresh token is good for `expires_in_ms`, None: without end."""

    expires_in_ms: int | None


@dataclass(frozen=True)
class AccessChanged:
    """The end of the client's access has changed: in `access_ms`, None: never."""

    access_ms: int | None


@dataclass(frozen=True)
class AuthRefused:
    """The fresh token is refused."""

    refusal: Refusal

    @property
    def close(self) -> CloseCode:
        """The code by which a token that is no good ends its session."""
        return HELLO_REFUSED.get(ErrorCode(self.refusal.code), CloseCode.AUTH_INVALID)


@dataclass(frozen=True)
class TimerFired:
    """The machine's deadline has come."""


@dataclass(frozen=True)
class DrainStarted:
    """This gateway stops and asks this client to go on elsewhere within `in_ms`."""

    in_ms: int


@dataclass(frozen=True)
class CloseOrdered:
    """Something outside ends this connection: superseded, a revoked key, a fault."""

    code: CloseCode
    refusal: Refusal | None = None


@dataclass(frozen=True)
class ConnectionLost:
    """The socket is gone."""


Event = (
    FrameReceived
    | FrameRejected
    | Opened
    | HelloRefused
    | SendAccepted
    | SendRefused
    | AttachAllowed
    | AttachRefused
    | CancelAnswered
    | CancelRefused
    | LogGrew
    | LogRead
    | LogBroken
    | Reauthenticated
    | AccessChanged
    | AuthRefused
    | TimerFired
    | DrainStarted
    | CloseOrdered
    | ConnectionLost
)
