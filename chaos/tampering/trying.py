"""Tries edits on copies of a filled database: each copy is edited once and verified as operators do."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from chaos.tampering.edits import Edit
from chaos.tampering.filling import Type
from chaos.tampering.unguarded import unguarded_file


class NotWholeError(Exception):
    """What was filled is not whole before anything is edited."""


@dataclass(frozen=True)
class Tried:
    """What verifying said after an edit. `fault` empty: it was not found."""

    name: str
    fault: str

    @property
    def found(self) -> bool:
        """Whether it was."""
        return bool(self.fault)


class Typed:
    """Verifies as operators do, by the command, with what it printed the first time as what they kept."""

    def __init__(self, home: Path, type_line: Type) -> None:
        self._kept = home / "kept.json"
        self._type = type_line

    def __call__(self) -> str:
        """The first fault that is told; empty: none."""
        if not self._kept.exists():
            first = self._type("audit verify --json")
            self._kept.write_text(first.stdout)
            return _first_fault(first.stdout) if first.exit_code else ""
        verified = self._type(f"audit verify --json --earlier {self._kept}")
        return _first_fault(verified.stdout) if verified.exit_code else ""


def tried(
    database: Path, verify: Callable[[], str], edits: Iterable[Edit], ids: Mapping[str, str]
) -> Iterator[Tried]:
    """Every edit, each on the database as it is now, which is so again in the end. `verify` tells the first
    fault, and leaves nothing open.

    Raises NotWholeError where there is one before anything is edited."""
    if fault := verify():
        raise NotWholeError(fault)
    whole = database.with_name("whole.db")
    _settle(database)
    shutil.copy(database, whole)
    for edit in edits:
        _tamper(database, edit, ids)
        fault = verify()
        _settle(database)
        shutil.copy(whole, database)
        yield Tried(edit.name, fault)


def _tamper(database: Path, edit: Edit, ids: Mapping[str, str]) -> None:
    with closing(sqlite3.connect(database)) as connection, connection, unguarded_file(connection):
        changed = 0
        for statement in edit.statements:
            changed = connection.execute(statement.format(**ids)).rowcount
        if changed < 1:
            raise ValueError(f"{edit.name}: there is nothing to edit")


def _settle(database: Path) -> None:
    """All of it is in one file: what is beside it would be of another copy."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _first_fault(lines: str) -> str:
    """Of what was printed as JSON, a line a tenant; what is no such line is what went wrong."""
    for line in lines.splitlines():
        told = json.loads(line) if line.startswith("{") else {"faults": [line]}
        if told["faults"]:
            return str(told["faults"][0])
    return "it failed and said nothing"
