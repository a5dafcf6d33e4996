"""Checks the fields of a body: those that a route knows, and no others."""

from typing import Any

from server.http.replies import bad_request

SHOWN_CHARACTERS_MAX = 64


def only_fields(body: dict[str, Any], *known: str) -> dict[str, Any]:
    """The body, where it has no other fields. Raises Refused (bad_request): a client would believe that an
    ignored field has an effect."""
    unknown = next((name for name in body if name not in known), None)
    if unknown is None:
        return body
    named = ascii(unknown[:SHOWN_CHARACTERS_MAX])
    raise bad_request(f"unknown field {named}: this takes {', '.join(known)}")
