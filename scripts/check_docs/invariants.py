"""Invariants of docs/invariants.md that no test proves, and numbers that are cited and have no row there.

A test proves what its docstring begins with (`INV-8: …`, `INV-24, INV-32: …`), a conformance case what its
`why` begins with. Tests of the long form alone do not count.
"""

import ast
import re
from collections.abc import Iterator, Mapping

from scripts.check_docs.named_tests import DEFINED
from scripts.check_docs.tree import Fault, Tree, line_of

PAGE = "docs/invariants.md"
ROW = re.compile(r"^\| (INV-\d+) \|", re.MULTILINE)
NUMBER = re.compile(r"\bINV-\d+\b")
PROVES = re.compile(r"(INV-\d+(?:, INV-\d+)*): \S")
CASE = re.compile(r"^ *- name: (.+?) *$|^ *why: [\"']?(INV-.+)$", re.MULTILINE)


def faults(tree: Tree) -> Iterator[Fault]:
    """Invariants without a proof, rows out of order, and citations of rows that are not there."""
    page = tree.texts[PAGE]
    rows = {found[1]: line_of(page, found.start()) for found in ROW.finditer(page)}
    proved = set[str]().union(*proofs(tree).values())
    for number, (row, line) in enumerate(rows.items(), start=1):
        if row != f"INV-{number}":
            yield Fault(PAGE, line, f"{row} stands where INV-{number} is due: number the rows from 1")
        if row not in proved:
            yield Fault(PAGE, line, f'no test proves {row}: begin the docstring of one with "{row}: "')
    for name, text in tree.texts.items():
        for found in NUMBER.finditer(text):
            if found[0] not in rows:
                what = f"{found[0]} has no row in {PAGE}: cite one that has"
                yield Fault(name, line_of(text, found.start()), what)


def listed(tree: Tree) -> list[str]:
    """Each invariant with each test that proves it."""
    proving = proofs(tree)
    rows = ROW.findall(tree.texts[PAGE])
    return [f"{row}: {name}" for row in rows for name, proved in proving.items() if row in proved]


def proofs(tree: Tree) -> Mapping[str, set[str]]:
    """The invariants that each test proves; tests that prove none are left out."""
    tests = {name: text for name, text in tree.texts.items() if name.startswith("tests/") and "INV-" in text}
    return {test: proved for name, text in tests.items() for test, proved in proofs_in(name, text).items()}


def proofs_in(name: str, text: str) -> dict[str, set[str]]:
    """The invariants that each test of one file proves."""
    said = _cases(text) if name.endswith(".yaml") else _tests(text) if name.endswith(".py") else ()
    found = {f"{name}::{test}": PROVES.match(words) for test, words in said}
    return {test: set(each[1].split(", ")) for test, each in found.items() if each}


def _tests(text: str) -> Iterator[tuple[str, str]]:
    tree = ast.parse(text)
    marks = [
        each.value for each in tree.body if isinstance(each, ast.Assign) and "pytestmark" in ast.unparse(each)
    ]
    if any(_is_long(each) for each in marks):
        return
    for node in ast.walk(tree):
        if not isinstance(node, DEFINED) or not node.name.lower().startswith("test"):
            continue
        if not any(_is_long(each) for each in node.decorator_list):
            yield node.name, ast.get_docstring(node) or ""


def _is_long(node: ast.AST) -> bool:
    return "mark.long" in ast.unparse(node) and "parametrize" not in ast.unparse(node)


def _cases(text: str) -> Iterator[tuple[str, str]]:
    case = ""
    for name, why in CASE.findall(text):
        case = name or case
        if why:
            yield case, why
