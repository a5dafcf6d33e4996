"""A call of the API is read into its operation's struct; whatever is not known is refused by its name."""

from typing import Any

import pytest

from admin.api.openapi import document
from admin.api.reading import ReadCall, read_call
from billing.api import Terms
from billing.cli.api_calls import call_of
from core.errors import Refused
from core.operations import Operation, registered

NAMES = ("tenants.set", "tenants.list", "tenants.create", "tenants.set_terms", "budgets.set", "safety.try")
SET, LIST, CREATE, TERMS, BUDGET, TRY = (registered()[name] for name in NAMES)
ACME = {"tenant": "acme"}


def read(
    declared: Operation, query: str = "", body: bytes = b"", path: dict[str, str] = ACME, **headers: str
) -> ReadCall:
    """Read a call; of tenants.set one for acme."""
    pairs = [(name, value) for name, _, value in (each.partition("=") for each in query.split("&") if each)]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_call(declared, path if "{tenant}" in declared.path else {}, pairs, body, named)


def test_path_query_and_body_fill_the_struct() -> None:
    """Numbers of a query are text there; of a body they are numbers."""
    call = read(SET, "dry_run=true", b'{"shows_costs": true, "reason": "ticket 7"}', if_match='"17"')
    assert (call.ask.tenant, call.ask.shows_costs) == ("acme", True)  # pyright: ignore[reportAttributeAccessIssue]
    assert call.terms == Terms(reason="ticket 7", dry_run=True, version=17)
    assert read(LIST, "limit=5").ask.limit == 5  # pyright: ignore[reportAttributeAccessIssue]
    assert read(CREATE, "reason=why", b'{"name": "a"}', idempotency_key="k").terms == Terms("why", key="k")


def test_what_belongs_in_no_address_comes_in_the_body() -> None:
    """Of what only reads, too; it has no reason, and is kept under no key."""
    call = read(TRY, "", b'{"text": "my card", "as_prompt": true}')
    assert (call.ask.text, call.ask.as_prompt) == ("my card", True)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(Refused):
        read(TRY, "", b'{"text": "my card"}', idempotency_key="k")
    described = document([TRY, LIST], "1", "cookie")["paths"]
    asked = {each["name"] for each in described["/api/tenants"]["get"]["parameters"]}
    assert asked == {"limit", "after", "name", "state"}
    tried = described["/api/safety/try"]["post"]
    schema = tried["requestBody"]["content"]["application/json"]["schema"]
    assert (tried["parameters"], schema["required"]) == ([], ["text"])
    assert set(schema["properties"]) == {"tenant", "project", "text", "as_prompt", "document"}
    sent = call_of(TRY, call.ask, Terms())
    assert (sent.method, sent.path, sent.query) == ("POST", "/api/safety/try", [])
    assert b"my card" in (sent.body or b"")


@pytest.mark.parametrize(
    ("declared", "call", "field"),
    [
        (LIST, {"query": "limit=0"}, "limit"),
        (LIST, {"query": "limit=many"}, "limit"),
        (LIST, {"query": "limit=5&limit=6"}, "limit"),
        (LIST, {"query": "limt=5"}, "limt"),
        (LIST, {"body": b"{}"}, None),
        (LIST, {"idempotency_key": "k"}, "idempotency-key"),
        (CREATE, {"body": b"{}"}, "name"),
        (CREATE, {"body": b'{"name": 7}'}, "name"),
        (CREATE, {"body": b'{"name": "a", "prce_book": "b"}'}, "prce_book"),
        (CREATE, {"body": b"[]"}, None),
        (CREATE, {"body": b"{"}, None),
        (CREATE, {"body": b"\xff"}, None),
        (CREATE, {"body": b"[" * 100_000}, None),
        (CREATE, {"query": "name=a", "body": b'{"name": "a"}'}, "name"),
        (CREATE, {"query": "dry_run=perhaps", "body": b'{"name": "a"}'}, "dry_run"),
        (CREATE, {"query": "meant_nano=1e9", "body": b'{"name": "a"}'}, "meant_nano"),
        (CREATE, {"query": "reason=" + "x" * 501, "body": b'{"name": "a"}'}, "reason"),
        (CREATE, {"body": b'{"name": "a"}', "idempotency_key": "k" * 201}, "idempotency-key"),
        (CREATE, {"body": b'{"name": "a"}', "idempotency_key": "\u00e9"}, "idempotency-key"),
        (CREATE, {"body": b'{"name": "a"}', "if_match": '"1"'}, "if-match"),
        (SET, {"body": b'{"tenant": "other"}'}, "tenant"),
        (SET, {"body": b'{"priority_max": "first"}'}, "priority_max"),
        (SET, {"if_match": "17"}, "if-match"),
        (SET, {"path": {"tenant": "a\0"}}, "tenant"),
        (LIST, {"query": "after=a\0"}, "after"),
        (CREATE, {"body": b'{"name": "a\\u0000"}'}, "name"),
        (CREATE, {"body": b'{"name": "\\ud800"}'}, None),
        (CREATE, {"body": b'{"name": "a", "reason": "\\u0000"}'}, "reason"),
        (TERMS, {"body": b'{"slots_max": 9223372036854775808}'}, "slots_max"),
        (TERMS, {"body": b'{"weight": 1e999}'}, None),
        (TERMS, {"query": "weight=nan"}, "weight"),
        (BUDGET, {"body": b'{"limit": {"nano": "9999999999999999999"}}'}, "limit"),
        (SET, {"if_match": '"' + "9" * 30 + '"'}, "if-match"),
    ],
)
def test_what_is_wrong_is_named(declared: Operation, call: dict[str, Any], field: str | None) -> None:
    """And nothing else is said: no type of ours, no trace."""
    with pytest.raises(Refused) as refused:
        read(declared, **call)
    assert refused.value.refusal.field == field
    assert "msgspec" not in refused.value.refusal.message


@pytest.mark.parametrize(
    ("declared", "body", "said"),
    [
        (SET, b'{"regex": "maybe"}', "this takes on, off"),
        (CREATE, b'{"name": 7}', "expected text, got a whole number"),
        (CREATE, b"{}", "`name` is missing"),
        (CREATE, b'{"nme": "a"}', "this takes name, price_book, priority_max, reason"),
        (TERMS, b'{"weight": "x"}', "expected a number, got text"),
    ],
)
def test_what_is_wrong_is_said_in_words(declared: Operation, body: bytes, said: str) -> None:
    """With what is taken, and no Python."""
    with pytest.raises(Refused, match=f": {said}$"):
        read(declared, body=body)


def test_what_a_list_takes_is_said_in_words() -> None:
    """Of a query too."""
    with pytest.raises(Refused, match="expected a whole number of at least 1"):
        read(LIST, "limit=0")
