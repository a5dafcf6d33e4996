"""Runs the whole suite again and again, or several at once, and says of each what it took.

    .venv/bin/python -m scripts.whole_runs --times 5
    .venv/bin/python -m scripts.whole_runs --at-once 3 --busy 2 -- -m "not long and not vllm"
    .venv/bin/python -m scripts.whole_runs --at-once 2 --busy 2

Each run has an order and examples of its own, and nothing is run once more: one test that fails makes the
whole red. Runs at once have a copy of the tree each. What stands behind `--` are options of pytest.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET  # what pytest wrote itself
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from scripts.mutations.trials import copies
from scripts.suite_run import run_pytest
from scripts.working_tree import commit

ROOT = Path(__file__).parent.parent
EVERY_DAY = ("-m", "not long")
LOOK_SECONDS = 1.0
MIB = 2**20
BUSY = "while True: pass"


class WholeRun(NamedTuple):
    """What one run took. `failed`: the tests by name; `code`: pytest's."""

    seed: int
    code: int
    tests: int
    failed: list[str]
    wall_seconds: float
    cpu_seconds: float

    @property
    def shown(self) -> str:
        """In one line."""
        verdict = "green" if not self.code else f"RED   {' '.join(self.failed) or f'exit code {self.code}'}"
        wall = f"{int(self.wall_seconds // 60)}:{self.wall_seconds % 60:02.0f}"
        return f"{self.seed:>6} {self.tests:>7,} {wall:>7} {self.cpu_seconds:>8,.0f} s  {verdict}"


def main(given: Sequence[str]) -> int:
    """1 where a run was red."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=1, help="one after another")
    parser.add_argument("--at-once", type=int, default=1, help="beside each other")
    parser.add_argument("--busy", type=int, default=0, help="loops beside them that only take CPU time")
    parser.add_argument("--seed", type=int, default=int(commit(ROOT)[:4] or "0", 16), help="of the first run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("options", nargs="*", help="of pytest")
    asked = parser.parse_args(given)
    options = asked.options or list(EVERY_DAY)
    ran: list[WholeRun] = []
    with ExitStack() as stack:
        stack.enter_context(busy(asked.busy))
        memory = stack.enter_context(watched_memory())
        places = [ROOT] if asked.at_once == 1 else stack.enter_context(copies(ROOT, asked.at_once))
        beside = f"{asked.at_once} at once, {asked.busy} busy loops"
        print(f"commit {commit(ROOT)[:12]}, {os.cpu_count()} cores, {beside}")
        print(f"{'seed':>6} {'tests':>7} {'wall':>7} {'CPU':>10}", flush=True)
        for number in range(asked.times):
            seeds = range(asked.seed + number * len(places), asked.seed + (number + 1) * len(places))
            with ThreadPoolExecutor(len(places)) as pool:
                for run in pool.map(one, places, seeds, [options] * len(places)):
                    print(run.shown, flush=True)
                    ran.append(run)
    red = sum(bool(run.code) for run in ran)
    if asked.json:
        print(json.dumps({"runs": [run._asdict() for run in ran], "memory_mib_max": memory.most_mib}))
    print(
        f"{len(ran) - red} of {len(ran)} green; at most {memory.most_mib:,.0f} MiB of memory more than before"
    )
    return min(red, 1)


def one(place: Path, seed: int, options: Sequence[str]) -> WholeRun:
    """The suite once, in this tree."""
    seeds = (f"--hypothesis-seed={seed}", f"--randomly-seed={seed}")
    with tempfile.TemporaryDirectory(prefix="parley-whole-") as folder:
        results = Path(folder)
        began = time.monotonic()
        with (results / "output").open("wb") as output:
            given = ("-q", "-n", "auto", *seeds, *options)
            code, failed = run_pytest(results, "junit.xml", given, place, output)
        wall = time.monotonic() - began
        if code:
            sys.stderr.buffer.write((results / "output").read_bytes()[-20_000:])
        minutes, junit = results / "minutes.json", results / "junit.xml"
        files = json.loads(minutes.read_text())["files"] if minutes.exists() else {}
        suites = ET.parse(junit).getroot() if junit.exists() else ()
        tests = sum(int(suite.get("tests", "0")) for suite in suites)
        return WholeRun(seed, code, tests, sorted(failed), wall, sum(file["cpu"] for file in files.values()))


class Memory:
    """The most that was taken since it began."""

    def __init__(self) -> None:
        self._before = psutil.virtual_memory().available
        self.most_mib = 0.0

    def look(self) -> None:
        """Now."""
        taken = (self._before - psutil.virtual_memory().available) / MIB
        self.most_mib = max(self.most_mib, taken)


@contextmanager
def watched_memory() -> Generator[Memory]:
    """Looked at each second, in a thread."""
    memory, over = Memory(), threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            memory.look()

    watching = threading.Thread(target=watch, name="memory")
    watching.start()
    try:
        yield memory
    finally:
        over.set()
        watching.join()


@contextmanager
def busy(count: int) -> Generator[None]:
    """So many processes that take all the CPU time they get."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
