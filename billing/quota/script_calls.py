"""What each script of the tenant's hash slot keys is called with and replies (billing/quota/lua, a struct a
script; core/redis/script_calls.py).

`now_ms` 0: the server's own time. Money is in nano-USD.
"""

import msgspec

from core.redis.script_calls import ScriptCall, ScriptReply

# Kind of limit, its number from 1, limit, what is left, spent, held, ms to wait or -1.
RefusedLimit = tuple[str, int, int, int, int, int, int]


class AdmitCall(ScriptCall, kw_only=True):
    """Admit a request under all its limits, or return what it is bound to. `owner`: project, key and user,
    packed; `key` is the first of its chain, `used_key` the one that was used. `next_*`: what holds from
    `next_from_ms` on, 0: never. A seal is empty where nobody gave one."""

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
    """`verdict`: ok, conflict, seed (nothing is known of the money limits in `unknown`) or refused.

    `left`: of each limit, empty of a known request; `sealed`: all that is sealed of one, and the seal, None
    for what its record lacks."""

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
    """Raise the number of output tokens that a request may append, to `to_tokens` in all."""

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
    """Close a request with what it cost. `line_seq`: the last of its lines in the books, None: not in them
    yet, 0: it will not be. Project, key, user and model as they stand in keys."""

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


class CancelCall(ScriptCall, kw_only=True):
    """A cancel by this canceller; its mark stays so long."""

    mark_ms: int
    canceller: str


class RebindCall(ScriptCall, kw_only=True):
    """A request's `hop`th move brought it to this pool. Seals are empty where there are none."""

    pool: str
    hop: int
    seal: bytes
    seal_before: bytes


class SeededCount(msgspec.Struct):
    """What the books say of one count of money as of a line. `spent` is text: a wallet's grows past 2^53.
    `window`: as settle.lua knows it."""

    key: str
    spent: str
    line_seq: int
    window_end_ms: int
    window: str


class SeedCall(ScriptCall, kw_only=True):
    """Write what was spent; `anew`: also where what is known is older."""

    now_ms: int
    anew: bool
    counts: list[SeededCount]


class PushedLimit(msgspec.Struct):
    """A limit of money as it is from now on."""

    limit: int
    override: int
    override_until_ms: int
    hard: bool
    revision: int


class LimitsCall(ScriptCall, kw_only=True):
    """The limit of each key."""

    limits: list[PushedLimit]


class TakeCall(ScriptCall, kw_only=True):
    """Take money out of what a limit allows. For `booked_ms_max` no older limit takes its place."""

    now_ms: int
    amount_nano: int
    booked_ms_max: int


class SinceCall(ScriptCall, kw_only=True):
    """Which server has a tenant's sums, and since when."""

    now_ms: int = 0


class SinceReply(ScriptReply, kw_only=True):
    """The server's run id. The times are as they stand in Redis: a worker may have written them."""

    server: str
    since: bytes = b""
    began: bytes = b""
