"""Bounds of what an event says beside amounts: policy, class, trace, safety verdicts and phases. Pure.

A worker writes them, and what is beyond bounds was made up: an honest end keeps within them (`verdicts_of`,
`ended_phases`).
"""

import re
from collections.abc import Mapping

from billing.usage import (
    PHASE_KINDS,
    PHASES_MAX,
    VERDICT_ACTIONS,
    VERDICT_CATEGORIES_MAX,
    VERDICT_CATEGORY,
    VERDICTS_MAX,
    UsageEvent,
)

POLICY = re.compile("[0-9a-f]{64}|", re.ASCII)
PRIORITY = re.compile("[a-z]{0,16}", re.ASCII)
TRACE_ID = re.compile("[0-9a-f]{32}|", re.ASCII)


def beyond_bounds(event: UsageEvent) -> str:
    """Name what an event says beyond bounds; empty where nothing is."""
    for name, pattern in (("policy", POLICY), ("priority", PRIORITY), ("trace_id", TRACE_ID)):
        if not pattern.fullmatch(getattr(event, name)):
            return f"{name} is none"
    if len(event.verdicts) > VERDICT_CATEGORIES_MAX:
        return f"verdicts of {len(event.verdicts)} categories: at most {VERDICT_CATEGORIES_MAX} are booked"
    if len(event.phases) > PHASES_MAX:
        return f"phases: {len(event.phases)}, at most {PHASES_MAX} are booked"
    if not all(kind in PHASE_KINDS for kind, _ in event.phases):
        return "phases are of kinds that there are not"
    good = all(_is_category(*each) for each in event.verdicts.items())
    return "" if good else "verdicts name what is no category or action, or count what no answer has"


def _is_category(name: str, counts: Mapping[str, int]) -> bool:
    known = VERDICT_CATEGORY.fullmatch(name) is not None and counts.keys() <= set(VERDICT_ACTIONS)
    return known and all(0 <= count <= VERDICTS_MAX for count in counts.values())
