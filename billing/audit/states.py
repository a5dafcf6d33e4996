"""What things that are administered are known to be: the rows of some tables, as each change in the audit log
left them.

Whatever a session writes of these tables is kept until the change is recorded (audit_log.record), which puts
the state of each row beside it, under its hash. So a row that is not as its last state says, was changed past
the commands.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
from sqlalchemy import event, inspect
from sqlalchemy.orm import InstanceState, Session
from sqlmodel import SQLModel
from sqlmodel.ext.asyncio.session import AsyncSession

if TYPE_CHECKING:
    from billing.audit.watched import AuditedTable

WAITING = "parley.audit.states"
UNKNOWN = ""  # of `was`: nobody looked
# Kept as their SHA-256: secrets, and what people call things.
HASHED = frozenset(
    {"name", "code", "note", "address", "secret", "secret_sha256", "idempotency_key", "author"}
)
OF_USERS = frozenset({"user_id", "scope_id"})  # and these, where they are older than ids that say nothing
OPAQUE = re.compile(r"(u_[0-9a-f]{32})?", re.ASCII)

Facts = Mapping[str, Any]
Was = dict[str, Any] | str | None


class StateChange(msgspec.Struct):
    """A thing as a change left it. `state` None: it is gone; `was`: of what the change found other than it
    left it, what it was; None: the thing was not there. UNKNOWN: nobody looked."""

    thing: str
    state: dict[str, Any] | None
    was: Was = UNKNOWN


def row_name(table: str, key: Sequence[Any]) -> str:
    """The name of a row. Pure."""
    return f"{table}:{msgspec.json.encode(list(key)).decode()}"


def table_and_key(name: str) -> tuple[str, list[Any]]:
    """What a name names. Pure."""
    table, _, key = name.partition(":")
    return table, msgspec.json.decode(key)


def stored_value(name: str, value: Any) -> Any:
    """A column's value as a state keeps it. Pure."""
    named = name in HASHED or (name in OF_USERS and not OPAQUE.fullmatch(value))
    if named and value:
        return "sha256:" + hashlib.sha256(str(value).encode()).hexdigest()
    return value


def state_texts(stated: StateChange) -> tuple[str, str]:
    """The JSON of a state and of what was before. Pure."""
    was = stated.was
    return _json(stated.state), was if isinstance(was, str) else _json(was)


def states_hash(rows: Sequence[tuple[str, str, str]]) -> str:
    """SHA-256 over things, their states and what was before, in their order; empty for none. Pure."""
    digest = StatesDigest()
    for row in rows:
        digest.add(*row)
    return digest.text()


class StatesDigest:
    """The same, row by row."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.number = 0

    def add(self, thing: str, state: str, was: str) -> None:
        """The next row."""
        self._digest.update(msgspec.msgpack.encode((thing, state, was)))
        self.number += 1

    def text(self) -> str:
        """Of all so far."""
        return self._digest.hexdigest() if self.number else ""


def take_states(session: AsyncSession, chain: str) -> list[StateChange]:
    """What was written in this session and is not recorded yet, of one chain, in the order of the things."""
    waiting: dict[tuple[str, str], StateChange] = session.info.get(WAITING, {})
    mine = sorted(key for key in waiting if key[0] == chain)
    return [waiting.pop(key) for key in mine]


def is_watched(table: type[SQLModel]) -> bool:
    """Whether rows of a table are compared."""
    return table in _watched_by_class()


def record_again(session: AsyncSession, row: Any) -> None:
    """Have a row recorded with the next change that was written by a statement of its own."""
    watched = _watched(row)
    if watched is not None:
        _wait(session.sync_session, watched, row, StateChange(watched.thing_of(row), watched.state_of(row)))


@event.listens_for(Session, "after_flush")
def _collect(session: Session, _context: Any) -> None:
    for row in session.new:
        if (watched := _watched(row)) is not None:
            _wait(session, watched, row, StateChange(watched.thing_of(row), watched.state_of(row), None))
    for row in session.dirty:
        if (watched := _watched(row)) is not None and (was := _changed(watched, row)):
            _wait(session, watched, row, StateChange(watched.thing_of(row), watched.state_of(row), was))
    for row in session.deleted:
        if (watched := _watched(row)) is not None:
            was = watched.state_of(row) | _changed(watched, row)
            _wait(session, watched, row, StateChange(watched.thing_of(row), None, was))


@event.listens_for(Session, "after_rollback")
def _forget(session: Session) -> None:
    session.info.pop(WAITING, None)


@cache
def _watched_by_class() -> "Mapping[type[SQLModel], AuditedTable]":
    """Imported once something is written: these are most of the tables, and who only reads needs few."""
    from billing.audit.watched import WATCHED_BY_CLASS

    return WATCHED_BY_CLASS


def _watched(row: Any) -> "AuditedTable | None":
    watched = _watched_by_class().get(cast(type[SQLModel], type(row)))
    return None if watched is None or (watched.opaque and not OPAQUE.fullmatch(row.id)) else watched


def _changed(watched: "AuditedTable", row: Any) -> dict[str, Any]:
    """The columns that are another, with what they were; where that is not known they are left out."""
    found: InstanceState[Any] = inspect(row)
    was: dict[str, Any] = {}
    for name in watched.columns:
        old = found.attrs[name].history.deleted
        if old and (value := stored_value(name, old[0])) != stored_value(name, getattr(row, name)):
            was[name] = value
    return was


def _wait(session: Session, watched: "AuditedTable", row: Any, stated: StateChange) -> None:
    waiting: dict[tuple[str, str], StateChange] = session.info.setdefault(WAITING, {})
    key = (watched.chain_of(row), stated.thing)
    earlier = waiting.get(key)
    if earlier is not None:
        stated.was = _joined(earlier.was, stated.was)
    waiting[key] = stated


def _joined(earlier: Was, later: Was) -> Was:
    """What was before two changes in one transaction."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return later | earlier
    return earlier


def _json(facts: Facts | None) -> str:
    return msgspec.json.encode(facts, order="sorted").decode()
