"""Fresh faults, drawn by a seed over all lines of the product's Python and Lua that can be executed."""

import random
import re
from collections.abc import Mapping
from pathlib import Path

from scripts.mutations.entries import Mutation
from scripts.mutations.operators import Change, lua_changes, python_changes, unique
from scripts.mutations.reached import PACKAGES, Reached
from scripts.working_tree import files

GENERATED = ("core/migrations/",)  # a released migration never changes


def drawn(root: Path, known: Reached, count: int, seed: str, only: str = "") -> list[Mutation]:
    """`count` faults in files whose path begins with `only`, each line as likely as another, with the tests
    that reach it; the same for the same seed and tree. Of a line that no test is known to reach: the tests of
    its file, else of the files that import it. Where there are none, it survives."""
    texts = {
        file: (root / file).read_text()
        for file in files(root)
        if file.split("/")[0] in PACKAGES and file.endswith((".py", ".lua"))
    }
    lines: list[tuple[str, list[Change]]] = []
    for file, text in texts.items():
        if not file.startswith(GENERATED) and file.startswith(only):
            lines += [(file, changes) for changes in by_line(file, text)]
    chosen = random.Random(seed)
    return [
        _mutation(texts, known, file, chosen.choice(of))
        for file, of in chosen.sample(lines, min(count, len(lines)))
    ]


def by_line(file: str, text: str) -> list[list[Change]]:
    """What the operators make of a file, line by line. Pure."""
    changes = lua_changes if file.endswith(".lua") else python_changes
    lines: dict[int, list[Change]] = {}
    for change in changes(text):
        lines.setdefault(change.line, []).append(change)
    return list(lines.values())


def _mutation(texts: Mapping[str, str], known: Reached, file: str, change: Change) -> Mutation:
    was, now = unique(texts[file], change)
    tests = (
        known.tests_of(file, change.line)
        or known.tests_of_files([file])
        or known.tests_of_files(importers(texts, file))
    )
    return Mutation(file, was, now, tests)


def importers(texts: Mapping[str, str], file: str) -> list[str]:
    """The product's files that import it; of a Lua script, those that name it. Pure."""
    if file.endswith(".lua"):
        named = re.compile(rf'"{Path(file).stem}(\.lua)?"')
        return [each for each, text in texts.items() if '"lua"' in text and named.search(text)]
    module = file.removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    said = re.compile(
        rf"^\s*(from {module} import|import {module}\b|from {package} import .*\b{name}\b)", re.M
    )
    return [each for each, text in texts.items() if each.endswith(".py") and said.search(text)]
