"""Parses what the pool's scripts reply. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from core.errors import Refusal
from core.unreadable import Unreadable, read
from engine.queue.migration_orders import order_of
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

_REFUSALS = {
    "rejected_capacity": ("overloaded", "the pool is full", None),
    "rejected_no_worker": ("overloaded", "no worker runs this model now", None),
    "rejected_deadline": ("overloaded", "the deadline would pass before it is this request's turn", None),
    "rejected_buried": ("overloaded", "it was admitted too long ago: send it again", None),
    "rejected_tenant_cap": ("rate_limited", "too many of the tenant's requests are waiting", "tenant"),
}


def refusal(reason: str, number: int) -> Refusal:
    """The queue's word for a refusal, typed. `number`: ms to wait, or tokens for rejected_too_large."""
    if reason == "id_conflict":
        return Refusal("id_conflict", "this id was used for another request")
    if reason == "rejected_too_large":
        return Refusal("too_large", f"prompt and answer may take {number} tokens together", limit=number)
    code, message, scope = _REFUSALS[reason]
    return Refusal(code, message, retry=True, after_ms=number, scope=scope)


def enqueued(reply: list[Any]) -> Enqueued | Refusal:
    """{created, status, epoch, head, position, wait, pool of a moved one} or {reason, number}."""
    if isinstance(reply[0], bytes):
        return refusal(reply[0].decode(), reply[1])
    created, state, epoch, head, position, wait, *dest = reply
    where = dest[0].decode() if dest else ""
    return Enqueued(bool(created), RequestStatus(state.decode()), epoch, head, position, wait, where)


def claims(reply: list[Any]) -> ClaimReply:
    """{retry, {{tenant, id, values, input, tokens}...}, {{tenant, id}...}}."""
    retry, rows, victims = reply
    return ClaimReply([_claim(*row) for row in rows], retry, [(t.decode(), id.decode()) for t, id in victims])


def _claim(tenant: bytes, id: bytes, values: list[Any], packed: bytes, tokens: bytes) -> Claim:
    (
        ck,
        cn,
        epoch,
        n,
        o,
        raw,
        visible,
        granted,
        control,
        deaths,
        claimed,
        first,
        cached,
        recomputed,
        covered,
    ) = values
    return Claim(
        tenant=tenant.decode(),
        id=id.decode(),
        ck=ck.decode(),
        cn=cn,
        epoch=epoch,
        n=n,
        o=o,
        raw=raw,
        visible=visible,
        input=packed,
        tokens=tokens,
        granted=granted,
        control=Control(control),
        deaths=deaths,
        claimed_ms=claimed,
        first_token_ms=first,
        input_cached=cached,
        recomputed_tokens=recomputed,
        covered=covered,
    )


def appended(answer: list[Any]) -> Appended:
    """{code, n, o, control, granted, where its end is in the stream, in which memory}."""
    code, n, o, control, granted, *ended = answer
    return Appended(AppendCode(code.decode()), n, o, Control(control), granted, ended_at(ended))


def ended_at(reply: list[bytes]) -> EndedAt | None:
    """{its place in the stream, in which memory}, or nothing."""
    return EndedAt(reply[1].decode(), reply[0].decode()) if reply and reply[0] else None


def watermark(reply: list[bytes]) -> Watermark:
    """{memory, ms, sequence}."""
    memory, ms, sequence = reply
    return Watermark(memory.decode(), (int(ms), int(sequence)))


def replayed(reply: list[Any]) -> list[tuple[ReplayCode, EndedAt]]:
    """{memory, {code, at}...}."""
    memory, *outcomes = reply
    return [(ReplayCode(code.decode()), EndedAt(memory.decode(), at.decode())) for code, at in outcomes]


def status(reply: bytes | list[bytes] | None) -> RequestStatus | MigratedTo | None:
    """A status, {moved, pool, hop, ordered, seal}, or None for an unknown id."""
    if isinstance(reply, list):
        return MigratedTo(reply[1].decode(), order_of(*reply[1:]))
    return None if reply is None else RequestStatus(reply.decode())


def view(reply: list[Any] | None) -> ReaderView | None:
    """{status, epoch, head, n, control, worker, deadline, dest, class, first, following, body hash, hop,
    ordered, seal}."""
    if reply is None:
        return None
    state, epoch, head, n, control, worker_, deadline, dest, class_, first, following, *more = reply
    body_hash, *order = more
    return ReaderView(
        status=RequestStatus(state.decode()),
        epoch=epoch,
        head=head,
        n=n,
        control=Control(control),
        worker=worker_.decode(),
        deadline_ms=deadline,
        ended=state == b"ended",
        first=first,
        dest=dest.decode(),
        priority=PriorityClass(class_.decode()),
        following=bool(following),
        body_hash=(body_hash or b"").decode(),
        order=order_of(dest, *order),
    )


def renewed(reply: list[Any]) -> Renewed:
    """{alive, {{tenant, id, flags}...}}."""
    alive, flags = reply
    return Renewed(bool(alive), [(t.decode(), id.decode(), Control(flag)) for t, id, flag in flags])


def reaped(reply: list[Any]) -> Reaped:
    """{requeued, {{tenant, id, reason, code}...}, dropped readers, {{tenant, id}...}}."""
    requeued, expired, dropped, moves = reply
    ends = [end for row in expired if not isinstance(end := read("end", _texts, row), Unreadable)]
    going = [move for row in moves if not isinstance(move := read("move", _texts, row), Unreadable)]
    return Reaped(requeued, [ExpiredRequest(*end) for end in ends], dropped, [(t, id) for t, id in going])


def _texts(row: list[bytes]) -> list[str]:
    return [part.decode() for part in row]


def worker(name: str, lease_ms: int, now_ms: int, held: int, fields: Mapping[bytes, bytes]) -> WorkerView:
    """A worker's hash."""
    info = msgspec.json.decode(fields.get(b"info", b"{}"), type=dict[str, Any])
    fingerprint = fields[b"fingerprint"].decode()
    return WorkerView(name, fingerprint, lease_ms > now_ms, lease_ms, held, info)


def unowned(fields: Mapping[bytes, bytes], packed: bytes) -> UnownedRequest:
    """A request's hash and its input."""
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
    )
