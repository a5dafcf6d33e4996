"""Beside each change in the audit log, how it left what it changed. What there is already is sealed as it is
found: a row in each chain, dated, with the state of all that the chain tells of."""

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

PLATFORM = ""
AT_ONCE = 500
HASHED = {"name", "code", "note", "address", "secret", "secret_sha256", "idempotency_key", "author"}
OF_USERS = {"user_id", "scope_id"}
OPAQUE = re.compile(r"(u_[0-9a-f]{32})?", re.ASCII)
# Tables, and what of them moves by itself.
TABLES: Mapping[str, set[str]] = {
    "tenant": set(),
    "project": set(),
    "tenant_user": {"name"},
    "api_key": set(),
    "plan": set(),
    "pool_terms": {"updated_ms"},
    "price_book": set(),
    "price_version": set(),
    "price": set(),
    "price_tier": set(),
    "gpu_price": set(),
    "period_commitment": set(),
    "period_close": set(),
    "quota_policy": set(),
    "budget": set(),
    "wallet": {"posted_nano"},
    "wallet_grant": {"left_nano"},
    "alert_target": set(),
    "cost_center": set(),
    "project_cost_center": set(),
    "commitment": set(),
    "pool_owner": set(),
    "gpu_cost": set(),
}
OF_PLATFORM = {"pool_owner", "gpu_cost"}


def upgrade() -> None:
    """The columns and the table, then the seals."""
    op.add_column("audit_log", sa.Column("states_sha256", sa.String(), nullable=False, server_default=""))
    op.create_table(
        "audit_state",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("thing", sa.String(), primary_key=True),
        sa.Column("seq", sa.BigInteger(), primary_key=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("was", sa.Text(), nullable=False),
    )
    op.create_index("ix_audit_state_change", "audit_state", ["tenant_id", "seq", "number"])
    connection = op.get_bind()
    tables = {name: sa.Table(name, sa.MetaData(), autoload_with=connection) for name in TABLES}
    seals = Seals(connection)
    for name, table in tables.items():
        for row in _rows_of(connection, table):
            if name != "tenant_user" or OPAQUE.fullmatch(row["id"]):
                seals.add(PLATFORM if name in OF_PLATFORM else row["tenant_id"], table, row)
    seals.end()


def _rows_of(connection: sa.Connection, table: sa.Table) -> Iterator[Mapping[str, Any]]:
    keys = list(table.primary_key.columns)
    after: tuple[Any, ...] | None = None
    while True:
        statement = sa.select(table).order_by(*keys).limit(AT_ONCE)
        if after is not None:
            statement = statement.where(sa.tuple_(*keys) > sa.tuple_(*(sa.literal(each) for each in after)))
        rows = connection.execute(statement).mappings().all()
        if not rows:
            return
        for row in rows:
            yield {**row}
        after = tuple(rows[-1][key.name] for key in keys)


class Seals:
    """A row of the audit log for each chain, as billing/audit/log.py would write it now."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        meta = sa.MetaData()
        self._heads, self._log, self._states = (
            sa.Table(name, meta, autoload_with=connection)
            for name in ("audit_head", "audit_log", "audit_state")
        )
        self._now = int(time.time() * 1000)
        self._chains: dict[str, tuple[int, str, Any, int]] = {}
        self._waiting: list[dict[str, Any]] = []

    def add(self, chain: str, table: sa.Table, row: Mapping[str, Any]) -> None:
        """The state of one row."""
        key = [row[column.name] for column in table.primary_key.columns]
        thing = f"{table.name}:{msgspec.json.encode(key).decode()}"
        kept = {name: _kept(name, value) for name, value in row.items() if name not in TABLES[table.name]}
        state = msgspec.json.encode(kept, order="sorted").decode()
        seq, before, digest, number = self._chains.get(chain) or (*self._end_of(chain), hashlib.sha256(), 0)
        digest.update(msgspec.msgpack.encode((thing, state, "")))
        self._chains[chain] = (seq, before, digest, number + 1)
        of = {"tenant_id": chain, "thing": thing, "seq": seq + 1, "number": number}
        self._waiting.append({**of, "state": state, "was": ""})
        if len(self._waiting) >= AT_ONCE:
            self._flush()

    def end(self) -> None:
        """The rows of the log that cover them."""
        self._flush()
        for chain, (seq, before, digest, number) in sorted(self._chains.items()):
            facts: dict[str, Any] = {
                "action": "audit.seal",
                "after": json.dumps({"rows": number}, separators=(",", ":")),
                "at_ms": self._now,
                "author": "parley",
                "before": "null",
                "previous_sha256": before,
                "seq": seq + 1,
                "source": "upgrade",
                "target": chain,
                "tenant_id": chain,
            }
            states = digest.hexdigest()
            packed = msgspec.msgpack.encode((*(facts[name] for name in sorted(facts)), states))
            sha256 = hashlib.sha256(packed).hexdigest()
            row = {**facts, "states_sha256": states, "sha256": sha256}
            self._connection.execute(self._log.insert(), row)
            of = self._heads.c.tenant_id == chain
            moved = {"seq": seq + 1, "sha256": sha256}
            if not self._connection.execute(self._heads.update().where(of).values(**moved)).rowcount:
                self._connection.execute(self._heads.insert(), {"tenant_id": chain, **moved})

    def _end_of(self, chain: str) -> tuple[int, str]:
        statement = sa.select(self._heads.c.seq, self._heads.c.sha256)
        found = self._connection.execute(statement.where(self._heads.c.tenant_id == chain)).first()
        return (0, "") if found is None else (found[0], found[1])

    def _flush(self) -> None:
        if self._waiting:
            self._connection.execute(self._states.insert(), self._waiting)
            self._waiting = []


def _kept(name: str, value: Any) -> Any:
    named = name in HASHED or (name in OF_USERS and not OPAQUE.fullmatch(value))
    if named and value:
        return "sha256:" + hashlib.sha256(str(value).encode()).hexdigest()
    return value
