"""What frames tell of a model's context: how much of a conversation a prompt has, and what does not fit."""

from msgspec import Struct


class ContextUse(Struct, frozen=True):
    """What of its conversation a prompt has: turns `kept`, this one too, and `dropped`; `room`: tokens that
    turns may still have before some are dropped."""

    kept: int
    dropped: int
    room: int


class TokenCounts(Struct, frozen=True):
    """Tokens of what is too large: how many it `has`, and how many would `fit`."""

    has: int
    fit: int
