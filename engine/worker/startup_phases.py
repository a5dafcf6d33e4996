"""Durations of a worker's start, by phase, for its log."""

import time

import psutil

from core.observability.telemetry import logger

log = logger(__name__)


class StartupPhases:
    """Milliseconds of each phase, in order. The first begins with the process itself."""

    def __init__(self) -> None:
        self._at = self._began = psutil.Process().create_time()
        self._ms: dict[str, int] = {}

    def ended(self, name: str, inner: dict[str, float] | None = None) -> None:
        """End the current phase. `inner`: seconds of its named parts, which are logged apart."""
        now = time.time()
        parts = {f"{part}_ms": round(seconds * 1000) for part, seconds in (inner or {}).items()}
        took = round((now - self._at) * 1000) - sum(parts.values())
        self._ms |= {f"{name}_ms": max(0, took), **parts}
        self._at = now

    def log(self, worker: str, model: str, kv_tokens: int, step_tokens: int) -> None:
        """Log one line, when the worker is about to claim."""
        total = round((self._at - self._began) * 1000)
        facts = {"model": model, "kv_tokens": kv_tokens, "step_tokens": step_tokens}
        log.info("worker.started", worker=worker, **facts, **self._ms, total_ms=total)
