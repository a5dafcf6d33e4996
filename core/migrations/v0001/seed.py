"""Rows that each installation begins with: version 1 of the default prices, and the platform's first row of
the audit log, which has their states, so that an edit of them is found like any other."""

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

PLATFORM = ""
Row = Mapping[str, Any]

BOOK: Row = {
    "id": "default",
    "tenant_id": PLATFORM,
    "parent_id": None,
    "name": "Default",
    "currency": "usd",
    "created_ms": 0,
}
VERSION: Row = {
    "book_id": "default",
    "version": 1,
    "tenant_id": PLATFORM,
    "valid_from_ms": 0,
    "created_ms": 0,
    "withdrawn_ms": None,
}
# USD per million tokens: 0.10 for input, a quarter of it when cached, 0.40 for output.
PRICE: Row = {
    "book_id": "default",
    "version": 1,
    "model": "*",
    "tenant_id": PLATFORM,
    "input_nano": 100_000_000,
    "cached_input_nano": 25_000_000,
    "output_nano": 400_000_000,
    "request_nano": 0,
}


def add() -> None:
    """Insert the prices, and what the audit log says of them."""
    _insert("price_book", BOOK)
    _insert("price_version", VERSION)
    _insert("price", PRICE)
    named = {**BOOK, "name": "sha256:" + hashlib.sha256(BOOK["name"].encode()).hexdigest()}
    states = {'price_book:["default"]': named, 'price_version:["default",1]': VERSION}
    _record({**states, 'price:["default",1,"*"]': PRICE})


def _record(states: Mapping[str, Row]) -> None:
    """A row of the audit log that covers these states, as billing/audit/log.py writes one."""
    digest = hashlib.sha256()
    for number, (thing, row) in enumerate(states.items()):
        state = msgspec.json.encode(row, order="sorted").decode()
        digest.update(msgspec.msgpack.encode((thing, state, "")))
        place = {"tenant_id": PLATFORM, "thing": thing, "seq": 1, "number": number}
        _insert("audit_state", {**place, "state": state, "was": ""})
    facts: Row = {
        "action": "audit.seal",
        "after": json.dumps({"rows": len(states)}, separators=(",", ":")),
        "at_ms": int(time.time() * 1000),
        "author": "parley",
        "before": "null",
        "previous_sha256": "",
        "seq": 1,
        "source": "migration",
        "target": PLATFORM,
        "tenant_id": PLATFORM,
    }
    covered = (*(facts[name] for name in sorted(facts)), digest.hexdigest())
    sha256 = hashlib.sha256(msgspec.msgpack.encode(covered)).hexdigest()
    _insert("audit_log", {**facts, "states_sha256": digest.hexdigest(), "sha256": sha256})
    _insert("audit_head", {"tenant_id": PLATFORM, "seq": 1, "sha256": sha256})


def _insert(table: str, row: Row) -> None:
    op.bulk_insert(sa.table(table, *(sa.column(name) for name in row)), [dict(row)])
