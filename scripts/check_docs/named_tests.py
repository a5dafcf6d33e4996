"""Tests that pages name, and promises that name none.

A test is named in backticks: `tests/….py::name`, `tests/….py::Class::name`, or, for a case of the
conformance suite, `tests/conformance/….yaml: name of the case`.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

from scripts.check_docs.tree import Fault, Tree, line_of

PROMISES = "docs/security.md"
WHO = ("A stranger", "A tenant", "An end user", "An operator", "A compromised worker")
NAMED = re.compile(r"`(tests/[^`]+(?:\.py::|\.yaml:\s)[^`]+)`")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
PROMISE = re.compile(r"^- .+(?:\n  .+)*", re.MULTILINE)
CASE = re.compile(r"^ *- name: (.+?) *$", re.MULTILINE)
DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def faults(tree: Tree) -> Iterator[Fault]:
    """Tests named by any page that do not exist, and promises of security without a test."""
    for page in tree.pages():
        text = tree.texts[page]
        for found in NAMED.finditer(text):
            name = " ".join(found[1].split())
            if not exists(name, tree):
                what = f"there is no test {name}: name the one that holds this now"
                yield Fault(page, line_of(text, found.start()), what)
    yield from promises_without_test(tree.texts.get(PROMISES, ""))


def promises_without_test(text: str) -> Iterator[Fault]:
    """List items of the page of promises that name no test, and sections that are missing."""
    starts = [(found[1], found.start()) for found in SECTION.finditer(text)]
    for missing in set(WHO) - {who for who, _ in starts}:
        yield Fault(PROMISES, 1, f'there is no section "{missing}": say what is promised to them')
    for (who, start), (_, end) in zip(starts, [*starts[1:], ("", len(text))], strict=True):
        promises = list(PROMISE.finditer(text, start, end)) if who in WHO else []
        for found in promises:
            if not NAMED.search(found[0]):
                what = "this promise names no test: name one that holds it"
                yield Fault(PROMISES, line_of(text, found.start()), what)


def exists(name: str, tree: Tree) -> bool:
    """A test of this name is there."""
    file, found, rest = name.partition(".py::")
    if found:
        return tuple(rest.split("::")) in python_tests(tree.texts.get(f"{file}.py", ""))
    file, _, case = name.partition(".yaml: ")
    return case in conformance_cases(tree.texts.get(f"{file}.yaml", ""))


@cache
def python_tests(text: str) -> frozenset[tuple[str, ...]]:
    """The tests of a file: functions, classes, their methods, and classes made by assignment."""
    names: set[tuple[str, ...]] = set()
    for node in ast.parse(text).body:
        if isinstance(node, DEFINED):
            names.add((node.name,))
        if isinstance(node, ast.ClassDef):
            names.update((node.name, each.name) for each in node.body if isinstance(each, DEFINED))
        if isinstance(node, ast.Assign):
            names.update((each.id,) for each in node.targets if isinstance(each, ast.Name))
    return frozenset(name for name in names if name[-1].lower().startswith("test"))


@cache
def conformance_cases(text: str) -> frozenset[str]:
    """The names of a file's cases."""
    return frozenset(name.strip("\"'") for name in CASE.findall(text))
