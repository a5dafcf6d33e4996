"""Postgres roles, made of what each process declares (core/access/tables.py). Pure."""

from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlsplit

from core.access.processes import ProcessKind
from core.access.row_rules import NEVER, RowRule, RowTrigger, row_statements, row_triggers
from core.access.tables import TABLES, VERSION

# Postgres locks a row (FOR UPDATE) for whom may change one of its columns, whichever it is: this one decides
# nothing.
LOCKED_BY = "created_ms"


def role_names() -> list[str]:
    """Role names: one for each kind of process with a database. Migrations run as the tables' owner."""
    return [role_of(process) for process in TABLES]


def role_of(process: ProcessKind) -> str:
    """Name of a process' role, which SQL takes without quotes. Pure."""
    return "parley_" + process.name.replace("-", "_")


def statements(database: str) -> list[str]:
    """SQL that makes the roles, or brings them up to date: each gets what it declares and nothing else. Run
    it as the owner of the tables, again after each migration."""
    found = ["REVOKE CREATE ON SCHEMA public FROM PUBLIC"]
    for process, tables in TABLES.items():
        role = role_of(process)
        writes = sorted(set(tables.writes.split()))
        reads = sorted({*tables.reads.split(), VERSION} - set(writes))
        found += [
            f"DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}",
            f"GRANT CONNECT ON DATABASE {_quoted(database)} TO {role}",
            f"GRANT USAGE ON SCHEMA public TO {role}",
            f"GRANT SELECT ON {', '.join(reads)} TO {role}",
        ]
        for table, columns in tables.columns.items():
            found.append(f"GRANT SELECT ({', '.join(columns.split())}) ON {table} TO {role}")
        for table in tables.locks.split():
            found.append(f"GRANT UPDATE ({LOCKED_BY}) ON {table} TO {role}")
        found += [f"GRANT {rights} TO {role}" for rights in _written(writes, tables.rows)]
    return found + row_statements([each for process in TABLES for each in triggers_of(process)])


def _written(writes: list[str], rows: Mapping[str, RowRule]) -> Iterator[str]:
    """Rights on tables that are written: those by which nothing can be done that their rule allows are left
    out, but for what locks a row. Pure."""
    stay = {table for table, rule in rows.items() if rule.changed == NEVER}
    last = {table for table, rule in rows.items() if not rule.deleted} - stay
    if whole := [table for table in writes if table not in stay | last]:
        yield f"SELECT, INSERT, UPDATE, DELETE ON {', '.join(whole)}"
    if last:
        yield f"SELECT, INSERT, UPDATE ON {', '.join(sorted(last))}"
    for table in sorted(stay):
        yield f"SELECT, INSERT, UPDATE (tenant_id) ON {table}"


def triggers_of(process: ProcessKind) -> list[RowTrigger]:
    """Triggers that hold a process' role to the rows that it declares. Pure."""
    return row_triggers(role_of(process), TABLES[process].rows)


def password_statements(passwords: Mapping[str, str]) -> list[str]:
    """SQL that gives each role its password, which is hex."""
    assert all(password.isalnum() for password in passwords.values())
    return [f"ALTER ROLE {role} PASSWORD '{password}'" for role, password in passwords.items()]


def url_for(url: str, user: str, password: str) -> str:
    """The URL with this user and password in place of its own."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{quote(user)}:{quote(password)}@{place}").geturl()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
