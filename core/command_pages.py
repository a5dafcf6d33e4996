"""Help pages of commands, kept beside the code, so that `--help` imports none of what the commands need.

Made by scripts/command_pages.py from the commands themselves. A page is taken only as long as the sources it
was made of are those that lie here: who edits a command sees its new help at once, only later by a second.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parent.parent
FILE = Path(__file__).with_suffix(".json")
HELP = ("-h", "--help")
COLUMNS = 80  # click folds at 80 where a terminal is wider


class CommandPages(TypedDict):
    """What is kept of one command: a line for the list, and its pages by the words that follow its name."""

    sources: list[str]
    digest: str
    line: str
    pages: dict[str, str]


def page_for(arguments: Sequence[str], kept: Mapping[str, CommandPages]) -> str | None:
    """The page that these arguments ask for and nothing else; None where click has to make it."""
    if len(arguments) < 2 or arguments[-1] not in HELP or shutil.get_terminal_size().columns < COLUMNS:
        return None
    command = kept.get(arguments[0])
    if command is None or not is_current(command):
        return None
    return command["pages"].get(" ".join(arguments[1:-1]))


def line_of(name: str, kept: Mapping[str, CommandPages]) -> str | None:
    """What the list of commands says of this one; None where click has to ask it."""
    command = kept.get(name)
    return command["line"] if command is not None and is_current(command) else None


def is_current(command: CommandPages) -> bool:
    """Whether it was made of the sources that lie here."""
    try:
        return command["digest"] == digest(command["sources"])
    except OSError:
        return False


def digest(sources: Iterable[str]) -> str:
    """Of the contents of these files, named from the root."""
    whole = blake2b(digest_size=16)
    for each in sources:
        whole.update(_digest_of_file(each))
    return whole.hexdigest()


@cache
def _digest_of_file(source: str) -> bytes:
    return blake2b((ROOT / source).read_bytes(), digest_size=16).digest()


@cache
def kept_pages() -> Mapping[str, CommandPages]:
    """Those of `parley`; none where the file is missing."""
    try:
        return json.loads(FILE.read_text("utf-8"))
    except OSError:
        return {}
