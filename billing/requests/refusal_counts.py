"""Counts of refused requests, by minute, tenant, key, user and code, in a bounded number of rows. Pure.

A flood of ten thousand users is a few rows: who was refused most has a row, the others of a minute and code
have one together. However rows are folded, the sum of a minute and code stays what it was.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

MINUTE_MS = 60_000
NAMED_MAX = 20  # rows of a tenant's minute that say whose
CODES_MAX = 30
IDS_KEPT = 3
OTHERS = "*"  # the key and the user of the row for all others
OTHER_CODE = "other"
EVERYBODY = ""  # the tenant of what is counted for no tenant by itself


class RefusalKey(NamedTuple):
    """Who was refused, when, and by which code."""

    tenant: str
    minute_ms: int
    key: str
    user: str
    code: str

    @property
    def named(self) -> bool:
        """Whether it says whose, or is the row of the others."""
        return self.key != OTHERS

    def others(self) -> "RefusalKey":
        """The row of the others, of the same minute and code."""
        return self._replace(key=OTHERS, user=OTHERS)


class RefusalCount(msgspec.Struct, frozen=True):
    """How often; `why`: what the last one met (scope and dimension of a limit); `ids`: the last requests,
    the newest last."""

    number: int
    why: str = ""
    ids: tuple[str, ...] = ()


Counts = dict[RefusalKey, RefusalCount]


def add(counts: Counts, of: RefusalKey, more: RefusalCount) -> None:
    """One row more, or more of one; `more` is newer than what is there."""
    known = counts.get(of)
    if known is None:
        counts[of] = RefusalCount(more.number, more.why, more.ids[-IDS_KEPT:])
    else:
        ids = (*known.ids, *more.ids)[-IDS_KEPT:]
        counts[of] = RefusalCount(known.number + more.number, more.why or known.why, ids)


def summed(*each: Mapping[RefusalKey, RefusalCount]) -> Counts:
    """Several counts as one, the older first."""
    counts: Counts = {}
    for one in each:
        for of, more in one.items():
            add(counts, of, more)
    return counts


def bounded(counts: Mapping[RefusalKey, RefusalCount], named_max: int = NAMED_MAX) -> Counts:
    """The same, where each tenant's minute has `named_max` rows that say whose, those of most refusals, and
    CODES_MAX and one for the others."""
    minutes: dict[tuple[str, int], list[tuple[RefusalKey, RefusalCount]]] = defaultdict(list)
    for of, count in counts.items():
        minutes[of.tenant, of.minute_ms].append((of, count))
    found: Counts = {}
    for rows in minutes.values():
        _minute(rows, named_max, found)
    return found


def _minute(rows: Iterable[tuple[RefusalKey, RefusalCount]], named_max: int, found: Counts) -> None:
    named = sorted((row for row in rows if row[0].named), key=lambda row: (-row[1].number, row[0]))
    found.update(named[:named_max])
    others: Counts = {}
    for of, count in (*(row for row in rows if not row[0].named), *named[named_max:]):
        add(others, of.others(), count)
    codes = sorted(others.items(), key=lambda row: (row[0].code == OTHER_CODE, -row[1].number, row[0]))
    found.update(codes[:CODES_MAX])
    for of, count in codes[CODES_MAX:]:
        add(found, of._replace(code=OTHER_CODE), count)


def summed_to_fit(counts: Mapping[RefusalKey, RefusalCount], rows_max: int) -> Counts:
    """The same in `rows_max` rows at most, in steps: fewer that say whose, then none, then no tenants by
    themselves, then one minute, then one row."""
    found = dict(counts)
    for named_max in (NAMED_MAX, 3, 0):
        if len(found) <= rows_max:
            return found
        found = bounded(found, named_max)
    newest = max((of.minute_ms for of in found), default=0)
    folds: tuple[Callable[[RefusalKey], RefusalKey], ...] = (
        lambda of: of._replace(tenant=EVERYBODY),
        lambda of: of._replace(tenant=EVERYBODY, minute_ms=newest),
        lambda of: of._replace(tenant=EVERYBODY, minute_ms=newest, code=OTHER_CODE),
    )
    for fold in folds:
        if len(found) <= rows_max:
            return found
        folded: Counts = {}
        for of, count in found.items():
            add(folded, fold(of), count)
        found = folded
    return found


def total(counts: Mapping[RefusalKey, RefusalCount]) -> int:
    """All of them."""
    return sum(each.number for each in counts.values())
