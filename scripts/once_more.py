"""Runs pytest as CI does: where at most five tests failed, these run once more, one after another.

    .venv/bin/python scripts/once_more.py [options of pytest]

Green the second time is green, and those tests are named. In PARLEY_TEST_RESULTS (ci-results/) stay junit.xml
and the logs of failed tests; of the second run junit-again.xml and logs-again/.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

RERUN_MAX = 5
TESTS_FAILED = 1  # pytest's exit code; any other is of a run that did not come to its end
ONCE_MORE = ("--lf", "--lfnf=none", "-n", "0")


def main(options: Sequence[str]) -> int:
    """The exit code: 0 where what failed passed the second time, else the first run's."""
    results = Path(os.environ.get("PARLEY_TEST_RESULTS") or "ci-results").resolve()
    results.mkdir(parents=True, exist_ok=True)
    (results / "junit-again.xml").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        code = run(results, "", [*options, "-o", f"cache_dir={cache}"])
        failed = last_failed(Path(cache))
        are_tests = all("::" in name for name in failed)  # else a file that cannot be collected
        if code != TESTS_FAILED or not are_tests or not 0 < len(failed) <= RERUN_MAX:
            return code
        print("once more:", *failed, sep="\n  ", flush=True)
        again = run(results, "-again", [*options, "-o", f"cache_dir={cache}", *ONCE_MORE])
        if again or last_failed(Path(cache)):  # what did not run again stays there
            return code
    print("green the second time only:", *failed, sep="\n  ", flush=True)
    return 0


def run(results: Path, which: str, options: Sequence[str]) -> int:
    """pytest's exit code."""
    kept = os.environ | {"PARLEY_TEST_KEEP": str(results / f"logs{which}")}
    junit = f"--junitxml={results / f'junit{which}.xml'}"
    return subprocess.run([sys.executable, "-m", "pytest", *options, junit], env=kept).returncode


def last_failed(cache: Path) -> list[str]:
    """What pytest would run again."""
    listed = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(listed.read_text())) if listed.exists() else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        usage="%(prog)s [options of pytest]",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
        allow_abbrev=False,
    )
    given = parser.parse_known_args()[1]
    try:
        sys.exit(main(given))
    except KeyboardInterrupt:
        sys.exit(130)
