"""Trying mutations: copies of the working tree, one a job, and pytest in them."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from scripts.mutations.entries import Mutation, mutated
from scripts.working_tree import files

LENT = (".venv", "node_modules", ".cache")  # ignored by git, and only read
HANG_SECONDS_MAX = 600
TAIL_CHARACTERS = 2_000
# The same generated examples each time, and nothing of the run itself: no cache, no workers, no other order.
PYTEST = (
    "-m",
    "pytest",
    "-q",
    "-x",
    "--no-header",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    "-p",
    "no:xdist",
)
SEED = "--hypothesis-seed=0"
FAILED, BROKEN_IMPORT = 1, 2
NO_CONFTEST = "ImportError while loading conftest"  # pytest's code is then that of a wrong command line


class Verdict(NamedTuple):
    """What became of one. `error`: it could not be tried, and says why."""

    mutation: Mutation
    noticed: bool
    seconds: float
    error: str = ""


@contextmanager
def copies(root: Path, count: int) -> Generator[list[Path]]:
    """`count` copies of the working tree that share what is installed."""
    names = files(root)
    with tempfile.TemporaryDirectory(prefix="parley-mutations-") as folder:
        made = [Path(folder) / str(number) for number in range(count)]
        for copy in made:
            for name in names:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
            for lent in LENT:
                if (root / lent).exists():
                    (copy / lent).symlink_to(root / lent)
        yield made


def run_tests(copy: Path, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """Pytest's exit code there and the end of what it printed; a run that hangs ends as a failed one."""
    command = [str(copy / ".venv/bin/python"), *PYTEST, SEED, *options, *tests]
    try:
        ended = subprocess.run(
            command, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return FAILED, "hung"
    return ended.returncode, ended.stdout.decode(errors="replace")[-TAIL_CHARACTERS:]


def red_already(copy: Path, mutations: Iterable[Mutation]) -> str:
    """What pytest says where a named test fails with no fault planted; empty: all are green."""
    tests = sorted({test for mutation in mutations for test in mutation.fails})
    code, said = run_tests(copy, tests)
    return "" if code == 0 else said


def tried(copy: Path, mutation: Mutation) -> Verdict:
    """Plant it in the copy, run its tests, take it out again."""
    if not mutation.fails:  # to pytest, no names would be all of them
        return Verdict(mutation, False, 0.0)
    path = copy / mutation.file
    whole = path.read_text()
    began = time.monotonic()
    try:
        path.write_text(mutated(whole, mutation))
        code, said = run_tests(copy, mutation.fails)
    finally:
        path.write_text(whole)
    noticed = code in (FAILED, BROKEN_IMPORT) or NO_CONFTEST in said
    return Verdict(mutation, noticed, time.monotonic() - began, "" if noticed or code == 0 else said)


def all_tried(
    made: Sequence[Path], mutations: Sequence[Mutation], say: Callable[[Verdict], None]
) -> list[Verdict]:
    """Every one, as many at once as there are copies. `say` hears each verdict as it falls."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in made:
        free.put(copy)

    def one(mutation: Mutation) -> Verdict:
        copy = free.get()
        try:
            verdict = tried(copy, mutation)
        finally:
            free.put(copy)
        say(verdict)
        return verdict

    with ThreadPoolExecutor(len(made)) as pool:
        return list(pool.map(one, mutations))
