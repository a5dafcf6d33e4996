"""Fails where a page of complaints names a test that does not exist, or names too few.

A complaint is a heading `### N. …`. It names tests in backticks: `tests/….py::name`,
`tests/….py::Class::name`, `tests/conformance/….yaml: name of the case`. One that names none says
`Not covered:` and why.
"""

import argparse
import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
HEADING = re.compile(r"^### (\d+)\. .+$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[^`]+)`")
CASE = re.compile(r"^ *- name: (.+?) *$", re.MULTILINE)
DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Page(NamedTuple):
    """A list of complaints: its file, how many there are, and how many at least name a test."""

    path: Path
    complaints: int
    tested_min: int


PAGES = (
    Page(ROOT / "docs" / "complaints.md", 35, 25),
    Page(ROOT / "docs" / "billing-complaints.md", 28, 28),
)


def main() -> int:
    """1 where anything is wrong, after naming all of it."""
    wrong = 0
    for page in PAGES:
        problems, tested = problems_of(page.path.read_text(), page)
        wrong += len(problems)
        said = f"{tested} of {page.complaints} complaints are ruled out by tests that exist"
        print("\n".join(f"{page.path.name}: {each}" for each in problems or [said]))
    return 1 if wrong else 0


def problems_of(text: str, page: Page) -> tuple[list[str], int]:
    """What is wrong with a page of this text, and how many complaints name a test."""
    parts = HEADING.split(text)
    sections = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    numbers = [int(number) for number in parts[1::2]]
    problems = (
        [] if numbers == list(range(1, page.complaints + 1)) else [f"complaints are numbered {numbers}"]
    )
    tested = 0
    for number, section in sections.items():
        named = [" ".join(each.split()) for each in NAMED.findall(section)]
        tested += bool(named)
        if not named and "Not covered:" not in section:
            problems.append(f"{number}: no test, and no reason why")
        problems += [f"{number}: {name} does not exist" for name in named if not exists(name)]
    if tested < page.tested_min:
        problems.append(f"{tested} complaints name a test, {page.tested_min} must")
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
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    sys.exit(main())
