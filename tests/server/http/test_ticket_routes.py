"""Which scopes a ticket may ask for, and when it may come with a history pass."""

from typing import Any

import pytest

from billing.api import Principal
from core.errors import Refused
from server.http.ticket_routes import _history, _scopes

KEY = Principal("t1", "p1", "k1", "", frozenset({"chat", "requests:read"}), "bulk", None, False, "k1")


@pytest.mark.parametrize(
    ("named", "found"),
    [(None, {"chat"}), (["requests:read"], {"requests:read"}), (["chat", "requests:read"], set(KEY.scopes))],
)
def test_scopes_are_those_that_are_named(named: Any, found: set[str]):
    """`chat` where none are."""
    assert _scopes(KEY, named) == found


@pytest.mark.parametrize("named", [[], "chat", {}, 7, False, [7], ["chat", 7], [7, "chat"], [None]])
def test_what_is_no_list_of_texts_is_a_bad_request(named: Any):
    """Also where some of it are."""
    with pytest.raises(Refused, match="a list of one or more") as refused:
        _scopes(KEY, named)
    assert refused.value.refusal.code == "bad_request"


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (["chat", "zeta", "alpha"], "no scope 'alpha'"),
        (["x" * 65], f"no scope '{'x' * 64}'$"),
        (["usage:read"], "no ticket has usage:read"),
        (["chat", "usage:read"], "no ticket has usage:read"),
        (["é"], r"no scope '\\xe9'"),
    ],
)
def test_a_scope_that_the_key_has_not_is_forbidden(named: list[str], told: str):
    """The first is named, at most 64 characters of it."""
    with pytest.raises(Refused, match=told) as refused:
        _scopes(KEY, named)
    assert refused.value.refusal.code == "forbidden"


def test_a_history_is_somebodys():
    """True, to read, or "write"; and for a user only."""
    asked = ((True, "u"), ("write", "u"), (False, "u"), (False, ""))
    assert [_history(wanted, user) for wanted, user in asked] == [True, "write", False, False]
    for wanted, user, told in (
        (True, "", "name the user"),
        ("write", "", "name the user"),
        (1, "u", "to read"),
        ("read", "u", "to read"),
        (None, "u", "to read"),
    ):
        with pytest.raises(Refused, match=told):
            _history(wanted, user)
