"""States of administered rows: the rows of watched tables, as each change in the audit log left them.

A session's writes to these tables wait until the change is recorded (billing/audit/log.py), which stores each
row's state beside it, under its hash. So a row that differs from its last state was changed past the
commands.
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
UNKNOWN = ""  # value of `was` that was not read
# Stored as SHA-256: secrets, people's names for things, and what may name people.
HASHED = frozenset(
    {
        *("name", "code", "note", "address", "secret", "secret_sha256", "idempotency_key", "author"),
        *("origins", "email", "password_hash", "totp_hidden", "code_sha256", "token_sha256"),
        *("document", "reason"),  # of a safety policy
    }
)
OF_USERS = frozenset({"user_id", "scope_id"})  # hashed too, where they are not opaque ids
OPAQUE = re.compile(r"(u_[0-9a-f]{32})?", re.ASCII)

Facts = Mapping[str, Any]
Was = dict[str, Any] | str | None


class StateChange(msgspec.Struct):
    """A thing as a change left it. `state` None: it was deleted; `was`: earlier values of changed columns;
    None: the thing did not exist. UNKNOWN: not read."""

    thing: str
    state: dict[str, Any] | None
    was: Was = UNKNOWN


def row_name(table: str, key: Sequence[Any]) -> str:
    """The name of a row. Pure."""
    return f"{table}:{msgspec.json.encode(list(key)).decode()}"


def table_and_key(name: str) -> tuple[str, list[Any]]:
    """Split a row's name into table and primary key. Pure."""
    table, _, key = name.partition(":")
    return table, msgspec.json.decode(key)


def stored_value(name: str, value: Any) -> Any:
    """A column's value in the form that a state stores. Pure."""
    named = name in HASHED or (name in OF_USERS and not OPAQUE.fullmatch(value))
    if named and value:
        return "sha256:" + hashlib.sha256(str(value).encode()).hexdigest()
    return value


def state_texts(stated: StateChange) -> tuple[str, str]:
    """JSON of a state and of the earlier values. Pure."""
    was = stated.was
    return _json(stated.state), was if isinstance(was, str) else _json(was)


def states_hash(rows: Sequence[tuple[str, str, str]]) -> str:
    """SHA-256 over things, their states and earlier values, in order; empty for none. Pure."""
    digest = StatesDigest()
    for row in rows:
        digest.add(*row)
    return digest.text()


class StatesDigest:
    """Computes `states_hash` row by row."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.number = 0

    def add(self, thing: str, state: str, was: str) -> None:
        """The next row."""
        self._digest.update(msgspec.msgpack.encode((thing, state, was)))
        self.number += 1

    def text(self) -> str:
        """Hash of all rows so far."""
        return self._digest.hexdigest() if self.number else ""


def take_states(session: AsyncSession, chain: str) -> list[StateChange]:
    """Remove and return this session's unrecorded states of one chain, ordered by thing."""
    waiting: dict[tuple[str, str], StateChange] = session.info.get(WAITING, {})
    mine = sorted(key for key in waiting if key[0] == chain)
    return [waiting.pop(key) for key in mine]


def is_unrecorded(session: AsyncSession) -> bool:
    """True where this session changed a watched row that no change recorded."""
    return bool(session.info.get(WAITING))


def is_watched(table: type[SQLModel]) -> bool:
    """True where rows of a table are compared."""
    return table in _watched_by_class()


def record_again(session: AsyncSession, row: Any) -> None:
    """Record a row's state with the next change. For rows written by a statement of their own."""
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
    """Watched tables by class. Imported at the first write, as readers need few of these tables."""
    from billing.audit.watched import WATCHED_BY_CLASS

    return WATCHED_BY_CLASS


def _watched(row: Any) -> "AuditedTable | None":
    watched = _watched_by_class().get(cast(type[SQLModel], type(row)))
    return None if watched is None or (watched.opaque and not OPAQUE.fullmatch(row.id)) else watched


def _changed(watched: "AuditedTable", row: Any) -> dict[str, Any]:
    """Earlier values of changed columns, as far as they are known."""
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
    """Earlier values before two changes in one transaction."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return later | earlier
    return earlier


def _json(facts: Facts | None) -> str:
    return msgspec.json.encode(facts, order="sorted").decode()
