"""Arguments and replies of the scripts on a tenant's hash slot keys (billing/quota/lua, one struct per
script; core/redis/script_calls.py).

`now_ms` 0: the server's own time. Money is in nano-USD.
"""

import msgspec

from core.redis.script_calls import ScriptCall, ScriptReply

# Kind of limit, its number from 1, limit, what is left, spent, held, ms to wait or -1.
RefusedLimit = tuple[str, int, int, int, int, int, int]


class AdmitCall(ScriptCall, kw_only=True):
    """Admit a request under all its limits, or return its binding. `owner`: project, key and user, packed;
    `key` is the first of its chain, `used_key` the one that was used. `next_*`: values in force from
    `next_from_ms` on, 0: never. A seal is empty where the caller has no secret."""

    now_ms: int
    attempt: str
    id: str
    body_hash: str
    pool: str
    fingerprint: str
    project: str
    key: str
    used_key: str
    user: str
    model: str
    input_tokens: int
    chunk_tokens: int
    unlimited_tokens: int
    deadline_ms: int
    grace_ms: int
    owner: bytes
    prices: bytes
    limits: bytes
    seal: bytes
    next_from_ms: int = 0
    next_prices: bytes = b""
    next_limits: bytes = b""
    next_seal: bytes = b""


class AdmitReply(ScriptReply, kw_only=True):
    """`verdict`: ok, conflict, seed (Redis has no count for the money limits in `unknown`) or refused.

    `left`: rest of each limit, empty for a known request; `sealed`: its sealed facts and the seal, None for
    facts that its record lacks."""

    verdict: str
    unknown: list[int] = []
    refusal: RefusedLimit | None = None
    dup: bool = False
    pool: str = ""
    fingerprint: str = ""
    cancelled: bool = False
    granted: int = 0
    state: str = ""
    left: list[int] = []
    shadowed: list[RefusedLimit] = []
    prices: bytes = b""
    sealed: list[bytes | None] = []


class ExtendCall(ScriptCall, kw_only=True):
    """Raise the allowance of output tokens of a request to `to_tokens` in all."""

    now_ms: int
    to_tokens: int
    wait_step_ms: int
    wait_ms_max: int


class ExtendReply(ScriptReply, kw_only=True):
    """`verdict`: granted, unknown, wait (`after_ms`) or refused: by the limit of this key."""

    verdict: str
    granted: int
    after_ms: int = 0
    key: str = ""
    limit: int = 0
    left: int = 0
    spent: int = 0
    held: int = 0
    window_end_ms: int = 0


class SettleCall(ScriptCall, kw_only=True):
    """Close a request with its cost. `line_seq`: its last line in the books, None: not in them yet, 0: it
    never will be. Project, key (the first of its chain), user and model are quoted as in keys."""

    now_ms: int
    id: str
    cost_nano: int
    input_tokens: int
    output_tokens: int
    keep_ms: int
    line_seq: int | None
    accepted_ms: int
    project: str
    key: str
    user: str
    model: str


class ReleaseCall(ScriptCall, kw_only=True):
    """Undo an admission that the queue refused."""

    now_ms: int
    id: str
    keep_ms: int
    not_open: bool = False


class CancelCall(ScriptCall, kw_only=True):
    """Cancel for this canceller; the mark lasts `mark_ms`."""

    mark_ms: int
    canceller: str


class RebindCall(ScriptCall, kw_only=True):
    """Bind a request to this pool after its `hop`th move. Seals are empty where there are none."""

    pool: str
    hop: int
    seal: bytes
    seal_before: bytes


class SeededCount(msgspec.Struct):
    """One count of money by the books, as of a line. `spent` is text: a wallet's grows past 2^53. `window`:
    settle.lua's name for it. `untrue_seed`: a line that Redis' count claims to include and the books do not
    have, so that somebody made it up; 0: none is."""

    key: str
    spent: str
    line_seq: int
    untrue_seed: int
    window_end_ms: int
    window: str


class SeedCall(ScriptCall, kw_only=True):
    """Write sums spent; `anew`: also over older ones. `untrue_seq`: a mark of the last line booked that is
    beyond the books, which somebody made up, and becomes `last_seq`; 0: none is."""

    now_ms: int
    anew: bool
    untrue_seq: int
    last_seq: int
    counts: list[SeededCount]


class ForgetCall(ScriptCall, kw_only=True):
    """Forget sums and counts. `line_seq`: the last line of the books that there are now."""

    line_seq: int


class PushedLimit(msgspec.Struct):
    """A money limit's new value."""

    limit: int
    override: int
    override_until_ms: int
    hard: bool
    revision: int


class LimitsCall(ScriptCall, kw_only=True):
    """Set the limit of each key. `read_ms`: time of the server before they were read, as this replies it."""

    now_ms: int = 0
    read_ms: int
    limits: list[PushedLimit]


class TakeCall(ScriptCall, kw_only=True):
    """Take money out of a limit's allowance, under a name for this once. Until that ends, for `booked_ms_max`
    at most, nobody sets the limit."""

    now_ms: int = 0
    take: str
    amount_nano: int
    booked_ms_max: int


class EndTakeCall(ScriptCall, kw_only=True):
    """End a take that is booked, or give its money back. For `older_ms` no admission brings a limit."""

    now_ms: int = 0
    take: str
    given_back: bool
    older_ms: int


class SinceCall(ScriptCall, kw_only=True):
    """Ask for the server that has a tenant's sums, and their start."""

    now_ms: int = 0


class SinceReply(ScriptReply, kw_only=True):
    """The server's run id. The times are raw bytes from Redis: a worker may have written them."""

    server: str
    since: bytes = b""
    began: bytes = b""
