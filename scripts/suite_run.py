"""Runs the tests as CI does: `.venv/bin/python scripts/suite_run.py [options of pytest]`.

Where few fail, they run once more, alone. Green then is green, and is recorded as flaky: the test, the
commit, for how long its process had been paused, and its error. The next run of another commit fails for
what stands in that record until a commit's body says `Flaky: NAME-OF-THE-TEST` and what was mended or why it
is none.
What is green alone and red again among its file's tests, in the order of the run, depends on that order: it
is named and stays red.

PARLEY_TEST_RECORD: where the record is kept between runs (~/.local/state/parley/flaky.json).
PARLEY_TEST_RESULTS: a folder for junit.xml, what failed and the logs of failed tests (ci-results/).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from scripts.working_tree import GitError, git
from scripts.working_tree import commit as checked_out

ROOT = Path(__file__).parent.parent
RERUN_MAX = 5
TESTS_FAILED = 1
SEEDS = ("--hypothesis-seed", "--randomly-seed")
MENDED = re.compile(r"^Flaky: *(\S+)", re.MULTILINE)
COMMITS_READ = 500


class Flake(NamedTuple):
    """A test that failed and then did not."""

    test: str
    commit: str
    paused_seconds: float
    said: str = ""

    @property
    def shown(self) -> str:
        """In one line."""
        seconds = self.paused_seconds
        paused = f"its process did not run for {seconds} s" if seconds else "no pause seen"
        return f"{self.test} ({paused}; {self.commit[:12]}{self.said and f'; {self.said}'})"


def still_open(flakes: Sequence[Flake], bodies: Sequence[tuple[str, str]], commit: str) -> list[Flake]:
    """Those of other commits that no body of (commit, body), newest first, names since. Pure."""
    found: list[Flake] = []
    for flake in flakes:
        since = [each for each, _ in bodies]
        newer = bodies[: since.index(flake.commit)] if flake.commit in since else bodies
        named = {name for _, body in newer for name in MENDED.findall(body)}
        if flake.commit != commit and not any(_names(name, flake.test) for name in named):
            found.append(flake)
    return found


def _names(name: str, test: str) -> bool:
    plain = test.partition("[")[0]
    return name in (test, plain, plain.rpartition("::")[2])


def rerun_wanted(code: int, failed: Collection[str]) -> bool:
    """Whether so few tests failed that once more tells something. Pure."""
    return code == TESTS_FAILED and 0 < len(failed) <= RERUN_MAX


def main(given: Sequence[str]) -> int:
    """The run's exit code."""
    results = Path(os.environ.get("PARLEY_TEST_RESULTS") or ROOT / "ci-results")
    results.mkdir(parents=True, exist_ok=True)
    record = _record_path()
    commit = checked_out(ROOT)
    before = still_open(_recorded(record), _bodies(), commit)
    options = seeded(given, commit)
    code, failed = run_pytest(results, "junit.xml", options)
    flakes: list[Flake] = []
    if rerun_wanted(code, failed):
        code, flaky = _again(results, options, failed, code)
        flakes = [Flake(test, commit, *failed[test]) for test in flaky]
    record.write_text(json.dumps([each._asdict() for each in [*before, *flakes]], indent=1))
    for flake in flakes:
        print(f"FLAKY {flake.shown}: green the second time. The next commit mends it")
    for flake in before:
        print(f"FLAKY BEFORE {flake.shown}: not mended; say `Flaky: {flake.test}` in the commit that does")
    return code or (TESTS_FAILED if before else 0)


def _again(
    results: Path, options: Sequence[str], failed: Collection[str], code: int
) -> tuple[int, list[str]]:
    """The exit code after one more chance, and which tests were flaky."""
    seeds = [option for option in options if option.startswith(SEEDS)]
    print(f"once more, alone: {' '.join(failed)}", flush=True)
    if run_pytest(results, "junit-again.xml", ["-n", "0", *seeds, *failed])[0] != 0:
        return code, []
    print("once more, among their files' tests", flush=True)
    ended, red = run_pytest(results, "junit-order.xml", in_file_order(options, failed))
    for test in sorted(red):
        print(f"ORDER {test}: green alone, red after others of its file ({' '.join(seeds)})")
    _put_green_costs(results)
    return TESTS_FAILED if red else ended, [test for test in failed if test not in red]


def _put_green_costs(results: Path) -> None:
    whole, again = results / "minutes.json", results / "minutes-order.json"
    if whole.exists() and again.exists():
        told, costs = json.loads(whole.read_text()), json.loads(again.read_text())["files"]
        whole.write_text(json.dumps(told | {"files": with_green_costs(told["files"], costs)}))


def with_green_costs(files: Mapping[str, Any], again: Mapping[str, Any]) -> dict[str, Any]:
    """What each file cost, of those that ran again what they cost then: a test that fails waits for long in
    vain, and no budget is for that. Pure."""
    return {name: cost if name.startswith("(") else again.get(name, cost) for name, cost in files.items()}


def seeded(options: Sequence[str], commit: str) -> list[str]:
    """Options that name the order of tests: one of the commit's, unless one is given. Pure."""
    if any(option.startswith("--randomly-seed") for option in options):
        return list(options)
    return [*options, f"--randomly-seed={int(commit[:12] or '0', 16)}"]


def in_file_order(options: Sequence[str], failed: Collection[str]) -> list[str]:
    """The options that run the files of these tests as the whole run did, on one worker. Pure."""
    pairs = zip(["", *options], options, strict=False)
    kept = [option for before, option in pairs if "-n" not in (before, option)]
    return [*kept, "-n", "0", *sorted({test.partition("::")[0] for test in failed})]


def run_pytest(
    results: Path,
    junit: str,
    options: Sequence[str],
    root: Path | None = None,
    output: IO[bytes] | None = None,
) -> tuple[int, dict[str, tuple[float, str]]]:
    """Its exit code, and what failed with the seconds of its pauses and its error. `root`: another tree than
    this, whose tests run in its own environment; `output`: where it prints, if not here. Minutes stand beside
    `junit`."""
    with tempfile.TemporaryDirectory() as folder:
        failures = Path(folder) / "failures.json"
        minutes = results / junit.replace("junit", "minutes").replace("xml", "json")
        wanted = {
            "PARLEY_TEST_FAILURES": str(failures),
            "PARLEY_TEST_KEEP": str(results / "logs"),
            "PARLEY_TEST_MINUTES": str(minutes),
        }
        python = str(root / ".venv/bin/python") if root else sys.executable
        command = [python, "-m", "pytest", f"--junitxml={results / junit}", *options]
        errors = None if output is None else subprocess.STDOUT
        where = root or ROOT
        ran = subprocess.run(command, cwd=where, env=os.environ | wanted, stdout=output, stderr=errors)
        return ran.returncode, _failures(failures) if failures.exists() else {}


def _failures(path: Path) -> dict[str, tuple[float, str]]:
    return {test: (seconds, said) for test, (seconds, said) in json.loads(path.read_text()).items()}


def _record_path() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    path = Path(os.environ.get("PARLEY_TEST_RECORD") or f"{state}/parley/flaky.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _recorded(path: Path) -> list[Flake]:
    return [Flake(**each) for each in json.loads(path.read_text())] if path.exists() else []


def _bodies() -> list[tuple[str, str]]:
    try:
        log = git(ROOT, "log", f"-{COMMITS_READ}", "--format=%H%x1f%B%x1e")
    except GitError:
        return []
    return [
        (commit, body) for commit, _, body in (each.strip().partition("\x1f") for each in log.split("\x1e"))
    ]


def handed_on(given: Sequence[str]) -> list[str]:
    """The options of pytest: all, but where help is asked for."""
    parser = argparse.ArgumentParser(
        usage="%(prog)s [options of pytest]",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
        allow_abbrev=False,
    )
    return parser.parse_known_args(given)[1]


if __name__ == "__main__":
    raise SystemExit(main(handed_on(sys.argv[1:])))
