"""Who makes a change: the person or service behind what this task does, for the record of changes.

Known to the whole task and to those it starts, so that what makes a change need not hand it on.
"""

import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

NAME_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class Author:
    """`source`: by what way the change came: command, api, code, approved (a command,
    with a second person), or process (nobody asked for it)."""

    name: str
    source: str


_current: ContextVar[Author | None] = ContextVar("author", default=None)


def current_author() -> Author:
    """Who was named by `acting_as`, else the user that this process runs as."""
    return _current.get() or Author(process_user(), "process")


@contextmanager
def acting_as(author: Author) -> Generator[None]:
    """What the block changes, it changes for this author."""
    token = _current.set(Author(author.name[:NAME_CHARACTERS_MAX], author.source))
    try:
        yield
    finally:
        _current.reset(token)


def process_user() -> str:
    """The operating system's user, and who became it by sudo. Not from what the environment says of either,
    except for the latter."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    before = os.environ.get("SUDO_USER") if os.getuid() == 0 else None
    return f"{name} (sudo by {before})" if before else name
