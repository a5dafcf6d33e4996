"""What things that are administered are known to be: the rows of some tables, as each change in the audit log
left them.

Whatever a session writes of these tables is kept until the change is recorded (audit_log.record), which puts
the state of each row beside it, under its hash. So a row that is not as its last state says, was changed past
the commands.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import event, inspect
from sqlalchemy.orm import Session
from sqlmodel import SQLModel
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.dedicated_pools import Commitment, GpuCost, PoolOwner
from billing.tables.ledger import CostCenter, ProjectCostCenter
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.prices import GpuPrice, PeriodClose, PeriodCommitment, PriceTier
from billing.tables.tenants import (
    PLATFORM,
    ApiKey,
    Plan,
    PoolTerms,
    Price,
    PriceBook,
    PriceVersion,
    Project,
    Tenant,
    TenantUser,
)
from billing.tables.wallets import AlertTarget, Wallet, WalletGrant

WAITING = "parley.audit.states"
UNKNOWN = ""  # of `was`: nobody looked
# Kept as their SHA-256: secrets, and what people call things.
HASHED = frozenset(
    {"name", "code", "note", "address", "secret", "secret_sha256", "idempotency_key", "author"}
)
OF_USERS = frozenset({"user_id", "scope_id"})  # and these, where they are older than ids that say nothing
OPAQUE = re.compile(r"(u_[0-9a-f]{32})?", re.ASCII)

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class AuditedTable:
    """A table whose rows are compared. `apart`: columns that move by themselves; `platform`: all rows are of
    the platform's chain; `opaque`: only rows whose ids say nothing of whom they are, and those that no change
    tells of are nothing wrong."""

    table: type[SQLModel]
    apart: frozenset[str] = frozenset()
    platform: bool = False
    opaque: bool = False
    keys: tuple[str, ...] = field(init=False)
    columns: tuple[str, ...] = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        mapper = inspect(self.table)
        object.__setattr__(self, "name", str(self.table.__tablename__))
        object.__setattr__(self, "keys", tuple(column.name for column in mapper.primary_key))
        columns = (column.name for column in mapper.columns)
        object.__setattr__(self, "columns", tuple(name for name in columns if name not in self.apart))

    def chain_of(self, row: Any) -> str:
        """Whose chain tells of a row."""
        return PLATFORM if self.platform else row.tenant_id

    def thing_of(self, row: Any) -> str:
        """The name of a row among all things: its table and its primary key."""
        return row_name(self.name, [getattr(row, name) for name in self.keys])

    def state_of(self, row: Any) -> dict[str, Any]:
        """What is compared of a row."""
        return {name: stored_value(name, getattr(row, name)) for name in self.columns}


WATCHED: Mapping[str, AuditedTable] = {
    each.name: each
    for each in (
        AuditedTable(Tenant),
        AuditedTable(Project),
        AuditedTable(TenantUser, apart=frozenset({"name"}), opaque=True),
        AuditedTable(ApiKey),
        AuditedTable(Plan),
        AuditedTable(PoolTerms, apart=frozenset({"updated_ms"})),
        AuditedTable(PriceBook),
        AuditedTable(PriceVersion),
        AuditedTable(Price),
        AuditedTable(PriceTier),
        AuditedTable(GpuPrice),
        AuditedTable(PeriodCommitment),
        AuditedTable(PeriodClose),
        AuditedTable(QuotaPolicy),
        AuditedTable(Budget),
        AuditedTable(Wallet, apart=frozenset({"posted_nano"})),
        AuditedTable(WalletGrant, apart=frozenset({"left_nano", "lapsed_nano"})),
        AuditedTable(AlertTarget),
        AuditedTable(CostCenter),
        AuditedTable(ProjectCostCenter),
        AuditedTable(Commitment),
        AuditedTable(PoolOwner, platform=True),
        AuditedTable(GpuCost, platform=True),
    )
}
_OF = {each.table: each for each in WATCHED.values()}


class StateChange(msgspec.Struct):
    """A thing as a change left it. `state` None: it is gone; `was`: of what the change found other than it
    left it, what it was; None: the thing was not there. UNKNOWN: nobody looked."""

    thing: str
    state: dict[str, Any] | None
    was: dict[str, Any] | str | None = UNKNOWN


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
    return table in _OF


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


def _watched(row: Any) -> AuditedTable | None:
    watched = _OF.get(type(row))
    return None if watched is None or (watched.opaque and not OPAQUE.fullmatch(row.id)) else watched


def _changed(watched: AuditedTable, row: Any) -> dict[str, Any]:
    """The columns that are another, with what they were; where that is not known they are left out."""
    found = inspect(row)
    was: dict[str, Any] = {}
    for name in watched.columns:
        old = found.attrs[name].history.deleted
        if old and (value := stored_value(name, old[0])) != stored_value(name, getattr(row, name)):
            was[name] = value
    return was


def _wait(session: Session, watched: AuditedTable, row: Any, stated: StateChange) -> None:
    waiting: dict[tuple[str, str], StateChange] = session.info.setdefault(WAITING, {})
    key = (watched.chain_of(row), stated.thing)
    earlier = waiting.get(key)
    if earlier is not None:
        stated.was = _joined(earlier.was, stated.was)
    waiting[key] = stated


def _joined(earlier: Any, later: Any) -> Any:
    """What was before two changes in one transaction."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return later | earlier
    return earlier


def _json(facts: Facts | None) -> str:
    return msgspec.json.encode(facts, order="sorted").decode()
