"""Fixtures of this room."""

from tests.billing.people.a_person import peopled

__all__ = ["peopled"]
