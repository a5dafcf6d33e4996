"""A pytest plugin: each statement is compiled once a process, not once a database.

SQLAlchemy keeps what it compiled per engine, and each test has an engine of its own. A sixth of the CPU time
of the tests on databases was compiling the same statements again.
"""

from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

STATEMENTS_MAX = 10_000

_compiled: LRUCache[Any, Any] = LRUCache(STATEMENTS_MAX)


def pytest_configure(config: pytest.Config) -> None:
    """Before the first engine."""
    event.listen(Engine, "engine_connect", _share)
    # What is compiled is kept by dialect: those of one driver, at one server of its kind, are the same here.
    DefaultDialect.__eq__ = _is_same
    DefaultDialect.__hash__ = _hashed


def _share(connection: Connection) -> None:
    if connection.engine._compiled_cache is not None:
        connection.engine._compiled_cache = _compiled


def _is_same(self: DefaultDialect, other: object) -> bool:
    return type(self) is type(other)


def _hashed(self: DefaultDialect) -> int:
    return hash(type(self))
