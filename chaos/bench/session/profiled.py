"""Runs a `parley` command under a sampling profiler: `python -m chaos.bench.session.profiled FILE gateway`.

Samples the main thread's Python stack every 2 ms of the process's CPU time, from SIGUSR1 until SIGUSR2, then
writes FILE. Time inside C code counts for the Python line that called it. Costs a few percent while it runs.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from core.cli import main

SAMPLE_SECONDS = 0.002
LINES = 60

Site = tuple[str, str]


class Sampler:
    """Counts, by function: samples in which it ran itself, and samples in which it was on the stack."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._samples = 0
        self._own: Counter[Site] = Counter()
        self._total: Counter[Site] = Counter()
        self._lines: Counter[tuple[str, int]] = Counter()

    def install(self) -> None:
        """Obey the two signals from now on."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.signal(signal.SIGUSR1, self._start)
        signal.signal(signal.SIGUSR2, self._stop)

    def _start(self, _number: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        draft = self._path.with_suffix(".draft")
        draft.write_text(self.report())
        draft.rename(self._path)

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

    def report(self) -> str:
        """Shares of CPU time: by function itself, by function with what it called, by line."""
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

    def _share(self, count: int) -> str:
        return f"{100 * count / max(1, self._samples):5.1f} %"


def _site(frame: FrameType) -> Site:
    return _short(frame.f_code.co_filename), frame.f_code.co_qualname


def _short(path: str) -> str:
    """A path from its package on."""
    return path.rpartition("site-packages/")[2].removeprefix(str(Path.cwd()) + "/")


if __name__ == "__main__":
    Sampler(Path(sys.argv.pop(1))).install()
    main()
