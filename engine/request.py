"""The vocabulary of a request in the engine: its status, class, control flags, log entries and end."""

from enum import IntFlag, StrEnum

import msgspec

from billing.api import SealedAdmission, seal
from billing.usage import PinnedPrices, UsageOwner
from core.signing.signed_text import Keyring
from engine.safety.seam import TextSeam

TOKEN_BYTES = 4  # of an id in a prompt


class RequestStatus(StrEnum):
    """Status of a request. `moving` and `moved` name the pool in the record's `dest`."""

    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    MOVING = "moving"
    MOVED = "moved"
    ENDED = "ended"


class PriorityClass(StrEnum):
    """Priority classes, highest first."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BULK = "bulk"


class Control(IntFlag):
    """Orders to the owner of a running request; they stay in the record until obeyed."""

    CANCEL = 1
    PARK = 2
    PREEMPT = 4
    MIGRATE = 8
    DRAIN = 16


class EndReason(StrEnum):
    """Reasons of an end (docs/protocol.md, `end`)."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    DEADLINE = "deadline"
    BUDGET = "budget"
    SLOW_READER = "slow_reader"
    ERROR = "error"


class EntryKind(StrEnum):
    """Kinds of log entries. All but text, retract and end are delivered as `event`."""

    TEXT = "t"
    QUEUED = "queued"
    RUNNING = "running"
    MOVED = "moved"
    PARKED = "parked"
    RESUMED = "resumed"
    FLAGGED = "flagged"
    RETRACT = "retract"
    END = "end"


class Entry(msgspec.Struct, frozen=True):
    """One log entry: stream id `o-0`, fields named like these, defaults left out.

    `x` text, `p` its code-point position in the visible text, `r` where it ends in it, `i` tokens
    covered so far, `v` a JSON object (events and end). `o` is dense from 1.
    """

    o: int
    k: EntryKind
    x: str = ""
    p: int = 0
    r: int = 0
    i: int = 0
    v: bytes = b""


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """Checked sampling options, engine-neutral. `seed` None: unseeded; `stop` is matched by us, not vLLM."""

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    response_format: str | None = None


class RequestInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """Content of `in:<t>:<id>`, msgpack: all that a worker needs beside the log. `prompt`: u32 little-endian
    ids.

    `trace` is a W3C traceparent; `model` the name the client asked for; `priority` the class it was sent in,
    None: not said; `policy` the hash of the safety policy that its answer is filtered by, empty: no filter;
    `seal` the gateway's proof to the biller that it admitted this; `salt` keeps its owner's cached prefixes
    from other owners' of the tenant; `prompt_verdicts`: what that policy found in the prompt, as (category,
    action, how often); `seam`: of an answer that goes on, what its filter has to know.
    """

    prompt: bytes
    sampling: Sampling
    owner: UsageOwner
    prices: PinnedPrices
    model: str
    fingerprint: str
    accepted_ms: int
    deadline_ms: int
    trace: str = ""
    seal: bytes = b""
    salt: str = ""
    policy: str = ""
    priority: PriorityClass | None = None
    prompt_verdicts: tuple[tuple[str, str, int], ...] = ()
    seam: TextSeam | None = None


def seal_request(request: RequestInput, tenant: str, id: str, keyring: Keyring) -> RequestInput:
    """The request with a seal of the process that admits it. Call it once the request is complete."""
    asked = SealedAdmission(
        tenant,
        id,
        request.model,
        request.fingerprint,
        request.owner,
        request.prices,
        request.accepted_ms,
        input_tokens=len(request.prompt) // TOKEN_BYTES,
        output_tokens=request.sampling.max_tokens,
        policy=request.policy,
    )
    return msgspec.structs.replace(request, seal=seal(asked, keyring))


input_encoder = msgspec.msgpack.Encoder()
input_decoder = msgspec.msgpack.Decoder(RequestInput)
