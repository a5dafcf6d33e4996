"""What an operation touches: the tables of its SQL statements, and the keys and channels of its Redis
commands, those that scripts run too, as the server's MONITOR shows them."""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from redis.exceptions import ResponseError
from sqlalchemy import Column, Table, event
from sqlalchemy.sql import visitors
from sqlmodel import SQLModel

from core.sql.database import Database
from tests.support.key_kinds import kind_of
from tests.support.redis import Redis
from tests.support.tenants_named import READ_OR_CHANGED

CHANGED = re.compile(r"(?i)\b(?:INSERT(?:\s+OR\s+\w+)?\s+INTO|UPDATE|DELETE\s+FROM)\s+\W?(\w+)")
WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
READS = {b"RO", b"access"}
MARKS = count()


@dataclass
class Touched:
    """Names of tables, key kinds and channels, and commands. `locked` tables are selected FOR UPDATE;
    `written` keys were written or given to a script."""

    reads: set[str] = field(default_factory=set[str])
    locked: set[str] = field(default_factory=set[str])
    writes: set[str] = field(default_factory=set[str])
    keys: set[str] = field(default_factory=set[str])
    written: set[str] = field(default_factory=set[str])
    commands: set[str] = field(default_factory=set[str])


@asynccontextmanager
async def touched_by(database: Database, redis: Redis, redis_url: str) -> AsyncGenerator[Touched]:
    """What the block touches."""
    found = Touched()
    reader, writer = await asyncio.open_unix_connection(redis_url.removeprefix("unix://").partition("?")[0])
    writer.write(b"MONITOR\r\n")
    await reader.readline()
    try:
        with _statements(database, found):
            yield found
        mark = f"mark-{next(MARKS)}"
        await redis.execute_command("ECHO", mark)
        sent = [line async for line in _lines(reader, mark.encode())]
    finally:
        writer.close()
    for words in sent:
        await _take(redis, found, words)


@contextmanager
def _statements(database: Database, found: Touched) -> Generator[None]:
    def sent(_connection: Any, _cursor: Any, text: str, _parameters: Any, context: Any, _: bool) -> None:
        compiled = context.compiled if context else None
        statement = compiled.statement if compiled is not None else None
        tables = set(READ_OR_CHANGED.findall(text)) | (_tables(statement) if statement is not None else set())
        tables &= SQLModel.metadata.tables.keys()
        found.reads |= tables
        found.writes |= set(CHANGED.findall(text)) & tables
        if getattr(statement, "_for_update_arg", None) is not None:
            found.locked |= tables

    engine = database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", sent)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", sent)


def _tables(statement: Any) -> set[str]:
    every = list(visitors.iterate(statement))
    of_columns = [each.table for each in every if isinstance(each, Column)]
    return {each.name for each in (*every, *of_columns) if isinstance(each, Table)}


async def _lines(reader: asyncio.StreamReader, mark: bytes) -> AsyncGenerator[list[bytes]]:
    while mark not in (line := await reader.readline()):
        yield [_plain(word) for word in WORD.findall(line)]


def _plain(word: bytes) -> bytes:
    return word.decode("latin-1").encode().decode("unicode_escape").encode("latin-1")


async def _take(redis: Any, found: Touched, words: Sequence[bytes]) -> None:
    command = words[0].decode().lower()
    found.commands.add(command)
    if command in ("publish", "spublish", "subscribe", "ssubscribe"):
        found.keys.add(kind_of(words[1].decode()))
        return
    try:
        named = await redis.execute_command("COMMAND GETKEYSANDFLAGS", *words)
    except ResponseError:  # a command without keys
        return
    for key, flags in named:
        kind = kind_of(key.decode())
        found.keys.add(kind)
        if not set(flags) <= READS:
            found.written.add(kind)
