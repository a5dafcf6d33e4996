"""The author of a change: the person or service behind this task, for the record of changes.

Held in a context variable, which tasks started here inherit, so that no function needs to hand it on.
"""

import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

NAME_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class Author:
    """`source`: the way by which the change came: command, api, approved (a second person agreed to it),
    or process (nobody asked for it). `reason`: why, in their words; it stands in the audit row."""

    name: str
    source: str
    reason: str = ""


_current: ContextVar[Author | None] = ContextVar("author", default=None)


def current_author() -> Author:
    """The author named by `acting_as`, else the user that this process runs as."""
    return _current.get() or Author(process_user(), "process")


@contextmanager
def acting_as(author: Author) -> Generator[None]:
    """Attribute every change made in the block to this author."""
    token = _current.set(replace(author, name=author.name[:NAME_CHARACTERS_MAX]))
    try:
        yield
    finally:
        _current.reset(token)


def process_user() -> str:
    """The operating system's user, and who became it by sudo. Of environment variables only sudo's is
    read."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    before = os.environ.get("SUDO_USER") if os.getuid() == 0 else None
    return f"{name} (sudo by {before})" if before else name
