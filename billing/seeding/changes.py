"""Rows as changes in audit chains: each hashed behind the one before, as billing/audit writes them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from billing.audit.log import next_row
from billing.audit.states import StateChange
from billing.audit.watched import WATCHED_BY_CLASS
from billing.tables.audit import AuditHead, AuditLog, AuditState
from core.actor import Author
from core.sql.database import TableBase

OPERATORS = (Author("Ann", "command"), Author("Ben", "command"), Author("Cleo", "api"))


@dataclass(frozen=True)
class SeededChange:
    """New rows of one chain, made by one call. `what`: the action and its target."""

    at_ms: int
    chain: str
    by: Author
    what: tuple[str, str]
    rows: Sequence[TableBase]


@dataclass
class SeededRows:
    """What is to be written: changes of watched tables, and rows of others."""

    changes: list[SeededChange] = field(default_factory=list[SeededChange])
    others: list[TableBase] = field(default_factory=list[TableBase])

    def change(self, at_ms: int, chain: str, by: Author, what: tuple[str, str], *rows: TableBase) -> None:
        """Note a change."""
        self.changes.append(SeededChange(at_ms, chain, by, what, rows))

    def add(self, more: "SeededRows") -> None:
        """Take the other's in."""
        self.changes += more.changes
        self.others += more.others


def chained_rows(
    changes: Iterable[SeededChange], heads: Mapping[str, AuditHead]
) -> tuple[list[AuditHead], list[AuditLog | AuditState]]:
    """The chains of these changes, by time, behind the heads that there are: their new heads, and rows."""
    ends = {chain: AuditHead(**head.model_dump()) for chain, head in heads.items()}
    rows: list[AuditLog | AuditState] = []
    moved: dict[str, AuditHead] = {}
    for change in sorted(changes, key=attrgetter("at_ms")):
        head = ends.setdefault(change.chain, AuditHead(tenant_id=change.chain, seq=0, sha256=""))
        states = sorted((_state(row) for row in change.rows), key=attrgetter("thing"))
        facts = next((each.state for each in states), None)
        row, stated = next_row(head, change.at_ms, change.by, change.what, (None, facts), states)
        head.seq, head.sha256 = row.seq, row.sha256
        moved[change.chain] = head
        rows += [row, *stated]
    return list(moved.values()), rows


def _state(row: TableBase) -> StateChange:
    watched = WATCHED_BY_CLASS[type(row)]
    return StateChange(watched.thing_of(row), watched.state_of(row), None)
