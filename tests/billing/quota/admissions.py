"""Requests that want in."""

from billing.quota.types import Admission
from tests.billing.events import PRICES


def an_admission(**changes: object) -> Admission:
    """A request of tenant t1."""
    fields: dict[str, object] = {
        "tenant": "t1",
        "id": "r1",
        "body_hash": "h1",
        "owner_key": "k1",
        "project": "p1",
        "user": "u1",
        "model": "smollm2",
        "pool": "A",
        "fingerprint": "f1",
        "input_tokens": 12,
        "chunk_tokens": 256,
        "deadline_ms": 1_000_000,
        "prices": PRICES,
        "now_ms": 400_000,
    }
    return Admission(**{**fields, **changes})  # type: ignore[arg-type]
