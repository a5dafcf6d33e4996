"""A user's name stands in one table. Who is known by a name now keeps it as their id, so that all rows that
hold it go on meaning them."""

from typing import Any

import sqlalchemy as sa
from alembic import context, op

from core.clock import now_ms
from core.names import name_of

revision = "0013"
down_revision = "0012"

TOLD_MAX = 100
_FROM = (
    ("api_key", "user_id", ""),
    ("conversation", "user_id", ""),
    ("rollup_hour", "user_id", ""),
    ("quota_policy", "scope_id", "scope = 'user'"),
    ("budget", "scope_id", "scope = 'user'"),
)


def upgrade() -> None:
    """Make the table, from the accounts there were and everybody who is named elsewhere."""
    op.create_table(
        "tenant_user",
        sa.Column("tenant_id", sa.String(), primary_key=True),
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("name", sa.String()),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_ms", sa.BigInteger()),
        sa.Column("erased_ms", sa.BigInteger()),
        sa.UniqueConstraint("tenant_id", "name", name="uq_tenant_user_name"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"], name="fk_tenant_user_tenant"),
    )
    bind, told = op.get_bind(), context.config.attributes.get("told", list[str]())
    accounts = {
        (row.tenant_id, row.id): row
        for row in bind.execute(sa.text("SELECT tenant_id, id, created_ms, closed_ms FROM account"))
    }
    by_tenant: dict[str, set[str]] = {}
    for tenant, user in {*accounts, *_named(bind)}:
        by_tenant.setdefault(tenant, set()).add(user)
    rows: list[dict[str, Any]] = []
    for tenant, users in sorted(by_tenant.items()):
        for id, name in _names(tenant, users, told).items():
            account = accounts.get((tenant, id))
            created_ms, closed_ms = (account.created_ms, account.closed_ms) if account else (now_ms(), None)
            facts = {"tenant_id": tenant, "id": id, "name": name}
            rows.append({**facts, "created_ms": created_ms, "closed_ms": closed_ms})
    columns = ("tenant_id", "id", "name", "created_ms", "closed_ms")
    if rows:
        bind.execute(sa.insert(sa.table("tenant_user", *(sa.column(name) for name in columns))), rows)
    op.drop_table("account")


def _named(bind: sa.Connection) -> set[tuple[str, str]]:
    """Who is named anywhere, by tenants that exist."""
    found = set[tuple[str, str]]()
    for table, column, condition in _FROM:
        where = f" AND {condition}" if condition else ""
        statement = (
            f"SELECT DISTINCT tenant_id, {column} FROM {table} WHERE {column} <> ''{where} "
            "AND tenant_id IN (SELECT tenant_id FROM tenant)"
        )
        found |= {(row[0], row[1]) for row in bind.execute(sa.text(statement))}
    return found


def _names(tenant: str, users: set[str], told: list[str]) -> dict[str, str]:
    """By id (the name as it was) the name as it is now. Of two that became one, the one that was written so
    keeps it, and the other can be named no more."""
    names = {user: user for user in users if name_of(user) == user}
    taken = dict[str, str]((name, user) for user, name in names.items())
    for user in sorted(users - set(names)):
        name = name_of(user)
        if name is None:
            names[user] = user
            _tell(told, f"tenant {tenant}: the user {user!r} has no name that may be used any more")
        elif name in taken:
            names[user] = user
            _tell(
                told,
                f"tenant {tenant}: the users {user!a} and {taken[name]!a} have one name now, the latter's",
            )
        else:
            names[user], taken[name] = name, user
    return names


def _tell(told: list[str], line: str) -> None:
    if len(told) < TOLD_MAX:
        told.append(line)
