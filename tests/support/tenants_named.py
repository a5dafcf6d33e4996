"""Whether a SQL statement names the tenant of each table of tenants' data that it reads or changes (INV-16).

It does where the table's tenant_id is bound in a WHERE or an ON: to a value, or to the tenant_id of a table
that is bound itself. In a SELECT's list, under NOT, in one branch of an OR or as an inequality it does not.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import Table
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BindParameter,
    BooleanClauseList,
    ColumnClause,
    Grouping,
    Null,
    Tuple,
)
from sqlalchemy.sql.expression import (
    Alias,
    CompoundSelect,
    Delete,
    Join,
    ScalarSelect,
    Select,
    SelectBase,
    TextClause,
    Update,
)
from sqlalchemy.sql.selectable import AliasedReturnsRows
from sqlmodel import SQLModel

TENANT = "tenant_id"
BINDING = {operators.eq, operators.in_op, operators.is_}
VALUES: Any = (BindParameter, Null, ScalarSelect, SelectBase)
SCOPES: Any = (Select, CompoundSelect, Update, Delete)
READ_OR_CHANGED = re.compile(r"(?i)\b(?:from|join|update|into)\s+\W?(\w+)")


@cache
def tables_of_tenants() -> set[str]:
    """The tables whose rows are a tenant's. Asked once all of them are imported."""
    return {name for name, table in SQLModel.metadata.tables.items() if TENANT in table.columns}


def unbound(statement: Any) -> set[str]:
    """The tables of tenants' data whose tenant the statement does not name."""
    if isinstance(statement, str | TextClause):  # nobody has parsed it
        tables = {name.lower() for name in READ_OR_CHANGED.findall(str(statement))}
        return set() if TENANT in str(statement) else tables & tables_of_tenants()
    found = set[str]()
    for scope in [statement] if isinstance(statement, SCOPES) else _nested(statement):
        found |= _unbound_in(scope, _Known())
    return found


def _unbound_in(scope: Any, outer: "_Known") -> set[str]:
    """Of a SELECT, UPDATE or DELETE and all in it. What holds outside holds within, and what holds of a
    subquery in its FROM holds of it; what is asked within a condition says nothing of it."""
    if isinstance(scope, CompoundSelect):
        return {table for each in scope.selects for table in _unbound_in(each, outer)}
    known, together, apart = _Known(outer), [scope], list[Any]()
    for each in together:
        for clause in _criteria(each):
            known.take(clause)
            apart += _nested(clause)
        apart += _nested(each)
        for inner in _subqueries(each):
            (together if isinstance(inner, Select) else apart).append(inner)
    tables = [table for each in together for source in _froms(each) for table in _tables(source)]
    found = {_name(each) for each in tables if TENANT in each.c and not known.is_bound(each.c[TENANT])}
    return found.union(*(_unbound_in(each, known) for each in apart))


class _Known:
    """Which columns have a value that somebody named, and which are equal to which."""

    def __init__(self, outer: "_Known | None" = None) -> None:
        self._bound = set[Any](outer._bound if outer else ())
        self._equal: dict[Any, set[Any]] = {}
        for column, equals in outer._equal.items() if outer else ():
            self._equal[column] = set(equals)

    def take(self, clause: Any) -> None:
        """A condition that holds for every row."""
        self._bound |= _bound_by(clause)
        for each in _conjuncts(clause):
            if isinstance(each, BinaryExpression):
                for side in (each.left, each.right):
                    self._reach_into(_columns(side))
                if each.operator is operators.eq:
                    for one, other in zip(_columns(each.left), _columns(each.right), strict=False):
                        self._join(one, other)

    def is_bound(self, column: Any) -> bool:
        """To a value, or by way of other columns."""
        seen, left = set[Any](), [_key(column)]
        while left:
            each = left.pop()
            if each in self._bound:
                return True
            if each not in seen:
                seen.add(each)
                left.extend(self._equal.get(each, ()))
        return False

    def _reach_into(self, columns: list[Any]) -> None:
        """What holds of a subquery's column holds of the one that it shows."""
        for column in columns:
            for base in column.base_columns:
                if isinstance(base, ColumnClause) and _key(base) != _key(column):
                    self._join(column, base)

    def _join(self, one: Any, other: Any) -> None:
        self._equal.setdefault(_key(one), set()).add(_key(other))
        self._equal.setdefault(_key(other), set()).add(_key(one))


def _bound_by(clause: Any) -> set[Any]:
    """The columns that have a value wherever the condition holds."""
    bound = set[Any]()
    for each in _conjuncts(clause):
        if isinstance(each, BooleanClauseList) and each.operator is operators.or_:
            bound |= set.intersection(*(_bound_by(branch) for branch in each.clauses))
        elif isinstance(each, BinaryExpression) and each.operator in BINDING:
            for side, value in ((each.left, each.right), (each.right, each.left)):
                if _is_value(value):
                    bound |= {_key(column) for column in _columns(side)}
    return bound


def _conjuncts(clause: Any) -> Iterator[Any]:
    while isinstance(clause, Grouping):
        clause = clause.element
    if isinstance(clause, BooleanClauseList) and clause.operator is operators.and_:
        for each in clause.clauses:
            yield from _conjuncts(each)
    else:
        yield clause


def _columns(side: Any) -> list[Any]:
    """A column, or the columns of (a, b)."""
    while isinstance(side, Grouping):
        side = side.element
    sides = list(side.clauses) if isinstance(side, Tuple) else [side]
    return [each for each in sides if isinstance(each, ColumnClause)]


def _is_value(side: Any) -> bool:
    while isinstance(side, Grouping):
        side = side.element
    return isinstance(side, VALUES)


def _criteria(scope: Any) -> Iterator[Any]:
    yield from scope._where_criteria
    for each in _froms(scope):
        yield from _conditions(each)


def _conditions(source: Any) -> Iterator[Any]:
    if isinstance(source, Join):
        yield source.onclause
        yield from _conditions(source.left)
        yield from _conditions(source.right)


@lru_cache(64)  # the ORM works them out anew at each call, and one scope is asked three times
def _froms(scope: Any) -> tuple[Any, ...]:
    if isinstance(scope, Select):
        return tuple(scope.get_final_froms())
    return (scope.table,)


def _nested(node: Any) -> list[Any]:
    """The scopes right within an expression, but for those that it selects from."""
    found = list[Any]()
    for each in node.get_children():
        if isinstance(each, Select | CompoundSelect):
            found.append(each)
        elif not isinstance(each, AliasedReturnsRows):
            found += _nested(each)
    return found


def _subqueries(scope: Any) -> Iterator[Any]:
    """Those that it selects from."""
    sources = list(_froms(scope))
    for source in sources:
        if isinstance(source, Join):
            sources += [source.left, source.right]
        elif isinstance(source, AliasedReturnsRows) and isinstance(source.element, Select | CompoundSelect):
            yield source.element


def _tables(source: Any) -> Iterator[Any]:
    if isinstance(source, Join):
        yield from _tables(source.left)
        yield from _tables(source.right)
    elif isinstance(source, Table) or (isinstance(source, Alias) and isinstance(source.element, Table)):
        yield source


def _name(table: Any) -> str:
    named: Any = table.element if isinstance(table, Alias) else table
    return str(named.name)


def _key(column: Any) -> tuple[Any, str]:
    return (column.table, column.name)
