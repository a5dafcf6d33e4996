"""Compares administered rows with their last state in the audit log. Reads only, some rows at a time.

A row that was changed, removed or added past the commands is named, also where a command changed it again
since: each change must find the state that the change before it left.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import and_, tuple_
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.states import OPAQUE, UNKNOWN, StatesDigest, table_and_key
from billing.audit.watched import WATCHED, AuditedTable
from billing.tables.audit import AuditLog, AuditState
from billing.tables.tenants import PLATFORM
from core.sql.database import Database

ROWS_AT_ONCE = 500
FAULTS_MAX = 100
LAST_SEQ, LAST_NUMBER = (1 << 63) - 1, (1 << 31) - 1
PAST_THE_COMMANDS = "past the commands"

Facts = Mapping[str, Any]


@dataclass
class StateComparison:
    """Result for one owner: number of rows, and differences."""

    rows: int = 0
    faults: list[str] = field(default_factory=list[str])

    def add(self, faults: Sequence[str]) -> None:
        """Add findings, at most FAULTS_MAX in all."""
        self.faults += faults[: FAULTS_MAX - len(self.faults)]


async def compare_states(
    db: Database, tenant_id: str, tell: Callable[[str], None] = lambda words: None
) -> StateComparison:
    """Compare all rows of a tenant, or with PLATFORM the platform's, with their last states in one snapshot.
    `tell` is called with the progress."""
    found = StateComparison()
    async with db.snapshot() as session:
        found.add(await _covered(session, tenant_id))
        last: dict[str, Facts | None] = {}
        states = 0
        async for page in _states(session, tenant_id):
            states += len(page)
            tell(f"{states:,} states read")
            found.add(state_breaks(last, page))
            *done, _ = last  # the next page may hold more states of the last one
            await _compare(session, found, {name: last.pop(name) for name in done})
        await _compare(session, found, last)
        for watched in WATCHED.values():
            async for rows in _rows(session, watched, tenant_id):
                found.rows += len(rows)
                tell(f"{found.rows:,} rows compared")
                if not watched.opaque:
                    found.add(differences({}, await _unknown(session, tenant_id, rows)))
    return found


def differences(last: Mapping[str, Facts | None], rows: Mapping[str, Facts]) -> list[str]:
    """Faults of rows, given their last states. A state of None: the row is gone. Pure."""
    faults: list[str] = []
    for name in sorted({*last, *rows}):
        state, row = last.get(name), rows.get(name)
        if state is None and row is not None:
            faults.append(f"{thing_name_shown(name)} was added {PAST_THE_COMMANDS}")
        elif state is not None and row is None:
            faults.append(f"{thing_name_shown(name)} was removed {PAST_THE_COMMANDS}")
        elif state is not None and row is not None and (told := _differing(name, state, row)):
            faults.append(f"{thing_name_shown(name)} was changed {PAST_THE_COMMANDS}: {told}")
    return faults


def state_breaks(last: dict[str, Facts | None], page: Sequence[AuditState]) -> list[str]:
    """Changes made between two recorded states of a thing, from a page of states in order. Stores each
    thing's last state in `last`. Pure but for that."""
    faults: list[str] = []
    for row in page:
        state: Facts | None = msgspec.json.decode(row.state)
        if row.was != UNKNOWN and row.thing in last:
            was: Facts | None = msgspec.json.decode(row.was)
            found = None if was is None else {**(state or {}), **was}
            told = differences({row.thing: last[row.thing]}, {} if found is None else {row.thing: found})
            faults += [f"{fault} (before change {row.seq})" for fault in told]
        last[row.thing] = state
    return faults


def thing_name_shown(name: str) -> str:
    """Name of a thing for people. Pure."""
    table, key = table_and_key(name)
    watched = WATCHED.get(table)
    owned = watched is not None and watched.keys[0] == "tenant_id" and len(key) > 1
    return f"{table} {'/'.join(str(part) for part in (key[1:] if owned else key))}"


def _differing(name: str, state: Facts, row: Facts) -> str:
    """Name the columns that differ; a column newer than the state must have its default."""
    watched = WATCHED.get(table_and_key(name)[0])
    words: list[str] = []
    for column, value in row.items():
        expected = state[column] if column in state else _default(watched, column, value)
        if expected != value:
            words.append(f"{column} {_word(expected)} → {_word(value)}")
    return ", ".join(words)


def _default(watched: AuditedTable | None, column: str, value: Any) -> Any:
    given = watched.table.model_fields.get(column) if watched is not None else None
    return value if given is None or given.is_required() else given.get_default(call_default_factory=True)


def _word(value: Any) -> str:
    hidden = isinstance(value, str) and value.startswith("sha256:")
    return "(hidden)" if hidden else msgspec.json.encode(value).decode()


async def _covered(session: AsyncSession, tenant_id: str) -> list[str]:
    """Check the states against the hashes in the log's rows."""
    faults: list[str] = []
    after = 0
    while True:
        said = select(AuditLog.seq, AuditLog.states_sha256).where(col(AuditLog.tenant_id) == tenant_id)
        said = said.where(col(AuditLog.seq) > after, col(AuditLog.states_sha256) != "")
        page = (await session.exec(said.order_by(col(AuditLog.seq)).limit(ROWS_AT_ONCE))).all()
        until = page[-1][0] if page else LAST_SEQ
        found = await _digests(session, tenant_id, after, until)
        expected = dict(page)
        faults += [
            f"change {seq}: the states beside it were changed, added or removed"
            for seq in sorted({*expected, *found})
            if expected.get(seq, "") != found.get(seq, "")
        ]
        if not page:
            return faults
        after = until


async def _digests(session: AsyncSession, tenant_id: str, after: int, until: int) -> dict[int, str]:
    """Hash of the states beside each change, for changes after `after` up to `until`."""
    digests: dict[int, StatesDigest] = {}
    place = (col(AuditState.seq), col(AuditState.number))
    at = (after, LAST_NUMBER)
    while True:
        statement = select(AuditState).where(col(AuditState.tenant_id) == tenant_id)
        statement = statement.where(tuple_(*place) > at, col(AuditState.seq) <= until)
        page = (await session.exec(statement.order_by(*place).limit(ROWS_AT_ONCE))).all()
        if not page:
            return {seq: digest.text() for seq, digest in digests.items()}
        for row in page:
            digests.setdefault(row.seq, StatesDigest()).add(row.thing, row.state, row.was)
        at = (page[-1].seq, page[-1].number)
        session.expunge_all()


async def _states(session: AsyncSession, tenant_id: str) -> AsyncGenerator[Sequence[AuditState]]:
    """Yield all states, each thing's in order."""
    after = ("", 0)
    while True:
        place = (col(AuditState.thing), col(AuditState.seq))
        statement = select(AuditState).where(col(AuditState.tenant_id) == tenant_id, tuple_(*place) > after)
        page = (await session.exec(statement.order_by(*place).limit(ROWS_AT_ONCE))).all()
        if not page:
            return
        yield page
        after = (page[-1].thing, page[-1].seq)
        session.expunge_all()


async def _compare(session: AsyncSession, found: StateComparison, last: Mapping[str, Facts | None]) -> None:
    """Compare things with their rows. Tables that this version does not know are skipped."""
    by_table: dict[str, dict[str, Facts | None]] = {}
    for name, state in last.items():
        by_table.setdefault(table_and_key(name)[0], {})[name] = state
    for table, states in by_table.items():
        if (watched := WATCHED.get(table)) is None:
            continue
        rows = [row for where in _places(watched, states) for row in await _found(session, watched, where)]
        found.add(differences(states, {watched.thing_of(row): _state(watched, row) for row in rows}))
        session.expunge_all()


async def _rows(
    session: AsyncSession, watched: AuditedTable, tenant_id: str
) -> AsyncGenerator[dict[str, Facts]]:
    """Yield a table's rows of one chain."""
    if watched.platform and tenant_id != PLATFORM:
        return
    # In this form SQLite, too, continues by the primary key.
    rest = [name for name in watched.keys if watched.platform or name != "tenant_id"]
    columns, after = [getattr(watched.table, name) for name in rest], None
    while after is None or rest:
        statement = select(watched.table).order_by(*columns).limit(ROWS_AT_ONCE)
        if not watched.platform:
            statement = statement.where(getattr(watched.table, "tenant_id") == tenant_id)  # noqa: B009
        if after is not None:
            statement = statement.where(tuple_(*columns) > after)
        page = (await session.exec(statement)).all()
        if not page:
            return
        yield {
            watched.thing_of(row): _state(watched, row)
            for row in page
            if not watched.opaque or OPAQUE.fullmatch(getattr(row, "id"))  # noqa: B009
        }
        after = tuple(getattr(page[-1], name) for name in rest)
        session.expunge_all()


async def _unknown(session: AsyncSession, tenant_id: str, rows: Mapping[str, Facts]) -> dict[str, Facts]:
    """Rows that no change mentions."""
    statement = select(AuditState.thing).where(
        col(AuditState.tenant_id) == tenant_id, col(AuditState.thing).in_(list(rows))
    )
    known = set((await session.exec(statement.distinct())).all())
    return {name: row for name, row in rows.items() if name not in known}


def _places(watched: AuditedTable, things: Iterable[str]) -> list[Any]:
    """Conditions that find rows by primary key, so that SQLite too uses its index: one condition for all rows
    that differ only in the last column."""
    *first, last = [getattr(watched.table, key) for key in watched.keys]
    places: dict[tuple[Any, ...], list[Any]] = {}
    for name in things:
        *prefix, value = table_and_key(name)[1]
        places.setdefault(tuple(prefix), []).append(value)
    return [
        and_(last.in_(values), *(column == each for column, each in zip(first, prefix, strict=True)))
        for prefix, values in places.items()
    ]


async def _found(session: AsyncSession, watched: AuditedTable, where: Any) -> Sequence[Any]:
    return (await session.exec(select(watched.table).where(where))).all()


def _state(watched: AuditedTable, row: Any) -> Facts:
    """A row's columns in JSON's types."""
    return msgspec.json.decode(msgspec.json.encode(watched.state_of(row)))
