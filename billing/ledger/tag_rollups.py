"""Tags: keys of requests' metadata by which a tenant's cost may be told apart, once an admin declared them.
Pure. The sums of lines by tags are kept apart from those by hour, and hold tagged requests alone.

`billing/reports/tag_values.py` says the same in SQL.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from billing.ledger.rows import RollupRow, TagRollupRow
from billing.ledger.transactions import AnyLine, AnyRequest, rollups

TAG_KEY = re.compile(r"[A-Za-z0-9_.\-]{1,64}", re.ASCII)
VALUE_CHARACTERS_MAX = 64
MORE = "…"  # the end of a value that was longer
NUL = "\\u0000"  # as JSON has it; a database cannot read the metadata that holds it


class TagSpan(NamedTuple):
    """A declared key, and the requests that it counts for: those that ended from `since_ms` on, before
    `until_ms`."""

    key: str
    since_ms: int
    until_ms: int


def tags_of(metadata: Mapping[str, Any], ended_ms: int, spans: Iterable[TagSpan]) -> dict[str, str]:
    """The declared tags of a request's metadata, in the order of keys. Only a text is a value; a long one is
    cut. Pure."""
    found: dict[str, str] = {}
    for span in sorted(spans):
        value = metadata.get(span.key)
        if isinstance(value, str) and value and span.since_ms <= ended_ms < span.until_ms:
            cut = value[: VALUE_CHARACTERS_MAX - 1] + MORE
            found[span.key] = value if len(value) <= VALUE_CHARACTERS_MAX else cut
    return {} if found and NUL in json.dumps(metadata) else found


def tag_rollups(
    requests: Sequence[AnyRequest], lines: Sequence[AnyLine], spans: Sequence[TagSpan]
) -> list[TagRollupRow]:
    """Sums of the lines of tagged requests, by hour, payer and tags, to be added to existing ones."""
    by_request = {
        row.request_id: json.dumps(tags)
        for row in requests
        if (tags := tags_of(getattr(row, "request_metadata", {}), getattr(row, "ended_ms", 0), spans))
    }
    by_tags: dict[str, list[AnyLine]] = {}
    for line in lines:
        if line.request_id in by_request:
            by_tags.setdefault(by_request[line.request_id], []).append(line)
    rows = {row.request_id: row for row in requests}
    return [
        _tagged(sums, tags)
        for tags, tagged in by_tags.items()
        for sums in rollups([rows[line.request_id] for line in tagged], tagged)
    ]


def _tagged(sums: RollupRow, tags: str) -> TagRollupRow:
    return TagRollupRow(
        sums.tenant_id,
        sums.hour_ms,
        sums.project_id,
        sums.cost_center_id,
        sums.user_id,
        sums.key_id,
        sums.model,
        sums.pool,
        tags,
        sums.amount_nano,
    )
