"""Display of audit rows: users by their names, erased ones as erased. Pure.

A row is chained, so its content never changes. Rows from when ids were names contain names: of a user that
`tenant_user` does not know any more, nothing is shown.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from billing.tables.audit import AuditLog

ERASED = "(erased)"
USER = "user"
# Names of a tenant, its projects, cost centers, keys, grants and alert targets, and sites that use its keys.
OF_TENANT = frozenset({"name", "code", "address", "note", "origins"})
OF_KEY = ("name", "origins")  # which often name its user
TAG = re.compile(r"\(erased( [0-9a-f]{8})?\)", re.ASCII)  # display of an erased user
OPAQUE_USER_ID = re.compile(r"u_[0-9a-f]{32}$", re.ASCII)  # an opaque id

Show = Callable[[str], str]


def users_in(row: AuditLog) -> set[str]:
    """The user ids in a row."""
    found = set[str]()

    def note(id: str) -> str:
        found.add(id)
        return id

    _each(row, note)
    return found - {""}


def row_shown(row: AuditLog, names: Mapping[str, str], erased: bool = False) -> AuditLog:
    """The row with these names (by id) in place of ids, and ERASED in place of unknown users. `erased`: its
    tenant is erased, and none of its own names is shown."""
    facts = _each(row, lambda id: names.get(id, id if OPAQUE_USER_ID.match(id) else ERASED) if id else "")
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
        facts = facts | {name: ERASED for name in OF_KEY if facts.get(name)}
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
