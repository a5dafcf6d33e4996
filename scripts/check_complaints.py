"""Fails where a page of docs names a test that does not exist.

A test is named in backticks: `tests/….py::name`, `tests/….py::Class::name`, `tests/….yaml: name of the case`.
"""

import argparse
import ast
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`(tests/[^`]+(?:\.py::|\.yaml: )[^`]+)`")
CASE = re.compile(r"^ *- name: (.+?) *$", re.MULTILINE)
DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def main() -> int:
    """1 where anything is wrong, after naming all of it."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    problems = [f"{page.name}: {each}" for page in pages for each in problems_of(page.read_text())]
    print("\n".join(problems or [f"the tests that {len(pages)} pages name exist"]))
    return 1 if problems else 0


def problems_of(text: str) -> list[str]:
    """The tests that a page of this text names wrongly."""
    named = [" ".join(each.split()) for each in NAMED.findall(text)]
    return [f"{name} does not exist" for name in named if not exists(name)]


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
