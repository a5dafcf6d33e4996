"""The committed list of faults, `tests/mutations.yaml`: reading and checking it, applying one."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

LISTED = "tests/mutations.yaml"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
KEYS = {"was", "now", "fails"}


class Mutation(NamedTuple):
    """One fault. `was`: text that stands once in the file; `fails`: node ids of which one must fail."""

    file: str
    was: str
    now: str
    fails: tuple[str, ...]

    @property
    def shown(self) -> str:
        """In one line."""
        return f"{self.file}: {_short(self.was)} -> {_short(self.now)}"


class BadEntryError(ValueError):
    """An entry that says nothing that can be tried; the text says which and why."""


def load(root: Path) -> list[Mutation]:
    """All entries, in order. Raises BadEntryError for the first that is malformed."""
    return parsed(yaml.load((root / LISTED).read_text(), Loader))


def parsed(document: Any) -> list[Mutation]:
    """`{file: [{was, now, fails}]}` as mutations. Pure."""
    if not isinstance(document, dict):
        raise BadEntryError("the list is a map of files to faults")
    return [_one(str(file), entry) for file, entries in document.items() for entry in entries or []]


def _one(file: str, entry: Any) -> Mutation:
    if not isinstance(entry, dict) or entry.keys() != KEYS:
        raise BadEntryError(f"{file}: an entry has exactly {', '.join(sorted(KEYS))}: {entry!r}")
    fails = entry["fails"] if isinstance(entry["fails"], list) else [entry["fails"]]
    mutation = Mutation(file, entry["was"], entry["now"], tuple(fails))
    if (
        not mutation.was
        or mutation.was == mutation.now
        or not all("::" in test for test in fails)
        or not fails
    ):
        raise BadEntryError(f"{mutation.shown}: nothing changes, or no test (file.py::name) is named")
    return mutation


def mutated(text: str, mutation: Mutation) -> str:
    """The file's text with the fault. Raises BadEntryError unless `was` stands in it exactly once. Pure."""
    count = text.count(mutation.was)
    if count != 1:
        raise BadEntryError(
            f"{mutation.shown}: stands {count} times in the file, not once. Put a successor in its place and "
            "name it in the commit"
        )
    return text.replace(mutation.was, mutation.now)


def unappliable(root: Path, mutations: Sequence[Mutation]) -> list[str]:
    """What cannot be tried as the tree is now, one line each."""
    found: list[str] = []
    for mutation in mutations:
        try:
            mutated((root / mutation.file).read_text(), mutation)
        except (OSError, BadEntryError) as error:
            found.append(str(error))
        found += [
            f"{mutation.shown}: there is no {test}" for test in mutation.fails if not _exists(root, test)
        ]
    return found


def _exists(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    name = name.partition("[")[0].rpartition("::")[2]
    return (root / file).is_file() and f"def {name}(" in (root / file).read_text()


def sampled(mutations: Sequence[Mutation], count: int, seed: str) -> list[Mutation]:
    """`count` of them, the same ones for the same seed. Pure."""
    return random.Random(seed).sample(mutations, min(count, len(mutations)))


def _short(text: str) -> str:
    line = " ".join(text.split()) or "nothing"
    return line if len(line) <= 60 else f"{line[:57]}..."
