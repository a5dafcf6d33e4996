"""Which test reaches which line, in `.cache/reached.json`: measured by a run of the suite under coverage."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import coverage

from scripts.working_tree import files

PACKAGES = ("core", "billing", "engine", "server", "admin", "clients")
KEPT = ".cache/reached.json"
PLUGIN = "scripts.mutations.witness"
TESTS_TRIED_MAX = 150
ANY_LINE = 0  # where a Lua script's tests stand


Lines = dict[str, dict[int, list[str]]]  # node ids by file and line


class Reached(NamedTuple):
    """`lines`: file -> line -> places in `tests`. `counted`: how many lines of a file each test reaches;
    `breadth`: of all."""

    tests: list[str]
    lines: dict[str, dict[int, list[int]]]
    counted: dict[str, Counter[int]]
    breadth: Counter[int]

    def tests_of(self, file: str, line: int) -> tuple[str, ...]:
        """Those that reach the line, at most TESTS_TRIED_MAX. None where no test is known to: it runs as the
        file is imported, or in a process that was killed."""
        lines = self.lines.get(file, {})
        return self._of_file(file, set(lines.get(line, lines.get(ANY_LINE, []))))[:TESTS_TRIED_MAX]

    def tests_of_files(self, files: Iterable[str]) -> tuple[str, ...]:
        """Of those that reach anything in these files, at most TESTS_TRIED_MAX."""
        found = [self._of_file(file, set(self.counted.get(file, ()))) for file in files]
        in_turn = (test for tests in zip_longest(*found) for test in tests if test)
        return tuple(dict.fromkeys(in_turn))[:TESTS_TRIED_MAX]

    def _of_file(self, file: str, places: set[int]) -> tuple[str, ...]:
        """Named; first those of a file named after it, then those for which it is most of what they reach."""
        counted, own = self.counted.get(file, Counter()), f"test_{Path(file).stem}"
        ordered = sorted(
            places,
            key=lambda place: (own not in self.tests[place], -counted[place] / self.breadth[place], place),
        )
        return tuple(self.tests[place] for place in ordered)


def from_lines(lines: Lines) -> Reached:
    """From node ids a line. Pure."""
    tests = sorted({test for of_file in lines.values() for found in of_file.values() for test in found})
    places = {test: place for place, test in enumerate(tests)}
    numbered = {
        file: {line: [places[test] for test in found] for line, found in of_file.items()}
        for file, of_file in lines.items()
    }
    return _indexed(tests, numbered)


def load(root: Path) -> Reached | None:
    """What was measured last; None: nothing was."""
    if not (root / KEPT).is_file():
        return None
    kept: dict[str, Any] = json.loads((root / KEPT).read_text())
    lines = {file: {int(line): found for line, found in each.items()} for file, each in kept["lines"].items()}
    return _indexed(kept["tests"], lines)


def measure(root: Path, tests: Sequence[str]) -> int:
    """Run them under coverage, keep what reaches what, print coverage by package; pytest's exit code."""
    with tempfile.TemporaryDirectory(prefix="parley-reached-") as folder:
        scripts = Path(folder) / "scripts"
        scripts.mkdir()
        named = {"PARLEY_TEST_COVERAGE": f"{folder}/coverage", "PARLEY_TEST_SCRIPTS": str(scripts)}
        command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-q", *tests]
        code = subprocess.run(command, cwd=root, env=os.environ | named).returncode
        lines, executable = read(root, Path(folder))
        for ran in scripts.iterdir():
            for file, nodes in json.loads(ran.read_text()).items():
                found = lines.setdefault(os.path.relpath(file, root), {}).setdefault(ANY_LINE, [])
                found += [node for node in nodes if node]
        shutil.rmtree(scripts)
    known = from_lines(lines)
    (root / KEPT).parent.mkdir(exist_ok=True)
    (root / KEPT).write_text(json.dumps({"tests": known.tests, "lines": known.lines}))
    for line in by_package(executable, lines):
        print(line)
    return code


def by_package(executable: dict[str, set[int]], lines: Lines) -> Iterator[str]:
    """Coverage by product line, a row a package. Pure."""
    yield f"{'package':10} {'lines':>7} {'reached':>8}"
    total = reached = 0
    for package in PACKAGES:
        files = [file for file in executable if file.startswith(f"{package}/")]
        count = sum(len(executable[file]) for file in files)
        met = sum(len(executable[file] & lines.get(file, {}).keys()) for file in files)
        total, reached = total + count, reached + met
        yield f"{package:10} {count:7,} {met / max(count, 1):8.1%}"
    yield f"{'all':10} {total:7,} {reached / max(total, 1):8.1%}"


def read(root: Path, folder: Path) -> tuple[Lines, dict[str, set[int]]]:
    """Node ids by file and line, and the lines that can be executed; `folder`: what coverage wrote, which
    names files from the root on."""
    whole = coverage.Coverage(data_file=str(folder / "coverage"), config_file=False)
    whole.combine([str(folder)], keep=False)
    data = whole.get_data()
    lines: Lines = {}
    executable: dict[str, set[int]] = {}
    for file in files(root):
        if not file.endswith(".py") or file.split("/")[0] not in PACKAGES:
            continue
        executable[file] = set(whole.analysis2(str(root / file))[1])
        lines[file] = {
            # A line of no test's (an import, a definition) is reached, by nothing that would notice.
            line: [context for context in contexts if context]
            for line, contexts in data.contexts_by_lineno(file).items()
        }
    return lines, executable


def _indexed(tests: list[str], lines: dict[str, dict[int, list[int]]]) -> Reached:
    counted = {file: Counter(chain.from_iterable(each.values())) for file, each in lines.items()}
    breadth: Counter[int] = Counter()
    for of_file in counted.values():
        breadth.update(of_file)
    return Reached(tests, lines, counted, breadth)
