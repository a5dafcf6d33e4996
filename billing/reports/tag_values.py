"""A tag's value in SQL: of the sums by tags, and of lines' requests, as `billing/ledger/tag_rollups.py` says
it. Pure. The SQL holds only keys of plain signs and our own numbers, so that it may stand in a GROUP BY."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import String, literal_column

from billing.ledger.tag_rollups import MORE, NUL, TAG_KEY, VALUE_CHARACTERS_MAX, TagSpan

METADATA = "usage_event.request_metadata"


def value_of_sums(key: str, dialect: str) -> Any:
    """The value of a key in `rollup_tag.tags`; empty: the request has none."""
    return _text(f"coalesce({_member('rollup_tag.tags', key, dialect)}, '')")


def value_of_lines(key: str, spans: Sequence[TagSpan], dialect: str) -> Any:
    """The value of a key in the metadata of a line's request; empty: it has none, or it ended before the key
    was declared, or after it was withdrawn."""
    ended = [
        f"usage_event.ended_ms >= {int(span.since_ms)} AND usage_event.ended_ms < {int(span.until_ms)}"
        for span in spans
        if span.key == key
    ]
    when = " OR ".join(f"({each})" for each in ended) or "1 = 0"
    value, cut = _member(METADATA, key, dialect), VALUE_CHARACTERS_MAX - 1
    shown = (
        f"CASE WHEN length({value}) > {cut + 1} THEN substr({value}, 1, {cut}) || '{MORE}' ELSE {value} END"
    )
    # Each step is looked at only where the one before holds: metadata with a NUL cannot be read at all.
    steps = f"CASE WHEN {_is_text(key, dialect)} THEN {shown} ELSE '' END"
    steps = f"CASE WHEN {_readable(dialect)} THEN {steps} ELSE '' END"
    return _text(f"CASE WHEN {when} THEN {steps} ELSE '' END")


def _text(sql: str) -> Any:
    return literal_column(sql, String)


def _member(json: str, key: str, dialect: str) -> str:
    assert TAG_KEY.fullmatch(key), "a declared key has plain signs only"
    if dialect == "sqlite":
        return f"json_extract({json}, '$.\"{key}\"')"
    return f"(CAST({json} AS json) ->> '{key}')"


def _is_text(key: str, dialect: str) -> str:
    if dialect == "sqlite":
        return f"json_type({METADATA}, '$.\"{key}\"') = 'text'"
    return f"json_typeof({METADATA} -> '{key}') = 'string'"


def _readable(dialect: str) -> str:
    if dialect == "sqlite":
        return f"instr({METADATA}, '{NUL}') = 0"
    return f"position('{NUL}' in CAST({METADATA} AS text)) = 0"
