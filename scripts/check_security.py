"""Fails where docs/security.md makes a promise that no existing test holds.

A section is a heading `## Who`, its promises are its list items (`- …`). Each names at least one test, as
`tests/….py::name` or `tests/….yaml: name of the case` in backticks.
"""

import argparse
import re
import sys
from pathlib import Path

from check_complaints import NAMED, exists

PAGE = Path(__file__).parent.parent / "docs" / "security.md"
WHO = ("A stranger", "A tenant", "An end user", "An operator", "A compromised worker")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
PROMISE = re.compile(r"^- (.+(?:\n  .+)*)", re.MULTILINE)


def main() -> int:
    """1 where anything is wrong, after naming all of it."""
    problems, promises = problems_of(PAGE.read_text())
    said = f"{promises} promises are held by tests that exist"
    print("\n".join(f"{PAGE.name}: {each}" for each in problems or [said]))
    return 1 if problems else 0


def problems_of(text: str) -> tuple[list[str], int]:
    """What is wrong with a page of this text, and how many promises it makes."""
    parts = SECTION.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    problems = [f"there is no section {who!r}" for who in WHO if not PROMISE.search(sections.get(who, ""))]
    promises = 0
    for who in WHO:
        for promise in PROMISE.findall(sections.get(who, "")):
            promises += 1
            words, named = _parts(promise)
            if not named:
                problems.append(f"{words!r} names no test")
            problems += [f"{words!r}: {name} does not exist" for name in named if not exists(name)]
    return problems, promises


def _parts(promise: str) -> tuple[str, list[str]]:
    flat = " ".join(promise.split())
    return flat.partition(" `tests/")[0], NAMED.findall(flat)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    sys.exit(main())
