"""The messages of parley.v1, one struct each; JSON and MessagePack are encodings of the same structs.

Values whose faults are `bad_request` rather than `bad_message` (content, options, metadata) stay unparsed
here; server/requests/parse.py checks them.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from server.protocol.context_use import ContextUse, TokenCounts
from server.protocol.flags import EndSafety, RefusedPrompt, SentFlag

Natural = Annotated[int, Meta(ge=0)]
Id = Annotated[str, Meta(max_length=64)]
Acks = list[tuple[int, Natural]]
# JSON has only text keys, MessagePack clients may write numbers.
Windows = dict[int | str, Natural]


class Agent(Struct, frozen=True):
    """The client's name for itself; for logs only."""

    name: Annotated[str, Meta(max_length=100)] = ""
    version: Annotated[str, Meta(max_length=100)] = ""


class WindowRequest(Struct, frozen=True):
    """Windows that the client asks for, per request."""

    events: Natural | None = None
    bytes: Natural | None = None


class ResumeRequest(Struct, frozen=True):
    """A request the client has no `end` of: `o` is the last offset it applied."""

    id: Id
    epoch: int | None = None
    o: Natural = 0


class ResumeRequests(Struct, frozen=True):
    """The resume part of a hello."""

    token: Annotated[str, Meta(max_length=2048)] | None = None
    requests: Annotated[list[ResumeRequest], Meta(max_length=64)] = []


class Hello(Struct, frozen=True, tag_field="t", tag="hello"):
    """Opens the session."""

    v: int
    token: Annotated[str, Meta(max_length=2048)] | None = None
    agent: Agent | None = None
    window: WindowRequest | None = None
    caps: Annotated[list[str], Meta(max_length=16)] = []
    resume: ResumeRequests | None = None


class Send(Struct, frozen=True, tag_field="t", tag="send"):
    """One turn."""

    id: Id
    model: str | None = None
    conversation: str | None = None
    content: Any = None
    messages: Any = None
    system: str | None = None
    options: Any = None
    metadata: Any = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class Attach(Struct, frozen=True, tag_field="t", tag="attach"):
    """Read a request onward from `o`."""

    id: Id
    o: Natural
    epoch: int | None = None


class Detach(Struct, frozen=True, tag_field="t", tag="detach"):
    """Stop reading a request."""

    id: Id


class Ack(Struct, frozen=True, tag_field="t", tag="ack"):
    """Applied through; optionally new event windows."""

    a: Acks
    w: Windows | None = None


class Cancel(Struct, frozen=True, tag_field="t", tag="cancel"):
    """Stop generating."""

    id: Id


class Auth(Struct, frozen=True, tag_field="t", tag="auth"):
    """A fresh token within the session."""

    token: Annotated[str, Meta(max_length=2048)]


class Ping(Struct, frozen=True, tag_field="t", tag="ping"):
    """Asks for a pong; from a client it may carry acks."""

    ts: int | float | None = None
    a: Acks | None = None


class Pong(Struct, frozen=True, tag_field="t", tag="pong"):
    """Answers a ping; from a client it carries its acks."""

    ts: int | float | None = None
    a: Acks | None = None


class Bye(Struct, frozen=True, tag_field="t", tag="bye"):
    """Orderly end of the session."""


ClientMessage = Hello | Send | Attach | Detach | Ack | Cancel | Auth | Ping | Pong | Bye


class HeartbeatTimes(Struct, frozen=True):
    """Times of the server's pings: the interval, and the wait for an answer."""

    interval_ms: int
    timeout_ms: int


class WireLimits(Struct, frozen=True):
    """The limits a welcome announces."""

    events: int
    bytes: int
    frame: int
    requests: int
    connection_bytes: int


class WelcomeRequest(Struct, frozen=True, omit_defaults=True):
    """One request in a welcome. `g` and `from` only where it is attached; `context` and `max_tokens` as in
    `accepted`."""

    id: str
    state: str
    g: int | None = None
    epoch: int | None = None
    from_: int | None = msgspec.field(default=None, name="from")
    head: int | None = None
    why: str | None = None
    context: ContextUse | None = None
    max_tokens: int | None = None


class Welcome(Struct, frozen=True, tag_field="t", tag="welcome"):
    """Answers hello."""

    session: str
    connection: str
    resume_token: str
    resume_expires_at: int
    heartbeat: HeartbeatTimes
    limits: WireLimits
    resumed: str
    requests: list[WelcomeRequest]
    now: int


class QueuePosition(Struct, frozen=True):
    """Position of an accepted request in line."""

    position: int
    wait_ms: int


class Left(Struct, frozen=True, omit_defaults=True):
    """Remaining part of a limit; `resets_at_ms` (Unix ms): when it is whole again, absent where never."""

    limit: int
    remaining: int
    resets_at_ms: int | None = None


class QuotaLeft(Struct, frozen=True, omit_defaults=True):
    """The limits of a request with the least left, one of each kind; a budget in nano-USD."""

    requests: Left | None = None
    tokens: Left | None = None
    budget: Left | None = None


class Accepted(Struct, frozen=True, tag_field="t", tag="accepted"):
    """The request is durable; `g` names it on this connection. `flags`: what safety found in the prompt, only
    the first time; `context` of a conversation; `max_tokens` of the answer."""

    id: str
    g: int
    epoch: int
    dup: bool
    priority: str
    queue: QueuePosition
    quota: QuotaLeft = QuotaLeft()
    flags: list[SentFlag] | UnsetType = UNSET
    context: ContextUse | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET


class Attached(Struct, frozen=True, tag_field="t", tag="attached"):
    """The request is read from `from` on. `context` and `max_tokens` as in `accepted`."""

    g: int
    id: str
    epoch: int
    from_: int = msgspec.field(name="from")
    head: int
    state: str
    context: ContextUse | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET


class Delta(Struct, frozen=True, tag_field="t", tag="delta", omit_defaults=True):
    """Text of the log's entries a..b. For cap `trace`: the `batch`-th delta, which waited `ms` here."""

    g: int
    a: int
    b: int
    p: int
    x: str
    i: int
    batch: int | None = None
    ms: int | None = None


class Event(Struct, frozen=True, tag_field="t", tag="event", omit_defaults=True):
    """Something happened to the request, or (without `o`) to this connection's reading of it."""

    g: int
    k: str
    o: int | None = None
    v: Any = None


class Snap(Struct, frozen=True, tag_field="t", tag="snap"):
    """Forget everything; the text through `o` is `x`."""

    g: int
    epoch: int
    o: int
    x: str


class Retract(Struct, frozen=True, tag_field="t", tag="retract"):
    """Drop all text from position `p` on."""

    g: int
    o: int
    p: int
    category: str
    policy: str


class EndUsage(Struct, frozen=True):
    """Tokens of an ended request; `cached_input` is part of `input`, told where amounts are shown."""

    input: int
    cached_input: int | UnsetType
    output: int
    total: int


class Cost(Struct, frozen=True):
    """Price of an ended request in 10^-9 of the currency."""

    nano: int
    currency: str


class Timing(Struct, frozen=True):
    """Durations of an ended request."""

    queue_ms: int
    ttft_ms: int
    total_ms: int


class EndPayload(Struct, frozen=True, omit_defaults=True):
    """The value of a log's last entry."""

    reason: str
    usage: EndUsage
    cost: Cost
    timing: Timing
    h: str
    code: str | None = None
    safety: EndSafety | None = None


class End(Struct, frozen=True, tag_field="t", tag="end", omit_defaults=True):
    """The request ended; nothing of it follows."""

    g: int
    o: int
    reason: str
    usage: EndUsage
    cost: Cost | UnsetType
    timing: Timing
    h: str
    code: str | None = None
    safety: EndSafety | None = None


class CancelOk(Struct, frozen=True, tag_field="t", tag="cancel_ok"):
    """Answers cancel; `state`: pending, queued, running, parked, ended."""

    id: str
    state: str


class AuthRequired(Struct, frozen=True, tag_field="t", tag="auth_required"):
    """The token ends soon."""

    expires_in_ms: int


class AuthOk(Struct, frozen=True, tag_field="t", tag="auth_ok", omit_defaults=True):
    """The fresh token is taken."""

    expires_in_ms: int | None = None


class GoAway(Struct, frozen=True, tag_field="t", tag="go_away", omit_defaults=True):
    """The server will close this socket."""

    why: str
    in_ms: int
    url: str | None = None


class Error(Struct, frozen=True, tag_field="t", tag="error", omit_defaults=True):
    """A refusal. `scope` is at its `limit` of `dimension`; the numbers count that, money in nano-USD.
    `safety`: what of a prompt is refused; `tokens`: by how much it is too large."""

    code: str
    message: str
    retry: bool
    re: str | None = None
    id: str | None = None
    after_ms: int | None = None
    scope: str | None = None
    limit: int | None = None
    dimension: str | None = None
    remaining: int | None = None
    spent: int | None = None
    held: int | None = None
    resets_at_ms: int | None = None
    safety: RefusedPrompt | None = None
    tokens: TokenCounts | None = None


class ServerPing(Struct, frozen=True, tag_field="t", tag="ping"):
    """Asks the client for a pong."""

    ts: int


class ServerPong(Struct, frozen=True, tag_field="t", tag="pong"):
    """Answers the client's ping."""

    ts: int | float | None


ServerMessage = (
    Welcome
    | Accepted
    | Attached
    | Delta
    | Event
    | Snap
    | Retract
    | End
    | CancelOk
    | AuthRequired
    | AuthOk
    | GoAway
    | Error
    | ServerPing
    | ServerPong
)
