"""The usage event: what one ended request used. The engine writes it to a pool's `ended` stream.

This module owns the event's format and the stream's name (docs/ledger.md, "Posting").
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from core.redis.unreadable import Unreadable, read

ENDED_GROUP_BILLER = "biller"
ENDED_GROUP_RECORDER = "recorder"
ENDED_FIELD = "e"
NOTHING_SAID = b"{}"  # labels of a client that gave none

OF_PROMPT = "prompt_"  # before a verdict's action: found in the prompt
VERDICT_ACTIONS = ("block", "flag", "redact", f"{OF_PROMPT}flag", f"{OF_PROMPT}redact")
VERDICT_CATEGORY = re.compile("[a-z][a-z0-9_]{0,63}", re.ASCII)
VERDICT_CATEGORIES_MAX = 64
VERDICTS_MAX = (1 << 31) - 1  # of one category and action in one request
PHASES_MAX = 16


def ended_stream(pool: str) -> str:
    """The Redis key of a pool's stream of ended requests; field `e` of an entry is an encoded UsageEvent."""
    return f"{{p:{pool}}}ended"


def engine_hours(pool: str) -> str:
    """Redis key of a pool's hash of engines' counts. Field `worker:hour_ms` holds EngineCounts since the
    start of that hour, as msgpack."""
    return f"{{p:{pool}}}engine_hours"


def ended_hours(pool: str) -> str:
    """Redis key of a pool's hash of ends by writer. Field `writer:hour_ms` holds EndedCounts since the start
    of that hour, as msgpack."""
    return f"{{p:{pool}}}ended_hours"


class PinnedPrices(msgspec.Struct, frozen=True, omit_defaults=True):
    """The flat prices a request was admitted under, in nano-USD per 1,000,000 units."""

    book: str
    version: int
    input_nano: int
    cached_input_nano: int
    output_nano: int
    request_nano: int = 0
    currency: str = "usd"


class PriceOffer(msgspec.Struct, frozen=True):
    """A model's prices in force, and the next ones; `next_from_ms` 0: no next ones are known."""

    now: PinnedPrices
    next: PinnedPrices | None = None
    next_from_ms: int = 0

    def at(self, at_ms: int) -> PinnedPrices:
        """Prices in force at a time, from now on."""
        return self.next if self.next is not None and self.begun(at_ms) else self.now

    def begun(self, at_ms: int) -> bool:
        """True where the next prices are in force; then later ones may follow that are not known here."""
        return self.next is not None and at_ms >= self.next_from_ms


class PhaseKind(StrEnum):
    """What a phase of a request's life begins with. It lasts until the next one begins.

    QUEUED: it stands in line; CAP, ROOM: and is known to wait for its tenant's cap, or for room at a worker.
    CLAIMED: a worker reads its prompt; DECODE: has sampled the first token of this claim; GRANT: waits until
    more output is allowed. PARKED: nobody reads it. LOST, PREEMPT, DRAIN: it stands in line again, as its
    worker died, gave way to interactive work, or left. MOVED: it is on its way to another pool. BLOCKED:
    safety ended it; ENDED: it ended otherwise."""

    QUEUED = "queued"
    CAP = "cap"
    ROOM = "room"
    CLAIMED = "claimed"
    DECODE = "decode"
    GRANT = "grant"
    PARKED = "parked"
    LOST = "lost"
    PREEMPT = "preempt"
    DRAIN = "drain"
    MOVED = "moved"
    BLOCKED = "blocked"
    ENDED = "ended"


PHASE_KINDS = frozenset(kind.value for kind in PhaseKind)
Phase = tuple[str, int]  # its kind, and when it began: ms since the request was accepted


class RequestPhase(msgspec.Struct, frozen=True):
    """A phase of a request's life, by its kind (PhaseKind). `at_ms`: when it began, since it was accepted."""

    kind: str
    at_ms: int


class UsageOwner(msgspec.Struct, frozen=True, omit_defaults=True):
    """Owner that a request is charged to; `key` is the API key's id, `metadata` a JSON object of the
    client's."""

    project: str
    key: str
    user: str = ""
    conversation: str = ""
    metadata: bytes = NOTHING_SAID


class UsageEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One ended request. Token classes are disjoint; times are Unix milliseconds, 0 where never reached.

    `seal`: the gateway's, over what was asked for (billing/booking/admissions.py), `asked_input` and
    `asked_output` tokens and `policy` among it. `policy`: SHA-256 of the safety policy that its answer was
    filtered by, empty: none; `verdicts`: how often that policy found something, by category and action
    (`OF_PROMPT` before those of its prompt). `phases`: of its life, in order, at most PHASES_MAX."""

    tenant: str
    request: str
    pool: str
    model: str
    fingerprint: str
    owner: UsageOwner
    accepted_ms: int
    ended_ms: int
    reason: str
    prices: PinnedPrices
    claimed_ms: int = 0
    first_token_ms: int = 0
    code: str = ""
    input_uncached: int = 0
    input_cached: int = 0
    output_text: int = 0
    output_reasoning: int = 0
    cost_nano: int = 0
    claims: int = 0
    recomputed_tokens: int = 0
    asked_input: int = 0
    asked_output: int = 0
    seal: bytes = b""
    policy: str = ""
    priority: str = ""
    trace_id: str = ""
    verdicts: dict[str, dict[str, int]] = {}
    phases: list[Phase] = []


def sided(action: str) -> tuple[str, str]:
    """A verdict's action, as events have it: where it was found ("answer" or "prompt"), and what was done."""
    return ("prompt", action.removeprefix(OF_PROMPT)) if action.startswith(OF_PROMPT) else ("answer", action)


def verdicts_of(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Counts of verdicts by (category, action), as an event has them: sorted, and within the bounds of what
    is booked. What is beyond them is left out, since nobody is billed by it."""
    found: dict[str, dict[str, int]] = {}
    for (category, action), count in sorted(counts.items()):
        named = VERDICT_CATEGORY.fullmatch(category) and action in VERDICT_ACTIONS
        if named and count > 0 and (category in found or len(found) < VERDICT_CATEGORIES_MAX):
            found.setdefault(category, {})[action] = min(count, VERDICTS_MAX)
    return found


def phases_within(phases: Sequence[Phase], most_ms: int) -> list[Phase]:
    """The phases in order and within a life of so many ms: whoever wrote one may have had another clock."""
    found: list[Phase] = []
    least_ms = 0
    for kind, ms in phases:
        least_ms = min(max(ms, least_ms), max(most_ms, 0))
        found.append((kind, least_ms))
    return found


def ended_phases(phases: Sequence[Phase], last: PhaseKind, most_ms: int) -> list[Phase]:
    """The phases of a life that ended so, after so many ms. The end replaces the last of too many."""
    known = [phase for phase in phases if phase[0] in PHASE_KINDS][: PHASES_MAX - 1]
    return phases_within([*known, (last.value, most_ms)], most_ms)


class EngineCounts(msgspec.Struct, omit_defaults=True):
    """Tokens of one worker in one hour: by its engine's own counters (`engine_*`), and by their use.

    Prompts are new, again (of an answer that had text already) or a test's; sampled tokens are taken into a
    log, dropped or a test's. `*_unseen_max`: upper bound of tokens that the engine counted and, because of an
    abort, never handed over."""

    engine_prompt: int = 0
    engine_output: int = 0
    prompt_new: int = 0
    prompt_again: int = 0
    prompt_test: int = 0
    prompt_unseen_max: int = 0
    output_taken: int = 0
    output_dropped: int = 0
    output_test: int = 0
    output_unseen_max: int = 0


class EndedCounts(msgspec.Struct, omit_defaults=True):
    """Requests that ended in one hour (of their end) and that one process wrote, each once."""

    requests: int = 0
    output: int = 0
    cost_nano: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(UsageEvent)


def encode(event: UsageEvent) -> bytes:
    """Encode the event as msgpack, for the `ended` stream."""
    return _encoder.encode(event)


def read_event(data: bytes) -> UsageEvent | Unreadable:
    """Decode a worker's event; Unreadable where it is malformed."""
    return read("usage event", _decoder.decode, data)


def decode(data: bytes) -> UsageEvent:
    """Parse an event. Raises msgspec.MsgspecError on anything that is not one."""
    try:
        return _decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:  # msgspec's own for texts and depth
        raise msgspec.DecodeError(f"{type(error).__name__} in what is no event") from None
