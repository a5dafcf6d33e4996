"""Phases of a request's life as its record has them: `queued:3 claimed:512`. Pure.

`engine/queue/lua/prelude/phases.lua` writes them."""

import re
from collections.abc import Sequence

from billing.usage import PHASE_KINDS, PHASES_MAX, Phase, PhaseKind

_PHASE = re.compile(r"([a-z]+):([0-9]{1,15})", re.ASCII)


def read_phases(text: str) -> list[Phase]:
    """Parse them; what is none is left out, as a worker may have written it."""
    found = [(kind, int(ms)) for kind, ms in _PHASE.findall(text[:1024])]
    return [phase for phase in found if phase[0] in PHASE_KINDS][:PHASES_MAX]


class KnownPhases:
    """The phases of a request as its owner knows them: those before its claim, and its own."""

    def __init__(self, before: Sequence[Phase], accepted_ms: int) -> None:
        self.all = list(before)
        self._accepted_ms = accepted_ms

    def begin(self, kind: PhaseKind, now_ms: int) -> None:
        """Note that a phase begins; once there are as many as may be, only the end is still to come."""
        if len(self.all) < PHASES_MAX:
            self.all.append((kind.value, now_ms - self._accepted_ms))
