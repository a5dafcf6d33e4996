"""Rows that a kind of process may write of a table that it writes (core/access/tables.py, `rows`): triggers
on Postgres that refuse its role any other.

Triggers, and no row security: that would also keep the role from locking rows that it may only read, make
`pg_dump` refuse, and write none of what it hides without an error. `parley db roles` makes them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

FUNCTION = "parley_row_refused"
MARK = "_row_of_"
# The message holds no text of the row, which may be anybody's.
_SAYS = "MESSAGE = 'permission denied for this row of ' || TG_TABLE_NAME"
BODY = f" BEGIN RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', {_SAYS}; END "
_FUNCTION_MADE = f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $${BODY}$$"


NEVER = "false"


@dataclass(frozen=True)
class RowRule:
    """Conditions on a table's columns. `holds`: a row meets it before and after it is written, `{0}` stands
    for it; `added`: a new row (NEW) meets this too; `changed`: so does a change (OLD, NEW); `deleted`: are
    rows deleted at all."""

    holds: str = "true"
    added: str = "true"
    changed: str = "true"
    deleted: bool = True


class RowTrigger(NamedTuple):
    """One trigger. Its name contains its rule, so that another rule has another name."""

    table: str
    name: str
    sql: str


def row_triggers(role: str, rows: Mapping[str, RowRule]) -> list[RowTrigger]:
    """Triggers that hold a role to the rules of `rows`. No row moves to another tenant. Pure."""
    return [each for table, rule in rows.items() for each in _of_table(role, table, rule)]


def _of_table(role: str, table: str, rule: RowRule) -> Iterator[RowTrigger]:
    new, old = rule.holds.format("NEW"), rule.holds.format("OLD")
    holds = {
        "insert": f"{new} AND {rule.added}",
        "update": f"{old} AND {new} AND {rule.changed} AND NEW.tenant_id = OLD.tenant_id",
        "delete": old if rule.deleted else NEVER,
    }
    for event, allowed in holds.items():
        body = (
            f"BEFORE {event.upper()} ON {table} FOR EACH ROW "
            f"WHEN (current_user = '{role}' AND NOT ({allowed})) EXECUTE FUNCTION {FUNCTION}()"
        )
        digest = hashlib.sha256(body.encode()).hexdigest()[:8]
        name = f"{table}_{event}{MARK}{digest}"
        yield RowTrigger(table, name, f"CREATE TRIGGER {name} {body}")


def row_statements(wanted: list[RowTrigger]) -> list[str]:
    """SQL that makes these, and drops those that an older release made. Pure."""
    kept = ", ".join(f"'{each.name}'" for each in wanted)
    dropped = (
        "DO $$ DECLARE found record; BEGIN FOR found IN SELECT tgname, relname FROM pg_trigger "
        "JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid "
        f"WHERE proname = '{FUNCTION}' AND pg_table_is_visible(tgrelid) AND tgname NOT IN ({kept}) LOOP "
        "EXECUTE format('DROP TRIGGER %I ON %I', found.tgname, found.relname); END LOOP; END $$"
    )
    made = [f"DO $$ BEGIN {each.sql}; EXCEPTION WHEN duplicate_object THEN NULL; END $$" for each in wanted]
    awake = [f"ALTER TABLE {each.table} ENABLE TRIGGER {each.name}" for each in wanted]
    return [_FUNCTION_MADE, dropped, *made, *awake]
