"""Texts in lower case, as indexes have them, so that names are found by how they begin in whichever case."""

import unicodedata
from typing import Any

from sqlalchemy import ColumnElement, String, and_, func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

LAST = "\U0010ffff"  # behind every character that a name has


class lower_case(GenericFunction[str]):  # noqa: N801  (a function in SQL)
    """`lower(text)`, in the order of code points on Postgres too, by which a beginning is a range."""

    type = String()
    inherit_cache = True


@compiles(lower_case)
def _lower(element: Any, compiler: Any, **options: Any) -> str:
    return f"lower{compiler.process(element.clause_expr, **options)}"


@compiles(lower_case, "postgresql")
def _lower_on_postgres(element: Any, compiler: Any, **options: Any) -> str:
    return f'lower{compiler.process(element.clause_expr, **options)} COLLATE "C"'


def begins_with(column: Any, text: str) -> ColumnElement[bool]:
    """True where a column begins so, in whichever case. An index of `lower_case(column)` serves it."""
    found, lowest = lower_case(column), func.lower(text)
    return and_(found >= lowest, found < lowest.concat(LAST))


def same_letters(column: Any, text: str) -> ColumnElement[bool]:
    """True where a column is the text in whichever case. The same index serves it."""
    return lower_case(column) == func.lower(text)


def holds(column: Any, text: str) -> ColumnElement[bool]:
    """True where a column has the text somewhere, in whichever case. No index serves it."""
    composed = unicodedata.normalize("NFC", text)  # as names are kept
    escaped = "".join(f"/{each}" if each in "%_/" else each for each in composed)
    return func.lower(column).like(func.lower(f"%{escaped}%"), escape="/")
