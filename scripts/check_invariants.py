"""Fails where an invariant of docs/invariants.md is proved by no test, or where an unknown one is cited.

A test proves what its docstring begins with (`INV-8: …`, `INV-24, INV-32: …`), a conformance case what its
`why` begins with. Tests of the long form alone do not count. Anywhere else a number that is named must exist.
`--list` prints who proves what.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator

from check_complaints import DEFINED, ROOT

PAGE = ROOT / "docs" / "invariants.md"
ROW = re.compile(r"^\| (INV-\d+) \|", re.MULTILINE)
NUMBER = re.compile(r"\bINV-\d+\b")
PROVES = re.compile(r"(INV-\d+(?:, INV-\d+)*): \S")
CASE = re.compile(r"^ *- name: (.+?) *$|^ *why: [\"']?(INV-.+)$", re.MULTILINE)
FOLDERS = ("core", "billing", "engine", "server", "admin", "chaos", "clients", "scripts", "docs", "tests")
KINDS = {".py", ".lua", ".js", ".md", ".yaml"}
EXAMPLES = {"scripts/check_invariants.py", "tests/docs/test_invariants.py"}  # they name what does not exist


def main(listed: bool) -> int:
    """1 where anything is wrong, after naming all of it."""
    rows = ROW.findall(PAGE.read_text())
    proofs = {name: found for path in _files("tests") for name, found in proofs_in(*path).items()}
    if listed:
        print("\n".join(f"{row}: {name}" for row in rows for name, found in proofs.items() if row in found))
    cited = {path: set(NUMBER.findall(text)) for path, text in _all_files() if path not in EXAMPLES}
    problems = problems_of(rows, proofs, cited)
    said = f"{len(rows)} invariants are proved by {len(proofs)} tests"
    print("\n".join(f"{PAGE.name}: {each}" for each in problems or [said]))
    return 1 if problems else 0


def problems_of(rows: list[str], proofs: dict[str, set[str]], cited: dict[str, set[str]]) -> list[str]:
    """What is wrong: `proofs` by test, `cited` by file."""
    proved = set[str]().union(*proofs.values())
    numbers = [f"INV-{number}" for number in range(1, len(rows) + 1)]
    return [
        *([] if rows == numbers else [f"the rows are numbered {rows}"]),
        *(f"{row}: no test proves it" for row in rows if row not in proved),
        *(
            f"{path} cites {each}, which has no row here"
            for path in sorted(cited)
            for each in sorted(cited[path] - set(rows))
        ),
    ]


def proofs_in(path: str, text: str) -> dict[str, set[str]]:
    """What each test of a file proves; tests that prove no invariant are left out."""
    said = _cases(text) if path.endswith(".yaml") else _tests(text) if path.endswith(".py") else ()
    found = {f"{path}::{name}": PROVES.match(words) for name, words in said}
    return {name: set(each[1].split(", ")) for name, each in found.items() if each}


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


def _all_files() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        yield from _files(folder)


def _files(folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in KINDS and path.is_file():
            yield str(path.relative_to(ROOT)), path.read_text()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print who proves what")
    sys.exit(main(parser.parse_args().list))
