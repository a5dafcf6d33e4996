"""Fails where docs/complaints.md names a test that does not exist, or names too few.

A complaint is a heading `### N. …`. It names tests in backticks: `tests/….py::name`,
`tests/….py::Class::name`, `tests/conformance/….yaml: name of the case`. One that names none says
`Not covered:` and why.
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path

COMPLAINTS = 35
TESTED_MIN = 25
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "complaints.md"
HEADING = re.compile(r"^### (\d+)\. .+$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[^`]+)`")
CASE = re.compile(r"^ *- name: (.+?) *$", re.MULTILINE)
DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def main() -> int:
    """1 where anything is wrong, after naming all of it."""
    problems, tested = problems_of(PAGE.read_text())
    print("\n".join(problems) or f"{tested} of {COMPLAINTS} complaints are ruled out by tests that exist")
    return 1 if problems else 0


def problems_of(page: str) -> tuple[list[str], int]:
    """What is wrong with the page, and how many complaints name a test."""
    parts = HEADING.split(page)
    sections = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    numbers = [int(number) for number in parts[1::2]]
    problems = [] if numbers == list(range(1, COMPLAINTS + 1)) else [f"complaints are numbered {numbers}"]
    tested = 0
    for number, text in sections.items():
        named = [" ".join(each.split()) for each in NAMED.findall(text)]
        tested += bool(named)
        if not named and "Not covered:" not in text:
            problems.append(f"{number}: no test, and no reason why")
        problems += [f"{number}: {name} does not exist" for name in named if not exists(name)]
    if tested < TESTED_MIN:
        problems.append(f"{tested} complaints name a test, {TESTED_MIN} must")
    return problems, tested


def exists(name: str) -> bool:
    """Whether a test is there."""
    file, found, rest = name.partition(".py::")
    if found:
        return tuple(rest.split("::")) in python_tests(ROOT / f"{file}.py")
    file, found, case = name.partition(".yaml: ")
    return bool(found) and case in conformance_cases(ROOT / f"{file}.yaml")


@cache
def python_tests(path: Path) -> frozenset[tuple[str, ...]]:
    """The tests of a file: functions, classes, their methods, and classes made by assignment."""
    if not path.is_file():
        return frozenset()
    names: set[tuple[str, ...]] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, DEFINED):
            names.add((node.name,))
        if isinstance(node, ast.ClassDef):
            names.update((node.name, each.name) for each in node.body if isinstance(each, DEFINED))
        if isinstance(node, ast.Assign):
            names.update((each.id,) for each in node.targets if isinstance(each, ast.Name))
    return frozenset(name for name in names if name[-1].lower().startswith("test"))


@cache
def conformance_cases(path: Path) -> frozenset[str]:
    """The names of a file's cases."""
    if not path.is_file():
        return frozenset()
    return frozenset(name.strip("\"'") for name in CASE.findall(path.read_text()))


if __name__ == "__main__":
    sys.exit(main())
