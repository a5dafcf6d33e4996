"""Counts of refused requests, by minute, tenant, key, user and code, in a bounded number of rows. Pure.

A flood from ten thousand users takes a few rows: the most refused have a row each, all others of a minute and
code share one. Folding rows never changes the sum of a minute and code.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

MINUTE_MS = 60_000
NAMED_MAX = 20  # rows of a tenant's minute with a key and user of their own
CODES_MAX = 30
IDS_KEPT = 3
OTHERS = "*"  # the key and the user of the row for all others
OTHER_CODE = "other"
EVERYBODY = ""  # the tenant of refusals that are not counted by tenant


class RefusalKey(NamedTuple):
    """Tenant, minute, key, user and code of refused requests."""

    tenant: str
    minute_ms: int
    key: str
    user: str
    code: str

    @property
    def named(self) -> bool:
        """True where it has a key and user of its own; False for the row of all others."""
        return self.key != OTHERS

    def others(self) -> "RefusalKey":
        """Key of the row of all others, for the same minute and code."""
        return self._replace(key=OTHERS, user=OTHERS)


class RefusalCount(msgspec.Struct, frozen=True):
    """Number of refusals. `why`: scope and dimension of the limit that refused the latest, or category and
    action of a safety policy; `ids`: the latest requests, newest last."""

    number: int
    why: str = ""
    ids: tuple[str, ...] = ()


Counts = dict[RefusalKey, RefusalCount]


def add(counts: Counts, of: RefusalKey, more: RefusalCount) -> None:
    """Add a row, or add to its count; `more` is newer than the present count."""
    known = counts.get(of)
    if known is None:
        counts[of] = RefusalCount(more.number, more.why, more.ids[-IDS_KEPT:])
    else:
        ids = (*known.ids, *more.ids)[-IDS_KEPT:]
        counts[of] = RefusalCount(known.number + more.number, more.why or known.why, ids)


def summed(*each: Mapping[RefusalKey, RefusalCount]) -> Counts:
    """Sum several counts, given in order of age, oldest first."""
    counts: Counts = {}
    for one in each:
        for of, more in one.items():
            add(counts, of, more)
    return counts


def bounded(counts: Mapping[RefusalKey, RefusalCount], named_max: int = NAMED_MAX) -> Counts:
    """Fold the counts so that each tenant's minute has `named_max` rows with a key and user, those of most
    refusals, and at most CODES_MAX + 1 rows of others."""
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
    """Fold the counts into at most `rows_max` rows, in steps: fewer with a key and user, none, no tenants,
    one minute, one row."""
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
    """Sum of all counts."""
    return sum(each.number for each in counts.values())
