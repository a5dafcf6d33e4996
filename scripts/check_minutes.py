"""Holds what the tests cost to their budgets: CPU seconds by file, in tests/minutes.json.

    make test && make minutes               the last run is within its budgets
    make minutes ARGS=--renew               the last run's figures are the budgets
    make minutes ARGS="FILE [--renew]"      of another run, as pytest wrote it

A run may have been of some files only: the others keep their budgets. A line in parentheses is what
several files share. More than CPU_SECONDS_MAX in all is refused: make something cheaper, or move it to the
long form.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "tests" / "minutes.json"
TOLD = ROOT / ".cache" / "minutes.json"
# The aim is 800. One hour apart the same tests took 943 and 1,093: whoever makes the sum smaller lowers this.
CPU_SECONDS_MAX = 1_200.0
OVER = 1.5  # a machine beside others counts more for the same work
SLACK_SECONDS = 3.0
REMEDY = "make it cheaper; if it must cost that: `make minutes ARGS=--renew`, and commit tests/minutes.json"

Lines = dict[str, dict[str, float]]


def faults(budgets: Lines, told: Lines) -> Iterator[str]:
    """What is over its budget, a line each."""
    for name, each in told.items():
        budget = budgets.get(name, {"cpu": 0.0})["cpu"]
        allowed = budget * OVER + SLACK_SECONDS
        if each["cpu"] > allowed:
            yield f"{name}: {each['cpu']:.1f} CPU seconds, {allowed:.1f} at most (its budget is {budget:.1f})"
    if total(told) > CPU_SECONDS_MAX:
        yield f"all: {total(told):.0f} CPU seconds, {CPU_SECONDS_MAX:.0f} at most"


def total(lines: Lines) -> float:
    """CPU seconds of all lines."""
    return sum(each["cpu"] for each in lines.values())


def renewed(budgets: Lines, told: Lines, exists: set[str]) -> Lines:
    """The budgets with the figures of a run. Files that are gone have none. Raises ValueError where the sum
    would rise and be over the limit."""
    merged = {name: each for name, each in budgets.items() if name.startswith("(") or name in exists} | told
    if total(merged) > max(CPU_SECONDS_MAX, total(budgets)):
        raise ValueError(
            f"{total(merged):.0f} CPU seconds in all, {CPU_SECONDS_MAX:.0f} at most: make something cheaper, "
            "or move it to the long form"
        )
    return dict(sorted(merged.items()))


def main(told: Path, renew: bool) -> None:
    """Check, or renew."""
    if not told.exists():
        sys.exit(f"there are no figures of a run in {told}: make test")
    run: dict[str, Any] = json.loads(told.read_text())
    if run["long"]:
        sys.exit("that run was of the long form, which has no budget: make test")
    budgets: Lines = json.loads(BUDGETS.read_text())["files"] if BUDGETS.exists() else {}
    if renew:
        _renew(budgets, run["files"])
        return
    found = list(faults(budgets, run["files"]))
    if found:
        sys.exit("\n".join([*found, REMEDY]))
    print(f"minutes: {total(run['files']):.0f} CPU seconds of {CPU_SECONDS_MAX:.0f}, each file in its budget")


def _renew(budgets: Lines, told: Lines) -> None:
    exists = {str(each.relative_to(ROOT)) for each in ROOT.glob("tests/**/test_*.py")}
    try:
        lines = renewed(budgets, told, exists)
    except ValueError as error:
        sys.exit(str(error))
    body = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in lines.items())
    BUDGETS.write_text(f'{{"files": {{\n{body}\n}}}}\n')
    print(f"{BUDGETS.relative_to(ROOT)}: {total(lines):.0f} CPU seconds of {CPU_SECONDS_MAX:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "file", nargs="?", type=Path, default=TOLD, help="the run's figures; by default the last's"
    )
    parser.add_argument("--renew", action="store_true", help="make them the budgets")
    given = parser.parse_args()
    main(given.file, given.renew)
