"""Arguments of the pool's scripts, a struct for each file in engine/queue/lua (core/redis/script_calls.py).

Times are Unix milliseconds; `now_ms` 0: the server's own time.
"""

import msgspec

from core.redis.script_calls import ScriptCall

PackedEntry = tuple[str, str, int, int, int, str]  # engine/queue/request_log.py: k, x, p, r, i, v


class PoolCall(ScriptCall, kw_only=True):
    """Arguments of any script of a pool; enough for those that need only the time (clock, ends)."""

    now_ms: int = 0


class RequestCall(PoolCall, kw_only=True):
    """Arguments about one request; enough for those that need nothing else (park, unpark)."""

    tenant: str
    id: str


class EnqueueCall(RequestCall, kw_only=True):
    """Create a request, or return the existing one. `control`: the flags that it begins with; `policy`:
    hash of the safety policy that has to stand here."""

    body_hash: str
    priority: str
    fingerprint: str
    prompt_tokens: int
    max_tokens: int
    deadline_ms: int
    accepted_ms: int
    granted: int
    model: str
    gateway: str | None
    no_reader_ms: int | None
    control: int
    shaped: bool
    policy: str | None
    told: str
    requests_max: int
    tenant_requests_max: int
    memory_fraction_max: float
    readers_max: int
    gateway_lease_ms: int
    ended_unread_max: int
    no_worker_ms: int
    input: bytes


class ClaimCall(PoolCall, kw_only=True):
    """Work for a worker. A repeated `number` repeats its answer; claim tokens derive from `nonce`, as Lua's
    own random numbers are the same in every script."""

    worker: str
    number: int
    nonce: str
    fingerprint: str
    slots: int
    kv_tokens: int
    prefill_tokens: int
    picks_max: int
    deaths_max: int
    prompt_weight: float
    delta_tokens: float
    age_standard_ms: int
    age_bulk_ms: int
    lowest: str


class AppendItem(msgspec.Struct):
    """One owner's commit to one request, without its tokens and its end event."""

    tenant: str
    id: str
    ck: str
    n0: int
    o0: int
    raw: int
    visible: int
    input_cached: int | None
    entries: list[PackedEntry]


class CommitCall(PoolCall, kw_only=True):
    """Arguments of every commit. The weights: the cost of a prompt token and of an output token."""

    log_keep_seconds: int
    prompt_weight: float
    output_weight: float


class AppendCall(CommitCall, kw_only=True):
    """One flush. `parts`: for each item its tokens and its end event, empty where there is none."""

    items: list[AppendItem]
    parts: list[bytes]


class RewriteCall(CommitCall, kw_only=True):
    """Retract: drop the logged text from `position` on, then commit the item."""

    position: int
    item: AppendItem
    tokens: bytes
    event: bytes


class ControlCall(RequestCall, kw_only=True):
    """Set a flag. `body_hash`: only on the request that has it."""

    flag: int
    body_hash: str | None


class FinishCall(RequestCall, kw_only=True):
    """End a request that nobody owns and whose log ends at `expected_o`."""

    log_keep_seconds: int
    expected_o: int
    entries: list[PackedEntry]
    event: bytes


class ReplayedEnd(msgspec.Struct):
    """One end of a journal: the id of its event, and the memory of the stream that it was in."""

    tenant: str
    id: str
    memory: str
    at: str


class ReplayCall(PoolCall, kw_only=True):
    """Ends of a journal that another memory had, and the event of each. `again`: also those that were
    acknowledged, as the books that had them are gone."""

    ends: list[ReplayedEnd]
    again: bool
    events: list[bytes]


class UnclaimCall(RequestCall, kw_only=True):
    """Give a request back to the line, or park it."""

    ck: str
    why: str
    deaths_max: int


class ReaderCall(RequestCall, kw_only=True):
    """State of a gateway's readers; without a gateway only the view is wanted."""

    gateway: str | None
    state: str
    readers_max: int
    gateway_lease_ms: int


class RegisterCall(PoolCall, kw_only=True):
    """Register a worker that can take work. `info`: its facts, as JSON."""

    worker: str
    fingerprint: str
    kv_tokens: int
    lease_ms: int
    info: bytes


class RenewCall(PoolCall, kw_only=True):
    """Keep the lease of a worker whose engine makes steps."""

    worker: str
    step_age_ms: int
    step_age_ms_max: int
    lease_ms: int
    kv_tokens: int
    info: bytes


class DeregisterCall(PoolCall, kw_only=True):
    """Take a worker out of the pool."""

    worker: str
    why: str
    deaths_max: int


class TenantCall(PoolCall, kw_only=True):
    """Set a tenant's share, its caps and its reserve."""

    tenant: str
    weight: float
    slots_max: int | None
    tokens_max: int | None
    highest: str
    reserve_tokens: int
    reserves_max: int


class ReserveCall(PoolCall, kw_only=True):
    """Set the KV tokens that lower classes leave free for this one."""

    priority: str
    tokens: int


class LetInCall(PoolCall, kw_only=True):
    """Let these tenants in and no others; none named: all."""

    tenants: list[str]


class SeenCall(PoolCall, kw_only=True):
    """Announce a starting worker that can run this."""

    fingerprint: str


class GatewayCall(PoolCall, kw_only=True):
    """Keep a gateway's lease."""

    gateway: str
    lease_ms: int


class ReapCall(PoolCall, kw_only=True):
    """Reap. `moves`: take migrations too, for a caller that can finish them."""

    budget: int
    deaths_max: int
    no_worker_ms: int
    park_ms: int
    moves: bool


class ExpireCall(RequestCall, kw_only=True):
    """Set the time for which an ended request's log and record are kept from now on."""

    keep_seconds: int


class RefuseLateEnqueueCall(PoolCall, kw_only=True):
    """Refuse late enqueues of those of these ids that the pool does not know."""

    keep_seconds: int
    tenant: str
    ids: list[str]


class MigrateBeginCall(RequestCall, kw_only=True):
    """Take a request out of its pool, as its `hop`th migration. `seal`: of the order for it."""

    dest: str
    hop: int
    retry_ms: int
    ordered_ms: int
    seal: bytes


class CopiedEntry(msgspec.Struct):
    """One entry of a log: its id in the stream, and the number of its fields and values."""

    at: str
    parts: int


class MigrateCopyCall(RequestCall, kw_only=True):
    """A part of a log, after offset `after`. `parts`: the fields and values of all entries, one by one."""

    hop: int
    after: int
    keep_seconds: int
    entries: list[CopiedEntry]
    parts: list[bytes]


class MigrateAdoptCall(RequestCall, kw_only=True):
    """Create the request in this pool. `fields`: of its record, and their values, one by one."""

    hop: int
    head: int
    input: bytes
    tokens: bytes
    fields: list[bytes]


class MigrateFinishCall(RequestCall, kw_only=True):
    """Mark a request as arrived in the other pool. `control`: the flags that are known there."""

    hop: int
    control: int
    keep_seconds: int
    log_keep_seconds: int
