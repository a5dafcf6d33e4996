"""One comparison of the books with what they should say, and how sums are compared. Pure, and nothing of the
product is in it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from chaos.books.rows import Row, Rows
from chaos.books.terms import Request

T = TypeVar("T")
DETAILS_KEPT = 20
Fault = tuple[int, str]  # nano too much (below zero: too little), and what


@dataclass
class SumCheck:
    """One comparison. `off`: how many of `compared` differ, by `off_nano` in all, whatever the sign."""

    name: str
    compared: int = 0
    off: int = 0
    off_nano: int = 0
    details: list[str] = field(default_factory=list[str])

    def add(self, faults: Iterable[Fault]) -> None:
        """One more thing that was compared."""
        self.compared += 1
        found = list(faults)
        self.off += bool(found)
        self.off_nano += sum(abs(nano) for nano, _ in found)
        self.details += [what for _, what in found][: max(0, DETAILS_KEPT - len(self.details))]


def key_of(row: Row) -> Request:
    """Whose row it is."""
    return row["tenant_id"], row["request_id"]


def sums_of(name: str, wanted: Mapping[T, int], found: Mapping[T, int]) -> SumCheck:
    check = SumCheck(name)
    for key in sorted(wanted.keys() | found.keys(), key=repr):
        off = found.get(key, 0) - wanted.get(key, 0)
        check.add([(off, f"{key}: {found.get(key, 0)}, expected {wanted.get(key, 0)}")] if off else [])
    return check


def accounts(rows: Rows, prefix: str, sign: int) -> dict[tuple[str, str], int]:
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for entry in rows["ledger_entry"]:
        if entry["account"].startswith(prefix):
            found[entry["tenant_id"], entry["account"].removeprefix(prefix)] += sign * int(
                entry["amount_nano"]
            )
    return {key: nano for key, nano in found.items() if nano}
