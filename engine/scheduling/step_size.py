"""Chooses the most tokens that an engine computes in one step: as many as keep a full step short on this
machine.

vLLM fixes it when an engine is made, so one start cannot both measure and use it: an engine starts with what
earlier starts measured, measures its own full steps, and writes that down for the next.
"""

import json
import os
import platform
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from core.observability.telemetry import logger
from engine.scheduling.capacity import FULL_STEP_SECONDS, step_tokens_within

log = logger(__name__)

FILE = "steps.json"
FIRST_ON_CPU, FIRST_ON_GPU = 256, 2048
LEAST, MOST = 64, 8192
MEASUREMENTS_MAX = 2

Measured = Mapping[int, Sequence[float]]
"""Seconds of full prefill steps by their tokens."""


def chosen(measured: Measured, first: int) -> int:
    """The size to start with: `first` where nothing was measured.

    A size counts by its fastest step, since other load only adds to it. Where the largest one took less than
    half of its limit, twice that size comes next, and no more: steps are not linear in their tokens.
    """
    best = {tokens: min(seconds) for tokens, seconds in measured.items() if seconds}
    if not best:
        return first
    largest = max(best)
    if best[largest] <= FULL_STEP_SECONDS / 2:
        return min(MOST, 2 * largest)
    return max(LEAST, step_tokens_within(best.items()) or min(best) // 2)


class StepSizes:
    """Measurements for one model with one engine on one machine, in a file of PARLEY_HOME. Deleting it has
    all measured again."""

    def __init__(self, home: Path, fingerprint: str, first: int) -> None:
        self._path = home / FILE
        self._key = f"{fingerprint} on {platform.node()} with {os.environ.get('OMP_NUM_THREADS', 'all')}"
        self._first = first

    def chosen(self) -> int:
        """The size to start with."""
        return chosen(self._measured(), self._first)

    def known(self, tokens: int) -> bool:
        """True where steps of this size have been measured often enough."""
        return len(self._measured().get(tokens, ())) >= MEASUREMENTS_MAX

    def learn(self, tokens: int, seconds: float) -> None:
        """Add a full step's time. A measurement that cannot be written is made again later."""
        everything = self._read()
        mine = everything.setdefault(self._key, {})
        mine[str(tokens)] = [*mine.get(str(tokens), []), round(seconds, 4)][-MEASUREMENTS_MAX:]
        draft = self._path.with_name(f"{FILE}.{secrets.token_hex(4)}")
        try:
            draft.write_text(json.dumps(everything, indent=1))
            draft.replace(self._path)
        except OSError as error:
            log.warning("worker.step_size_write_failed", error=type(error).__name__)

    def _measured(self) -> dict[int, list[float]]:
        return {int(tokens): seconds for tokens, seconds in self._read().get(self._key, {}).items()}

    def _read(self) -> dict[str, dict[str, list[float]]]:
        """The file's content; nothing where it is missing or no longer what we wrote."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, list[float]]])
        except (OSError, msgspec.MsgspecError):
            return {}
