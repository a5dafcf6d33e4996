"""How rows of the audit log are shown: users by their names, and those who were erased as that. Pure.

A row is chained, so what it said is never changed. When ids were names, rows said names: of one whom
`tenant_user` does not know any more, nothing is shown.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from billing.tables.audit import AuditLog

ERASED = "(erased)"
USER = "user"
# What a tenant, its projects, cost centres, keys, grants and receivers of alerts are called.
OF_TENANT = frozenset({"name", "code", "address", "note"})
TAG = re.compile(r"\(erased( [0-9a-f]{8})?\)", re.ASCII)  # how who was erased is shown
NOBODYS = re.compile(r"u_[0-9a-f]{32}$", re.ASCII)  # what says nothing of whom it is

Show = Callable[[str], str]


def users_in(row: AuditLog) -> set[str]:
    """The ids of users that stand in a row."""
    found = set[str]()

    def note(id: str) -> str:
        found.add(id)
        return id

    _each(row, note)
    return found - {""}


def row_shown(row: AuditLog, names: Mapping[str, str], erased: bool = False) -> AuditLog:
    """The row with these names (by id) in place of ids, and ERASED in place of whom nobody knows. `erased`:
    its tenant is, and nothing that it was called by is shown."""
    facts = _each(row, lambda id: names.get(id, id if NOBODYS.match(id) else ERASED) if id else "")
    if erased:
        facts |= {side: _text(_unnamed(_facts(facts[side]))) for side in ("before", "after")}
    return row.model_copy(update=facts)


def _unnamed(facts: dict[str, Any] | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {name: ERASED if name in OF_TENANT and value else value for name, value in facts.items()}


def _each(row: AuditLog, show: Show) -> dict[str, str]:
    of_user = row.action.startswith(f"{USER}.")
    values = [_facts(text) for text in (row.before, row.after)]
    named = {facts.get(USER) for facts in values if facts}
    target = show(row.target) if of_user or row.target in named else row.target
    before, after = (_text(_shown(facts, of_user, show)) for facts in values)
    author = show(row.author) if row.source == "api" and row.author in named else row.author
    return {"target": target, "before": before, "after": after, "author": author}


def _shown(facts: dict[str, Any] | None, of_user: bool, show: Show) -> dict[str, Any] | None:
    if facts is None:
        return None
    if "name" in facts and TAG.fullmatch(show(str(facts.get("user_id") or ""))):
        facts = facts | {"name": ERASED}  # of a key, which people call by whose it is
    places = {"user_id", USER, *(("id", "name") if of_user else ())}
    if facts.get("scope") == USER:
        places.add("scope_id")
    return {
        name: show(value) if name in places and isinstance(value, str) else value
        for name, value in facts.items()
    }


def _facts(text: str) -> dict[str, Any] | None:
    return msgspec.json.decode(text, type=dict[str, Any] | None)


def _text(facts: dict[str, Any] | None) -> str:
    return msgspec.json.encode(facts, order="sorted").decode()
