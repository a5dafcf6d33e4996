"""Runs a `parley` command under a profiler: `python -m chaos.bench.session.profiled KIND FILE gateway`.

Profiles from SIGUSR1 until SIGUSR2, then writes FILE. `cpu` samples the main thread's Python stack every 2 ms
of the process's CPU time; time inside C code counts for the Python line that called it; it costs a few
percent. `memory` traces what was allocated meanwhile and still lives; it makes everything much slower.
"""

import signal
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Protocol

from core.cli import main

SAMPLE_SECONDS = 0.002
LINES = 60
FRAMES_KEPT = 1
HERE = f"{Path.cwd()}/"

Site = tuple[str, str]


class Profiler(Protocol):
    """Starts, stops, and says what it found."""

    def start(self) -> None:
        """From now on."""
        ...

    def stop(self) -> str:
        """Until now; the profile as text."""
        ...


class Sampler:
    """Counts, by function: samples in which it ran itself, and samples in which it was on the stack."""

    def __init__(self) -> None:
        self._samples = 0
        self._own: Counter[Site] = Counter()
        self._total: Counter[Site] = Counter()
        self._lines: Counter[tuple[str, int]] = Counter()

    def start(self) -> None:
        """See Profiler."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    def stop(self) -> str:
        """See Profiler: shares of CPU time by function, by function with what it called, by line."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        parts = [f"{self._samples} samples, one every {SAMPLE_SECONDS * 1000:.0f} ms of CPU time"]
        for title, counts in (("own", self._own), ("with callees", self._total)):
            parts.append(f"\n{title}")
            parts.extend(
                f"{self._share(n)}  {name}  ({file})" for (file, name), n in counts.most_common(LINES)
            )
        parts.append("\nby line")
        parts.extend(
            f"{self._share(n)}  {_short(file)}:{line}" for (file, line), n in self._lines.most_common(LINES)
        )
        return "\n".join(parts) + "\n"

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        self._samples += 1
        if frame is not None:
            self._lines[frame.f_code.co_filename, frame.f_lineno] += 1
            self._own[_site(frame)] += 1
        seen: set[Site] = set()
        while frame is not None:
            seen.add(_site(frame))
            frame = frame.f_back
        self._total.update(seen)

    def _share(self, count: int) -> str:
        return f"{100 * count / max(1, self._samples):5.1f} %"


class Allocations:
    """Sums what was allocated by Python since the start and is not freed."""

    def start(self) -> None:
        """See Profiler."""
        tracemalloc.start(FRAMES_KEPT)

    def stop(self) -> str:
        """See Profiler: bytes and objects by file, then by line."""
        snapshot = tracemalloc.take_snapshot()
        tracemalloc.stop()
        parts: list[str] = []
        for group in ("filename", "lineno"):
            found = snapshot.statistics(group)
            total = sum(each.size for each in found)
            parts.append(f"{total / 1024:,.0f} KiB by {group}")
            for each in found[:LINES]:
                where = each.traceback[0]
                line = f":{where.lineno}" if group == "lineno" else ""
                parts.append(
                    f"{each.size / 1024:10,.0f} KiB {each.count:8} objects  {_short(where.filename)}{line}"
                )
        return "\n".join(parts) + "\n"


def install(profiler: Profiler, path: Path) -> None:
    """Obey the two signals from now on."""

    def start(_number: int, _frame: FrameType | None) -> None:
        profiler.start()

    def stop(_number: int, _frame: FrameType | None) -> None:
        path.write_text(profiler.stop())

    signal.signal(signal.SIGUSR1, start)
    signal.signal(signal.SIGUSR2, stop)


def _site(frame: FrameType) -> Site:
    return _short(frame.f_code.co_filename), frame.f_code.co_qualname


def _short(path: str) -> str:
    """A path from its package on."""
    return path.rpartition("site-packages/")[2].removeprefix(HERE)


if __name__ == "__main__":
    kind, file = sys.argv.pop(1), sys.argv.pop(1)
    kinds = {"cpu": Sampler, "memory": Allocations}
    install(kinds[kind](), Path(file))
    main()
