"""Pace at which one peer is read. Frames above it wait in the socket: nothing is refused, nothing is lost,
and nobody else waits."""

from core.clock import monotonic

SAVED_SECONDS = 5.0
FRAME_BYTES = 4096


class ReadPace:
    """One peer's pace. A large frame counts as several."""

    __slots__ = ("_per_second", "_whole_at")

    def __init__(self, frames_per_second: float) -> None:
        self._per_second = frames_per_second
        self._whole_at = 0.0

    def took(self, frames: int, size: int, now: float | None = None) -> None:
        """Count frames that came in, and their bytes."""
        if self._per_second > 0:
            now = monotonic() if now is None else now
            cost = max(frames, size / FRAME_BYTES)
            self._whole_at = max(now, self._whole_at) + cost / self._per_second

    def behind_seconds(self, now: float | None = None) -> float:
        """Seconds to read nothing, 0 where reading goes on."""
        if self._per_second <= 0:
            return 0.0
        now = monotonic() if now is None else now
        return max(0.0, self._whole_at - now - SAVED_SECONDS)
