"""Log of administrators' changes: one hash chain per tenant, and one for changes that belong to no tenant.

A row is written in the transaction of its change: there is no change without its row, and no row without its
change.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

import msgspec
from sqlalchemy import update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.pages import AuditSearch, audit_page
from billing.audit.states import StateChange, state_texts, states_hash, take_states
from billing.tables.audit import AuditHead, AuditLog, AuditState
from core.actor import Author, current_author
from core.clock import now_ms
from core.sql.database import Database, TableBase, insert_ignore, insert_rows

VALUE_BYTES_MAX = 64 * 1024
LISTED_MAX = 10_000
ACTION = re.compile(r"[a-z_]+\.[a-z_]+")
SECRET_NAME = re.compile(r"secret|password|authorization", re.IGNORECASE)
HIDDEN = "(hidden)"
RECORDED = "parley.audit.recorded"

Facts = Mapping[str, Any]


async def record(
    session: AsyncSession,
    tenant_id: str,
    action: str,
    target: str,
    before: Facts | TableBase | None,
    after: Facts | TableBase | None,
    author: Author | None = None,
) -> None:
    """Add a row to a tenant's chain (PLATFORM: the platform's) in the caller's transaction. Where both values
    are given, only differing facts are kept, and where none differs nothing is written.

    Holds the chain's head until the transaction ends: call it last, after locking heads of the books, and for
    several tenants in the order of their ids. `action`: like `key.revoke`; `target`: the id of the changed
    thing. Values are JSON facts or a table's row; facts with a secret's name are hidden. States of watched
    rows that this session wrote (states.py) are stored beside the row.
    """
    assert ACTION.fullmatch(action), f"not a noun and a verb: {action!r}"
    old, new = differing(_facts(before), _facts(after))
    await session.flush()  # flushed first, so that whoever waits for the chain already holds its other locks
    states = take_states(session, tenant_id)
    if before is not None and after is not None and not (old or new or states):
        return
    head = await lock_chain(session, tenant_id)
    row, stated = next_row(head, now_ms(), author or current_author(), (action, target), (old, new), states)
    await insert_rows(session, [row])
    session.info.setdefault(RECORDED, []).append(row)
    await insert_rows(session, stated)
    moved = update(AuditHead).where(col(AuditHead.tenant_id) == tenant_id)
    await (await session.connection()).execute(moved.values(seq=row.seq, sha256=row.sha256))


def next_row(
    head: AuditHead,
    at_ms: int,
    who: Author,
    what: tuple[str, str],
    facts: tuple[Facts | None, Facts | None],
    states: Sequence[StateChange],
) -> tuple[AuditLog, list[AuditState]]:
    """The row behind a chain's head, and its states. `what`: action and target; `facts`: before and after.
    Pure."""
    before, after = facts
    if who.reason and "reason" not in (after or {}):
        after = {**(after or {}), "reason": who.reason}
    row = AuditLog(
        tenant_id=head.tenant_id,
        seq=head.seq + 1,
        at_ms=at_ms,
        author=who.name,
        source=who.source,
        action=what[0],
        target=what[1],
        before=_text(before),
        after=_text(after),
        previous_sha256=head.sha256,
        sha256="",
    )
    stated = _state_rows(row, states)
    row.states_sha256 = states_hash([(each.thing, each.state, each.was) for each in stated])
    row.sha256 = row_hash(row)
    return row, stated


def recorded_rows(session: AsyncSession) -> list[AuditLog]:
    """Remove and return the rows that this session added, for who tells others of them after the commit."""
    return session.info.pop(RECORDED, [])


async def record_separately(
    db: Database, tenant_id: str, action: str, target: str, facts: Facts | None, author: Author | None = None
) -> None:
    """Add a row, in a transaction of its own, for an action that changed nothing in SQL, such as a read or an
    export."""
    async with db.transaction() as session:
        await record(session, tenant_id, action, target, None, facts, author)


def differing(before: Facts | None, after: Facts | None) -> tuple[Facts | None, Facts | None]:
    """Keep the facts that differ between two sets. Where one set is None the other stays whole."""
    if before is None or after is None:
        return before, after
    absent = object()
    names = [name for name in {**before, **after} if before.get(name, absent) != after.get(name, absent)]
    return (
        {name: before[name] for name in names if name in before},
        {name: after[name] for name in names if name in after},
    )


def row_hash(row: AuditLog) -> str:
    """SHA-256 over all of the row but its own hash, and so over the hash before it. A row without states has
    no states' hash in it."""
    facts = _COLUMNS(row)
    return hashlib.sha256(_packed((*facts, row.states_sha256) if row.states_sha256 else facts)).hexdigest()


_packed = msgspec.msgpack.Encoder().encode
_COLUMNS = attrgetter(*sorted(set(AuditLog.model_fields) - {"sha256", "states_sha256"}))


def _state_rows(row: AuditLog, states: Sequence[StateChange]) -> list[AuditState]:
    rows: list[AuditState] = []
    for number, stated in enumerate(states):
        state, was = state_texts(stated)
        rows.append(
            AuditState(
                tenant_id=row.tenant_id,
                thing=stated.thing,
                seq=row.seq,
                number=number,
                state=state,
                was=was,
            )
        )
    return rows


async def lock_chain(session: AsyncSession, tenant_id: str) -> AuditHead:
    """Lock the end of a chain until the transaction ends, and return it. `record` does; call it before
    to lock rows that others lock once they hold the chain."""
    await insert_ignore(session, [AuditHead(tenant_id=tenant_id)])
    statement = select(AuditHead).where(col(AuditHead.tenant_id) == tenant_id).with_for_update()
    head = (await session.exec(statement)).one()
    session.expunge(head)
    return head


def _facts(value: Facts | TableBase | None) -> Facts | None:
    if value is None:
        return None
    facts = value.model_dump() if isinstance(value, TableBase) else value
    return {name: _without_secrets(name, each) for name, each in facts.items()}


def _without_secrets(name: str, value: Any) -> Any:
    if SECRET_NAME.search(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: _without_secrets(str(key), each) for key, each in cast(Facts, value).items()}
    return value


def _text(facts: Facts | None) -> str:
    """Canonical JSON; for a value that is too large, its size and SHA-256."""
    encoded = msgspec.json.encode(facts, order="sorted")
    if len(encoded) > VALUE_BYTES_MAX:
        digest = {"bytes": len(encoded), "sha256": hashlib.sha256(encoded).hexdigest()}
        encoded = msgspec.json.encode(digest, order="sorted")
    return encoded.decode()


async def list_rows(
    db: Database, tenant_id: str | None, since_ms: int = 0, limit: int = 100
) -> Sequence[AuditLog]:
    """The newest rows of one chain, newest first; of all chains for operators, where `tenant_id` is None."""
    sought = AuditSearch(tenant=tenant_id, since_ms=since_ms, limit=min(limit, LISTED_MAX))
    return (await audit_page(db, sought))[0]
