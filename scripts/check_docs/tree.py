"""The files of the working tree and their texts, read once; and a fault found in one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from scripts.working_tree import files

KINDS = {".py", ".lua", ".js", ".ts", ".tsx", ".md", ".yaml", ".yml", ".toml", ".css", ".html", ""}
EXAMPLES = {
    "scripts/check_docs/references.py",
    "tests/docs/test_check_docs.py",
}  # they name what does not exist


class Fault(NamedTuple):
    """A line that is wrong, and what to do about it."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Tree:
    """The texts that are checked, and the paths of all files, by which links are resolved."""

    texts: Mapping[str, str]
    files: frozenset[str]

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that holds a file."""
        return frozenset(str(folder) for file in self.files for folder in PurePosixPath(file).parents)

    @cached_property
    def endings(self) -> frozenset[str]:
        """Every file with any of its folders in front: `a/b.py` and `b.py`."""
        parts = [PurePosixPath(file).parts for file in self.files]
        return frozenset("/".join(each[at:]) for each in parts for at in range(len(each)))

    def pages(self) -> list[str]:
        """The pages of Markdown."""
        return [name for name in self.texts if name.endswith(".md")]


def read(root: Path) -> Tree:
    """The working tree as git sees it, with what is not committed yet."""
    found = files(root)
    paths = {name: root / name for name in found if name not in EXAMPLES}
    texts = {
        name: path.read_text()
        for name, path in paths.items()
        if path.suffix in KINDS and not path.is_symlink()
    }
    return Tree(texts, frozenset(found))


def line_of(text: str, at: int) -> int:
    """The number of the line at this offset, from 1."""
    return text.count("\n", 0, at) + 1
