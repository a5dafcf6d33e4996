"""Replies of the pool's scripts (a struct a script), and their translation to types. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from core.errors import Refusal
from core.redis.script_calls import ScriptReply
from core.redis.unreadable import Unreadable, read
from engine.queue.migration_orders import MigrationOrder
from engine.queue.phases import read_phases
from engine.queue.types import (
    AppendCode,
    Appended,
    Claim,
    ClaimReply,
    EndedAt,
    Enqueued,
    ExpiredRequest,
    MigratedTo,
    ReaderView,
    Reaped,
    Renewed,
    ReplayCode,
    UnownedRequest,
    Watermark,
    WorkerView,
)
from engine.request import Control, PriorityClass, RequestStatus

Row = TypeVar("Row")

NO_POLICY = "no_policy"
STRANGER = "rejected_stranger"  # code of a refusal that a gateway can answer by routing anew
_REFUSALS = {
    NO_POLICY: ("overloaded", "its safety policy was lost before it could be put in line", None),
    "rejected_capacity": ("overloaded", "the pool is full", None),
    "rejected_no_worker": ("overloaded", "no worker runs this model now", None),
    STRANGER: (STRANGER, "the pool takes no requests of this tenant now", None),
    "rejected_deadline": ("overloaded", "the deadline would pass before it is this request's turn", None),
    "rejected_buried": ("overloaded", "it was admitted too long ago: send it again", None),
    "rejected_tenant_cap": ("rate_limited", "too many of the tenant's requests are waiting", "tenant"),
}


class EnqueueReply(ScriptReply, kw_only=True):
    """The request's state; or, without a status, a refusal's reason: `number` is ms to wait, or tokens."""

    refusal: str = ""
    number: int = 0
    created: bool = False
    status: RequestStatus | None = None
    epoch: int = 0
    head: int = 0
    position: int = 0
    wait_ms: int = 0
    dest: str = ""


class ClaimRow(
    msgspec.Struct,
    kw_only=True,
    rename={
        "priority": "class",
        "claimed_ms": "claimed",
        "first_token_ms": "first",
        "input_cached": "cached",
        "recomputed_tokens": "recomputed",
    },
):
    """A claimed request, by the fields of its record (docs/redis.md)."""

    tenant: str
    id: str
    ck: str
    cn: int
    epoch: int
    n: int
    o: int
    raw: int
    visible: int
    granted: int
    control: int
    deaths: int
    claimed_ms: int
    first_token_ms: int
    input_cached: int
    recomputed_tokens: int
    covered: int
    priority: str = ""
    phases: str = ""


class ClaimsReply(ScriptReply, kw_only=True):
    """Rows (ClaimRow), each decoded by itself: anybody may have written its id. `parts`: of each row its
    input and its tokens. `victims`: tenant and id, decoded so too."""

    retry_ms: int
    rows: list[msgspec.Raw]
    victims: list[msgspec.Raw]
    parts: list[bytes] = []


class CommitReply(ScriptReply, kw_only=True):
    """Result of one commit; the id and the memory of its end's event, where it has one."""

    code: AppendCode
    n: int
    o: int
    control: int
    granted: int
    end_at: str = ""
    end_memory: str = ""


class AppendReply(ScriptReply, kw_only=True):
    """Results of all items."""

    answers: list[CommitReply]


class EndReply(ScriptReply, kw_only=True):
    """The id of an end's event in the stream, and the memory that holds it."""

    at: str
    memory: str


class EndsReply(ScriptReply, kw_only=True):
    """The stream's memory, and the id below which the biller has acknowledged all; may be past 2^53."""

    memory: str
    ms: str
    sequence: str


class ReplayReply(ScriptReply, kw_only=True):
    """The outcome of each end, and the id of its event now."""

    memory: str
    outcomes: list[tuple[ReplayCode, str]]


class StatusReply(ScriptReply, kw_only=True):
    """The status of a request; of a moved one its pool, and the order that sent it there."""

    status: RequestStatus
    dest: str = ""
    hop: int | None = None
    ordered_ms: int | None = None
    seal: bytes = b""


class ViewReply(ScriptReply, kw_only=True):
    """A request as its readers need it. `first`: the oldest offset that is kept."""

    status: RequestStatus
    epoch: int
    head: int
    n: int
    control: int
    worker: str
    deadline_ms: int
    first: int
    dest: str
    priority: PriorityClass
    following: bool
    body_hash: str
    told: str
    hop: int | None = None
    ordered_ms: int | None = None
    seal: bytes = b""


class RenewReply(ScriptReply, kw_only=True):
    """`alive`: the lease was kept; `control`: tenant, id and flags of the worker's requests, each decoded by
    itself."""

    alive: bool
    control: list[msgspec.Raw]


class ReapReply(ScriptReply, kw_only=True):
    """`expired`: tenant, id, reason and code; `moves`: tenant and id. Each is decoded by itself: anybody may
    have written its id. `odd`: entries that could not be read, and were dropped or put off."""

    requeued: int
    expired: list[msgspec.Raw]
    dead_readers: int
    moves: list[msgspec.Raw]
    odd: int = 0


class IdsReply(ScriptReply, kw_only=True):
    """Ids of requests."""

    ids: list[str]


class MigrationReply(ScriptReply, kw_only=True):
    """State of a migration: the status of its request, and the pool that it goes or went to."""

    status: RequestStatus
    dest: str


def refusal(reason: str, number: int) -> Refusal:
    """The queue's reason for a refusal, typed. `number`: ms to wait, or tokens for rejected_too_large."""
    if reason == "id_conflict":
        return Refusal("id_conflict", "this id was used for another request")
    if reason == "rejected_too_large":
        return Refusal("too_large", f"prompt and answer may take {number} tokens together", limit=number)
    code, message, scope = _REFUSALS[reason]
    return Refusal(code, message, retry=True, after_ms=number, scope=scope)


def enqueued(reply: EnqueueReply) -> Enqueued | Refusal:
    """The request's state, or the refusal."""
    if reply.status is None:
        return refusal(reply.refusal, reply.number)
    return Enqueued(
        reply.created, reply.status, reply.epoch, reply.head, reply.position, reply.wait_ms, reply.dest
    )


def claims(reply: ClaimsReply) -> ClaimReply:
    """Claims, with the bytes that stand beside their rows, without what cannot be decoded."""
    rows = [read("row", _row.decode, row) for row in reply.rows]
    bytes_of = zip(reply.parts[::2], reply.parts[1::2], strict=True)
    found = [
        _claim(row, *parts)
        for row, parts in zip(rows, bytes_of, strict=True)
        if not isinstance(row, Unreadable)
    ]
    victims = _decoded(_names.decode, reply.victims)
    odd = len(rows) + len(reply.victims) - len(found) - len(victims)
    return ClaimReply(found, reply.retry_ms, victims, odd)


def _claim(row: ClaimRow, packed: bytes, tokens: bytes) -> Claim:
    return Claim(
        tenant=row.tenant,
        id=row.id,
        ck=row.ck,
        cn=row.cn,
        epoch=row.epoch,
        n=row.n,
        o=row.o,
        raw=row.raw,
        visible=row.visible,
        input=packed,
        tokens=tokens,
        granted=row.granted,
        control=Control(row.control),
        deaths=row.deaths,
        claimed_ms=row.claimed_ms,
        first_token_ms=row.first_token_ms,
        input_cached=row.input_cached,
        recomputed_tokens=row.recomputed_tokens,
        covered=row.covered,
        priority=row.priority,
        phases=read_phases(row.phases),
    )


def appended(reply: CommitReply) -> Appended:
    """The result of one commit."""
    ended = EndedAt(reply.end_memory, reply.end_at) if reply.end_at else None
    return Appended(reply.code, reply.n, reply.o, Control(reply.control), reply.granted, ended)


def ended_at(reply: EndReply | None) -> EndedAt | None:
    """The end's place in the stream; None where this end is not in the log."""
    return None if reply is None else EndedAt(reply.memory, reply.at)


def watermark(reply: EndsReply) -> Watermark:
    """The memory, and the biller's position in it."""
    return Watermark(reply.memory, (int(reply.ms), int(reply.sequence)))


def replayed(reply: ReplayReply) -> list[tuple[ReplayCode, EndedAt]]:
    """The outcome of each end, and its place now."""
    return [(code, EndedAt(reply.memory, at)) for code, at in reply.outcomes]


def status(reply: StatusReply | None) -> RequestStatus | MigratedTo | None:
    """A status, the pool that a request moved to, or None for an unknown id."""
    if reply is None:
        return None
    if reply.status is RequestStatus.MOVED:
        order = MigrationOrder(reply.dest, reply.hop or 0, reply.ordered_ms or 0, reply.seal)
        return MigratedTo(reply.dest, order)
    return reply.status


def view(reply: ViewReply | None) -> ReaderView | None:
    """The view of a request; None for an unknown id."""
    if reply is None:
        return None
    return ReaderView(
        status=reply.status,
        epoch=reply.epoch,
        head=reply.head,
        n=reply.n,
        control=Control(reply.control),
        worker=reply.worker,
        deadline_ms=reply.deadline_ms,
        ended=reply.status is RequestStatus.ENDED,
        first=reply.first,
        dest=reply.dest,
        priority=reply.priority,
        following=reply.following,
        body_hash=reply.body_hash,
        order=MigrationOrder(reply.dest, reply.hop or 0, reply.ordered_ms or 0, reply.seal),
        told=reply.told,
    )


def renewed(reply: RenewReply) -> Renewed:
    """The result of a renewal, with the flags of the worker's requests, without what cannot be decoded."""
    found = _decoded(_flags.decode, reply.control)
    control = [(tenant, id, Control(flag)) for tenant, id, flag in found]
    return Renewed(reply.alive, control, len(reply.control) - len(found))


def reaped(reply: ReapReply) -> Reaped:
    """The result of a reap, without the rows that cannot be decoded."""
    expired = [ExpiredRequest(*end) for end in _decoded(_end.decode, reply.expired)]
    moves = _decoded(_names.decode, reply.moves)
    odd = len(reply.expired) + len(reply.moves) - len(expired) - len(moves)
    return Reaped(reply.requeued, expired, reply.dead_readers, moves, reply.odd + odd)


def _decoded(decode: Callable[[msgspec.Raw], Row], rows: Sequence[msgspec.Raw]) -> list[Row]:
    """The rows that can be decoded."""
    found = [read("row", decode, row) for row in rows]
    return [row for row in found if not isinstance(row, Unreadable)]


_row = msgspec.msgpack.Decoder(ClaimRow)
_names = msgspec.msgpack.Decoder(tuple[str, str])
_flags = msgspec.msgpack.Decoder(tuple[str, str, int])
_end = msgspec.msgpack.Decoder(tuple[str, str, str, str])


def worker(name: str, lease_ms: int, now_ms: int, held: int, fields: Mapping[bytes, bytes]) -> WorkerView:
    """A worker's view, of its hash."""
    info = msgspec.json.decode(fields.get(b"info", b"{}"), type=dict[str, Any])
    fingerprint = fields[b"fingerprint"].decode()
    return WorkerView(name, fingerprint, lease_ms > now_ms, lease_ms, held, info)


def unowned(fields: Mapping[bytes, bytes], packed: bytes) -> UnownedRequest:
    """A request's record, of its hash and its input."""
    return UnownedRequest(
        status=RequestStatus(fields[b"status"].decode()),
        model=fields[b"model"].decode(),
        fingerprint=fields[b"fingerprint"].decode(),
        head=int(fields[b"o"]),
        n=int(fields[b"n"]),
        covered=int(fields[b"covered"]),
        visible=int(fields[b"visible"]),
        claims=int(fields[b"cn"]),
        prompt_tokens=int(fields[b"prompt"]),
        input_cached=int(fields[b"cached"]),
        accepted_ms=int(fields[b"accepted"]),
        deadline_ms=int(fields[b"deadline"]),
        claimed_ms=int(fields[b"claimed"]),
        first_token_ms=int(fields[b"first"]),
        recomputed_tokens=int(fields[b"recomputed"]),
        input=packed,
        priority=fields.get(b"class", b"").decode(errors="replace"),
        phases=read_phases(fields.get(b"phases", b"").decode(errors="replace")),
    )
