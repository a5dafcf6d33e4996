"""Columns of the first schema, several at a time, and indexes of a part of a table."""

import sqlalchemy as sa
from alembic import op


def text_keys(*names: str) -> list[sa.Column[str]]:
    """Texts of a primary key."""
    return [sa.Column(name, sa.String(), primary_key=True) for name in names]


def number_keys(*names: str) -> list[sa.Column[int]]:
    """Whole numbers of a primary key."""
    return [sa.Column(name, sa.BigInteger(), primary_key=True) for name in names]


def texts(*names: str) -> list[sa.Column[str]]:
    """Texts that are always there."""
    return [sa.Column(name, sa.String(), nullable=False) for name in names]


def maybe_texts(*names: str) -> list[sa.Column[str]]:
    """Texts that may be missing."""
    return [sa.Column(name, sa.String()) for name in names]


def numbers(*names: str) -> list[sa.Column[int]]:
    """Times, amounts and counts that are always there."""
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def maybe_numbers(*names: str) -> list[sa.Column[int]]:
    """Times, amounts and counts that may be missing."""
    return [sa.Column(name, sa.BigInteger()) for name in names]


def lower_index(name: str, table: str, column: str) -> None:
    """Make an index of a text in lower case, in the order of code points."""
    order = ' COLLATE "C"' if op.get_context().dialect.name == "postgresql" else ""
    op.create_index(name, table, [sa.text(f"lower({column}){order}")])


def partial_index(name: str, table: str, columns: list[str], where: str, unique: bool = False) -> None:
    """Make an index of the rows of which `where` holds."""
    of = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=of, postgresql_where=of)
