"""What a filter says about an answer: flags that are logged with it, and the block that ends it. Pure."""

from typing import Literal

import msgspec

Action = Literal["block", "redact", "flag"]
Scope = Literal["platform", "tenant", "project"]


class Flag(msgspec.Struct, frozen=True):
    """The value of a FLAGGED entry: `n` code points of the visible text, from `p` on, are a redaction's
    placeholder or were flagged."""

    category: str
    action: Literal["redact", "flag"]
    scope: Scope
    p: int
    n: int


class Block(msgspec.Struct, frozen=True):
    """Whose rule ended an answer, and for what."""

    category: str
    scope: Scope
