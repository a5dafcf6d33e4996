"""Places that safety marked in an answer, and the veto that ended it, as a log, a stored answer and a frame
have them. Workers write them: nothing else of what they wrote gets through. Pure."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from core.redis.unreadable import Unreadable, read
from engine.api import Entry, EntryKind

NUMBER_END = 1 << 31

Category = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,63}\Z")]
PolicyScope = Literal["platform", "tenant", "project"]


class LoggedFlag(Struct, frozen=True):
    """A place in the visible text, `n` code points from `p` on: a redaction's placeholder, or what was only
    flagged. `scope` says whose policy it was."""

    category: Category
    action: Literal["redact", "flag"]
    scope: PolicyScope
    p: Annotated[int, Meta(ge=0, lt=NUMBER_END)]
    n: Annotated[int, Meta(ge=1, lt=NUMBER_END)]

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.p + self.n


class SentFlag(Struct, frozen=True, omit_defaults=True):
    """A place in the text as its sender sent it, `n` code points from `p` on, of the message `m` where
    several were sent, or of `system`. `x`: the placeholder that model and history got in its stead."""

    category: Category
    action: Literal["redact", "flag"]
    scope: PolicyScope
    p: int
    n: int
    x: str | None = None
    m: int | Literal["system"] | None = None


class RefusedPrompt(Struct, frozen=True, omit_defaults=True):
    """The place in the text as its sender sent it for which all of it was refused."""

    category: Category
    scope: PolicyScope
    p: int
    n: int
    m: int | Literal["system"] | None = None


class EndSafety(Struct, frozen=True):
    """What blocked an answer, and whose policy it was."""

    category: Category
    scope: PolicyScope


flag_of = msgspec.json.Decoder(LoggedFlag).decode
"""The flag that an entry's value says. Raises one of core.redis.unreadable.ERRORS."""


def flags_after(entries: Sequence[Entry], before: Sequence[LoggedFlag] = ()) -> list[LoggedFlag]:
    """The flags once these entries are applied, in log order. A retract drops those that do not end at its
    position at the latest; an entry that says no flag adds none."""
    flags = list(before)
    for entry in entries:
        if entry.k is EntryKind.RETRACT:
            flags = within(flags, entry.p)
        elif entry.k is EntryKind.FLAGGED:
            flag = read("flag", flag_of, entry.v)
            flags += [] if isinstance(flag, Unreadable) else [flag]
    return flags


def within(flags: Sequence[LoggedFlag], points: int) -> list[LoggedFlag]:
    """The flags that lie whole in a text of so many code points."""
    return [flag for flag in flags if flag.end <= points]
