"""Tables that only grow, and the triggers by which the database itself enforces it. Pure.

Triggers are made by core/sql/append_only_triggers.py after every migration and not by the schema's versions:
rebuilding a table on SQLite loses its triggers. INV-25, INV-27, INV-28.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SAYS = "the books only grow: a line is corrected by a new one"
SQLSTATE = "PB001"  # of Postgres' error; SQLite's is SQLITE_CONSTRAINT_TRIGGER
MARK = "_only_grows_"
FUNCTION = "parley_only_grows"

# Derived from tables that only grow: a rebuild may empty them.
DERIVED = "rollup_hour rollup_price rollup_tag budget_spent budget_watermark wallet_owed"
# Present state, queues and marks: changed in place. Ends of chains too: derived again from their rows they
# would hide that some were cut off.
STATE = (
    "ledger_head audit_head tenant plan pool_terms project tenant_user api_key price_book cost_center "
    "project_cost_center tag_key report_schedule quota_policy budget budget_alert wallet wallet_grant "
    "period_commitment commitment gpu_cost pool pool_admission pool_owner pool_interval "
    "usage_quarantine alert_target outbox proposal noisy_finding recon_item recon_mark refusal_minute "
    "refusal_hour refusal_mark engine_hour ended_hour model_version conversation message "
    "browser_session person membership invitation person_session service_token kept_reply operation_run "
    "fleet_lease pool_state fleet_node"
)


@dataclass(frozen=True)
class AllowedUpdate:
    """The one kind of UPDATE that a table allows: columns that may change, and a condition on SQLite and on
    Postgres. All other columns stay as they are."""

    columns: tuple[str, ...]
    sqlite: tuple[str, ...]
    postgresql: tuple[str, ...]

    def holds(self, dialect: str, columns: Sequence[str]) -> str:
        """SQL condition on a row of these columns: nothing else is changed, and the change is allowed."""
        others = [name for name in columns if name not in self.columns]
        if dialect == "sqlite":
            return " AND ".join([*(f"NEW.{name} IS OLD.{name}" for name in others), *self.sqlite])
        same = "NEW.{0}::text IS NOT DISTINCT FROM OLD.{0}::text"  # as text, since JSON is not compared
        return " AND ".join([*(same.format(name) for name in others), *self.postgresql])


NOTHING = AllowedUpdate((), ("0",), ("false",))
_DIGITS = "[0-9a-f]" * 32
# Erasing replaces a user id that reveals a name by one that reveals nothing.
_RENAMED = (
    f"(NEW.user_id = OLD.user_id OR (OLD.user_id NOT GLOB 'u_{_DIGITS}' AND NEW.user_id GLOB 'u_{_DIGITS}'))",
    "(NEW.user_id = OLD.user_id OR (OLD.user_id !~ '^u_[0-9a-f]{32}$' AND NEW.user_id ~ '^u_[0-9a-f]{32}$'))",
)
# … and removes labels, with the key of their proof.
_LABELS = "(NEW.words_proof = OLD.words_proof OR NEW.words_proof = substr(OLD.words_proof, 1, 65))"
_ERASED = (
    f"(NEW.request_metadata = OLD.request_metadata OR NEW.request_metadata = '{{}}') AND {_LABELS}",
    "(NEW.request_metadata::text = OLD.request_metadata::text OR NEW.request_metadata::text = '{}') "
    f"AND {_LABELS}",
)
# A price version that has not begun may be withdrawn, once.
_WITHDRAWN = "OLD.withdrawn_ms IS NULL AND NEW.withdrawn_ms IS NOT NULL AND OLD.valid_from_ms > "
# Erasing a tenant empties its rules, which may name people, and why they were made.
_EMPTIED = tuple(f"(NEW.{name} = OLD.{name} OR NEW.{name} = '')" for name in ("document", "reason"))
_NOW_MS = ("(julianday('now') - 2440587.5) * 86400000", "extract(epoch FROM clock_timestamp()) * 1000")

APPEND_ONLY: Mapping[str, AllowedUpdate] = {
    "usage_event": AllowedUpdate(
        ("user_id", "request_metadata", "words_proof"),
        (_RENAMED[0], _ERASED[0]),
        (_RENAMED[1], _ERASED[1]),
    ),
    "usage_line": NOTHING,
    "ledger_txn": NOTHING,
    "ledger_entry": NOTHING,
    "charge": AllowedUpdate(("user_id",), (_RENAMED[0],), (_RENAMED[1],)),
    "wallet_use": NOTHING,
    "period_close": NOTHING,
    "audit_log": NOTHING,
    "audit_state": NOTHING,
    "price_version": AllowedUpdate(("withdrawn_ms",), (_WITHDRAWN + _NOW_MS[0],), (_WITHDRAWN + _NOW_MS[1],)),
    "price": NOTHING,
    "price_tier": NOTHING,
    "gpu_price": NOTHING,
    "safety_policy": AllowedUpdate(("document", "reason"), _EMPTIED, _EMPTIED),
}
EXCEPTED = tuple(table for table, changes in APPEND_ONLY.items() if changes is not NOTHING)


@dataclass(frozen=True)
class Trigger:
    """One trigger. Its name contains its rule, so that another rule has another name."""

    table: str
    name: str
    sql: str


def triggers(dialect: str, columns: Mapping[str, Sequence[str]]) -> list[Trigger]:
    """All triggers. `columns`: those of the tables in EXCEPTED, as the database has them."""
    made = _of_sqlite if dialect == "sqlite" else _of_postgres
    return [
        each
        for table, changes in APPEND_ONLY.items()
        for each in made(table, changes, columns.get(table, ()))
    ]


def drop(dialect: str, table: str, name: str) -> str:
    """SQL that drops a trigger."""
    return f"DROP TRIGGER {name}" if dialect == "sqlite" else f"DROP TRIGGER {name} ON {table}"


# Called by triggers on Postgres. The message holds no text of the row, which may be anybody's.
BODY = f" BEGIN RAISE EXCEPTION USING ERRCODE = '{SQLSTATE}', MESSAGE = TG_TABLE_NAME || ': {SAYS}'; END "
MADE_FIRST = f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $${BODY}$$"
# Its owner could replace it; one in another schema is another installation's.
DROPPED_FIRST = (
    f"DO $$ BEGIN EXECUTE format('DROP FUNCTION IF EXISTS %I.{FUNCTION}()', current_schema()); END $$"
)


def _of_sqlite(table: str, changes: AllowedUpdate, columns: Sequence[str]) -> list[Trigger]:
    refused = f"BEGIN SELECT RAISE(ABORT, '{table}: {SAYS}'); END"
    where = "" if changes is NOTHING else f"WHEN NOT ({changes.holds('sqlite', columns)}) "
    return [
        _named(table, "update", f"BEFORE UPDATE ON {table} {where}{refused}"),
        _named(table, "delete", f"BEFORE DELETE ON {table} {refused}"),
    ]


def _of_postgres(table: str, changes: AllowedUpdate, columns: Sequence[str]) -> list[Trigger]:
    refused = f"EXECUTE FUNCTION {FUNCTION}()"
    where = "" if changes is NOTHING else f"WHEN (NOT ({changes.holds('postgresql', columns)})) "
    return [
        _named(table, "update", f"BEFORE UPDATE ON {table} FOR EACH ROW {where}{refused}"),
        _named(table, "delete", f"BEFORE DELETE ON {table} FOR EACH ROW {refused}"),
        _named(table, "truncate", f"BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {refused}"),
    ]


def _named(table: str, event: str, body: str) -> Trigger:
    name = f"{table}_{event}{MARK}{hashlib.sha256(body.encode()).hexdigest()[:8]}"
    return Trigger(table, name, f"CREATE TRIGGER {name} {body}")
